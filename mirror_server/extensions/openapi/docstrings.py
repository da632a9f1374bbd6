"""The texts of the description, out of the docstrings of views and models."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any

_ATTRIBUTES = "\n\nAttributes:\n"
_ATTRIBUTE = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_CONSTANT = re.compile(r":data:`~?([\w.]+)`")
_BREAK_IN_PARAGRAPH = re.compile(r"(?<!\n)\n *(?!\n)")


def summary_and_meaning(view: Any) -> tuple[str, str]:
    """The first line of a view's docstring without its full stop, and the paragraphs behind it."""
    summary, _, meaning = _in_markdown(inspect.getdoc(view) or "", view.__module__).partition("\n\n")
    return summary.removesuffix("."), meaning


def prose(model: type) -> str:
    """What a model's docstring says of it as a whole."""
    return inspect.cleandoc(model.__doc__ or "").partition(_ATTRIBUTES)[0]


def meanings_of_attributes(model: type) -> dict[str, str]:
    """What the docstrings of a model and of its bases say of each attribute."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        _, _, section = inspect.cleandoc(kind.__doc__ or "").partition(_ATTRIBUTES)
        found |= {name: _in_markdown(text, kind.__module__) for name, text in _ATTRIBUTE.findall(section)}
    return found


def _in_markdown(text: str, module: str) -> str:
    """A text of a module without its line breaks, and with the value of each constant that it names.

    A constant is its own or, by its full name, one of a module that it imports.
    """

    def value(named: re.Match[str]) -> str:
        place, _, name = named[1].rpartition(".")
        return _shown(getattr(sys.modules[place or module], name))

    return _CONSTANT.sub(value, _BREAK_IN_PARAGRAPH.sub(" ", text)).replace("``", "`")


def _shown(constant: object) -> str:
    if isinstance(constant, Mapping):
        return ", ".join(f"`{word}` ({number})" for number, word in constant.items())
    if isinstance(constant, Collection):
        return ", ".join(f"`{word}`" for word in constant)
    return str(constant)
