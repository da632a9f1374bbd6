"""Reads the descriptions of the OpenAPI document from the docstrings of views and models."""

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
    """Return the first line of a view's docstring without its period, and the paragraphs after it."""
    summary, _, meaning = _in_markdown(inspect.getdoc(view) or "", view.__module__).partition("\n\n")
    return summary.removesuffix("."), meaning


def prose(model: type) -> str:
    """Return a model's docstring without its attributes."""
    return inspect.cleandoc(model.__doc__ or "").partition(_ATTRIBUTES)[0]


def meanings_of_attributes(model: type) -> dict[str, str]:
    """Return the description of each attribute from the docstrings of a model and its base classes."""
    meanings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition(_ATTRIBUTES)
        meanings |= {name: _in_markdown(text, base.__module__) for name, text in _ATTRIBUTE.findall(section)}
    return meanings


def _in_markdown(text: str, module: str) -> str:
    """Join the lines of each paragraph, and replace references to constants by their values.

    A constant belongs to the module itself or, by its full name, to a module that it imports.
    """

    def value(reference: re.Match[str]) -> str:
        other_module, _, name = reference[1].rpartition(".")
        return _format(getattr(sys.modules[other_module or module], name))

    return _CONSTANT.sub(value, _BREAK_IN_PARAGRAPH.sub(" ", text)).replace("``", "`")


def _format(constant: object) -> str:
    if isinstance(constant, Mapping):
        return ", ".join(f"`{word}` ({number})" for number, word in constant.items())
    if isinstance(constant, Collection):
        return ", ".join(f"`{word}`" for word in constant)
    return str(constant)
