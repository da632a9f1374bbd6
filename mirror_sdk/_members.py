"""The base of a client and its resources: completion shows public members, and an error for a wrong name has a cure.

A client has about 60 methods in nine groups, so a guessed name is often right and only its group is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from inspect import isfunction
from typing import TYPE_CHECKING, TypeVar

from mirror_sdk._fork import unlocked_property

T = TypeVar("T")

_LEAST_SIMILARITY = 0.7
_SAME_WORDS = 0.95
_OTHER_NAMES = {
    "attributes": "client.devices.list(attributes=...)",
    "decoder": "mirror_sdk.register_decoder(...)",
    "find": "client.devices.list(...)",
    "get_value": "client.read_value(...)",
    "observe": "client.subscribe(...)",
    "register_decoder": "mirror_sdk.register_decoder(...)",
    "set": "client.write_value(...)",
    "set_value": "client.write_value(...)",
    "table": "client.state_frame(...)",
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
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"{self._expression} has no attribute {name!r}; {_cure(self, name)}")


def shown_as_its_own(kind: type[T]) -> type[T]:
    """Have errors show the methods that a class has from its bases as its own."""
    for base in kind.__bases__:
        for method in filter(isfunction, vars(base).values()):
            method.__qualname__ = f"{kind.__name__}.{method.__name__}"
    return kind


def _cure(owner: WithMembers, name: str) -> str:
    if name in _OTHER_NAMES:
        return f"use {_OTHER_NAMES[name]}"
    own = _members_of(owner)
    # Of members that are equally similar, ``max`` returns the first: the nearest one.
    similar = max([*own, *_members_of(owner._client())], key=lambda member: _similarity(name, member))
    if _similarity(name, similar) >= _LEAST_SIMILARITY:
        return f"use {similar}"
    return f"it has {', '.join(name for name in dir(owner) if not name.startswith('_'))}"


def _members_of(owner: WithMembers) -> list[str]:
    """List the members as users write them: first the owner's, then those of its groups."""
    own, of_groups = [], []
    for name in dir(owner):
        member = getattr(type(owner), name, None)
        if not name.startswith("_"):
            own.append(f"{owner._expression}.{name}{'(...)' if callable(member) else ''}")
        if isinstance(member, unlocked_property):
            of_groups += _members_of(getattr(owner, name))
    return own + of_groups


def _similarity(name: str, member: str) -> float:
    """Compare the words of a name, in any order, with those of a member, with and without those of its groups."""
    parts = member.removesuffix("(...)").split(".")[1:]
    wanted = sorted(name.split("_"))
    return max(_compare(wanted, sorted("_".join(parts[begin:]).split("_"))) for begin in range(len(parts)))


def _compare(wanted: list[str], words: list[str]) -> float:
    ratio = SequenceMatcher(None, " ".join(wanted), " ".join(words)).ratio()
    return max(ratio, _SAME_WORDS) if set(wanted) < set(words) else ratio
