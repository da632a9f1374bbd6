"""The HTML of widgets. Every text goes through ``escape`` here: it may come from a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mirror_sdk.widgets.models.marks import Mark
from mirror_sdk.widgets.theme import CSS

STYLE = f"<style>{CSS}</style>"


def heading(title: str, subtitle: str = "") -> str:
    """A title and what is said below it."""
    return (
        f'<div class="mirror-title" role="heading" aria-level="3">{escape(title)}</div>'
        f'<div class="mirror-dim">{escape(subtitle)}</div>'
    )


def dim(text: str) -> str:
    """A line of less weight."""
    return f'<div class="mirror-dim">{escape(text)}</div>' if text else ""


def pictured(text: str) -> str:
    """What a picture beside it shows, for those who do not see it."""
    return f'<div class="mirror-hidden" role="img" aria-label="{escape(text)}"></div>'


def status(text: str) -> str:
    """A line that screen readers tell when it changes."""
    return f'<div class="mirror-dim" role="status">{escape(text)}</div>'


def notices(texts: Sequence[str]) -> str:
    """What went wrong; screen readers tell it at once."""
    lines = "".join(f"<p>{escape(text)}</p>" for text in texts)
    return f'<div class="mirror-notices" role="alert">{lines}</div>' if texts else ""


def problem(text: str) -> str:
    """What is wrong with what was entered, beside its field; screen readers tell it when it changes."""
    return f'<div class="mirror-problem mirror-tone-bad" role="status">✗ {escape(text)}</div>' if text else ""


def legend(marks: Iterable[Mark]) -> str:
    """What the signs mean, folded until somebody asks."""
    lines = "".join(
        f'<li><span class="mirror-tone-{one.tone}">{escape(one.text)}</span>: {escape(one.meaning)}</li>'
        for one in marks
    )
    return f'<details class="mirror-signs"><summary>What the signs mean</summary><ul>{lines}</ul></details>'
