"""The CoRE link format, such as ``</3303/0/5700>;obs,</>;rt="oma.lwm2m";ct="110 112"``. Source: RFC 6690, section 2."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

# The quantifiers are possessive, so that no text causes backtracking. A value without quotes may contain spaces, which
# the RFC does not allow, because Leshan's client writes its content formats in this way.
_TARGET = re.compile(r"\s*+<\s*+([^<>\s]*+)\s*+>\s*+")
_ATTRIBUTE = re.compile(r';\s*+([^\s;,="<>]*+)\s*+(?:=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^;,"]*+)))?+\s*+', re.DOTALL)
_SEPARATOR = re.compile(r",\s*+")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_EXAMPLE = 'write links like </3303/0/5700>;obs,</1/0>;ver="1.1"'


class Link(NamedTuple):
    """A link with its attributes by name in lower case. An attribute without a value is ``""``.

    If an attribute occurs twice, the first one is used.
    """

    target: str
    attributes: Mapping[str, str]


class InvalidLinkFormat(ValueError):
    """A string is not in the CoRE link format. The message contains the position of the error and an example."""


def parse_links(text: str) -> Iterator[Link]:
    """Yield the links in a string. Empty links between commas are skipped.

    Raises:
        InvalidLinkFormat: A part of the string is not a link.
    """
    position = 0
    while position < len(text):
        if separator := _SEPARATOR.match(text, position):
            position = separator.end()
            continue
        link, position = _link(text, position)
        yield link


def _link(text: str, position: int) -> tuple[Link, int]:
    target = _TARGET.match(text, position)
    if target is None:
        raise _no_links(text, position)
    position = target.end()
    attributes: dict[str, str] = {}
    while attribute := _ATTRIBUTE.match(text, position):
        position = attribute.end()
        name, quoted, bare = attribute.groups()
        value = (bare or "").rstrip() if quoted is None else _ESCAPE.sub(r"\1", quoted)
        attributes.setdefault(name.lower(), value)
    if position < len(text) and text[position] != ",":
        raise _no_links(text, position)
    attributes.pop("", None)
    return Link(target[1], attributes), position


def _no_links(text: str, position: int) -> InvalidLinkFormat:
    return InvalidLinkFormat(
        f"no link begins at character {position}: {reprlib.repr(text[position : position + 40])}; {_EXAMPLE}"
    )
