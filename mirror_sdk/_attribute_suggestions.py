"""The base of a client and its groups, which completes public names and suggests the right name for a wrong one.

A client has about 60 methods in nine groups. Users therefore often guess the right method name in the wrong group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from mirror_sdk._fork import lazy_property

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
"""The correct expressions for wrong names that are not similar to them."""


class WithAttributeSuggestions:
    """The base class of a client and of its groups of methods. It suggests the right name for a wrong one."""

    _expression = "client"
    """The expression with which users refer to the object."""

    def _client(self) -> WithAttributeSuggestions:
        return self

    def __dir__(self) -> Iterable[str]:
        """List the public members and the special methods."""
        return [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, or reject a read-only or unknown name, because setting it would have no effect."""
        is_read_only = isinstance(getattr(type(self), name, None), lazy_property | property)
        if is_read_only:
            raise AttributeError(f"{self._expression}.{name} cannot be set; use a variable for your value")
        # A subclass of the user may have attributes of its own, and a test may replace a method.
        is_known = name.startswith("_") or hasattr(type(self), name)
        if not is_known and type(self).__module__.startswith("mirror_sdk."):
            raise AttributeError(
                f"{self._expression} has no attribute {name!r} that can be set; pass options such as timeout= when you"
                " create the client, or to one of its methods"
            )
        super().__setattr__(name, value)

    if not TYPE_CHECKING:  # otherwise a type checker would accept any name

        def __getattr__(self, name: str) -> object:
            """Raise an error that suggests the right name, if a similar one exists."""
            # A group is missing only if __init__ has not run yet. A suggestion would then read the groups again without
            # end.
            if name.startswith("_") or isinstance(getattr(type(self), name, None), lazy_property):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{self._expression} has no attribute {name!r}; {_cure(self, name)}")


def _cure(owner: WithAttributeSuggestions, name: str) -> str:
    expression = owner._expression
    known = _OTHER_NAMES.get(f"{expression}.{name}")
    similar = [known] if known else _similar_members(owner, name) or _same_name(owner._client(), name)
    if similar:
        return f"use {' or '.join(similar)}"
    return f"it has {', '.join(member for member in dir(owner) if not member.startswith('_'))}"


def _similar_members(owner: WithAttributeSuggestions, name: str) -> list[str]:
    """Return the most similar members of the owner. If none is similar, search its groups, and then their groups."""
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


def _same_name(client: WithAttributeSuggestions, name: str) -> list[str]:
    return [f"client.{one}(...)" for one in dir(client) if one == name and callable(getattr(type(client), one, None))]


def _members_of(owner: WithAttributeSuggestions) -> list[str]:
    """List the members of the owner and of its groups, as users write them."""
    found = []
    for name in dir(owner):
        member = getattr(type(owner), name, None)
        if not name.startswith("_"):
            found.append(f"{owner._expression}.{name}{'(...)' if callable(member) else ''}")
        if isinstance(member, lazy_property):
            found += _members_of(getattr(owner, name))
    return found


def _parts(member: str) -> list[str]:
    return member.removesuffix("(...)").removeprefix(".").split(".")


def _similarity(name: str, parts: list[str], *, is_on_client: bool) -> float:
    """Return how similar the words of a name are to those of a member, in any order and with or without its groups.

    A wrong suggestion is worse than no suggestion. The name must therefore also contain the group of the member, with
    two exceptions. These are members of the owner itself and, if the owner is the client, those members of its groups
    that delete nothing.
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
    """Return the words of a name as singulars, sorted."""
    return sorted(re.sub("ies$", "y", word).removesuffix("s") for word in name.split("_"))
