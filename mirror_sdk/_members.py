"""The base of a client and its resources: completion shows public members, and an error for a wrong name has a cure.

A client has about 60 methods in nine groups, so a guessed name is often right and only its group is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from inspect import isfunction
from typing import TYPE_CHECKING, TypeVar

from mirror_sdk._fork import unlocked_property

T = TypeVar("T")

_LEAST_SIMILARITY = 0.85
_SAME_WORDS = 0.95
_REMOVING = frozenset({"delete", "remove", "replace"})
_OTHER_NAMES = {
    "client.attributes": "client.devices.list(attributes=...)",
    "client.decoder": "mirror_sdk.register_decoder(...)",
    "client.devices.attributes": "client.devices.list(attributes=...)",
    "client.devices.find": "client.devices.list(...)",
    "client.find": "client.devices.list(...)",
    "client.get_value": "client.read_value(...)",
    "client.observe": "client.subscribe(...)",
    "client.plans.create": "client.plan(...)",
    "client.register_decoder": "mirror_sdk.register_decoder(...)",
    "client.requests.table": "client.requests.frame(...)",
    "client.set": "client.write_value(...)",
    "client.set_value": "client.write_value(...)",
    "client.subscriptions.add": "client.subscriptions.rules.add(...)",
    "client.table": "client.state_frame(...)",
}
"""Names that are not similar to the right one."""


class WithMembers:
    """An object with public members that users type: a client, or a group of its methods."""

    _expression = "client"
    """The object as users write it."""

    def _client(self) -> WithMembers:
        return self

    def __dir__(self) -> Iterable[str]:
        return [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]

    def __setattr__(self, name: str, value: object) -> None:
        is_group = isinstance(getattr(type(self), name, None), unlocked_property)
        if is_group:
            raise AttributeError(f"{self._expression}.{name} cannot be set; use a variable for your value")
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # which would believe that there are members of any name

        def __getattr__(self, name: str) -> object:
            # A group is missing only in an object whose __init__ has not run; a cure would read the groups again.
            if name.startswith("_") or isinstance(getattr(type(self), name, None), unlocked_property):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{self._expression} has no attribute {name!r}; {_cure(self, name)}")


def with_own_qualnames(kind: type[T]) -> type[T]:
    """Change the qualified names of inherited methods to those of the class, as tracebacks and errors display them."""
    for base in kind.__bases__:
        for method in filter(isfunction, vars(base).values()):
            method.__qualname__ = f"{kind.__name__}.{method.__name__}"
    return kind


def _cure(owner: WithMembers, name: str) -> str:
    expression = owner._expression
    known = _OTHER_NAMES.get(f"{expression}.{name}")
    similar = [known] if known else _similar_members(owner, name) or _same_name(owner._client(), name)
    if similar:
        return f"use {' or '.join(similar)}"
    return f"it has {', '.join(member for member in dir(owner) if not member.startswith('_'))}"


def _similar_members(owner: WithMembers, name: str) -> list[str]:
    """Return the most similar members of the owner; if it has none, those of its groups, and so on."""
    nearest: dict[int, dict[str, float]] = {}
    for member in _members_of(owner):
        parts = _parts(member.removeprefix(owner._expression))
        is_on_client = owner._expression == "client"
        nearest.setdefault(len(parts), {})[member] = _similarity(name, parts, is_on_client=is_on_client)
    for _, similarities in sorted(nearest.items()):
        best = max(similarities.values())
        if best >= _LEAST_SIMILARITY:
            return [member for member, similarity in similarities.items() if similarity == best]
    return []


def _same_name(client: WithMembers, name: str) -> list[str]:
    return [f"client.{one}(...)" for one in dir(client) if one == name and callable(getattr(type(client), one, None))]


def _members_of(owner: WithMembers) -> list[str]:
    """List the members as users write them: the owner's and those of its groups."""
    found = []
    for name in dir(owner):
        member = getattr(type(owner), name, None)
        if not name.startswith("_"):
            found.append(f"{owner._expression}.{name}{'(...)' if callable(member) else ''}")
        if isinstance(member, unlocked_property):
            found += _members_of(getattr(owner, name))
    return found


def _parts(member: str) -> list[str]:
    return member.removesuffix("(...)").removeprefix(".").split(".")


def _similarity(name: str, parts: list[str], *, is_on_client: bool) -> float:
    """Compare the words of a name, in any order, with those of a member, which may include those of its groups.

    A wrong cure is worse than none. So the name must include the group of a member that removes something, unless it
    was tried on that group; and the group of a member of another group than the one it was tried on.
    """
    words_of_name, own = _words(name), _words(parts[-1])
    is_removing = not _REMOVING.isdisjoint(own)
    if is_removing and _REMOVING.isdisjoint(words_of_name):
        return 0
    found = [_ratio(words_of_name, _words("_".join(parts[begin:]))) for begin in range(len(parts) - 1)]
    if len(parts) == 1 or (is_on_client and len(parts) == 2 and not is_removing):
        found.append(_ratio(words_of_name, own))
        if not is_removing and set(words_of_name) < set(own):
            found.append(_SAME_WORDS)
    return max(found, default=0)


def _ratio(words: list[str], other: list[str]) -> float:
    return SequenceMatcher(None, " ".join(words), " ".join(other)).ratio()


def _words(name: str) -> list[str]:
    """Return the words of a name in the singular, sorted."""
    return sorted(re.sub("ies$", "y", word).removesuffix("s") for word in name.split("_"))
