"""The HTML of widgets. It escapes every text, because a text may come from a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from mirror_sdk.widgets.models.status import Status
from mirror_sdk.widgets.theme import CSS

STYLE = f"<style>{CSS}</style>"


def heading(title: str, subtitle: str = "") -> str:
    """A title, and a line below it."""
    return f'<div class="mirror-title" role="heading" aria-level="3">{escape(title)}</div>{dim(subtitle)}'


def dim(text: str) -> str:
    """A line in a weaker color."""
    return f'<div class="mirror-dim">{escape(text)}</div>' if text else ""


def image_text(text: str) -> str:
    """The content of a picture in words, for screen readers."""
    return f'<div class="mirror-hidden" role="img" aria-label="{escape(text)}"></div>'


def status_line(text: str) -> str:
    """A line that screen readers read when it changes."""
    return f'<div class="mirror-dim" role="status">{escape(text)}</div>'


def notices(texts: Sequence[str]) -> str:
    """Notices, which screen readers read at once."""
    lines = "".join(f"<p>{escape(text)}</p>" for text in texts)
    return f'<div class="mirror-notices" role="alert">{lines}</div>' if texts else ""


def problem(text: str) -> str:
    """The problem of an input, next to its field. Screen readers read it when it changes."""
    return f'<div class="mirror-problem mirror-tone-bad" role="status">✗ {escape(text)}</div>' if text else ""


def legend(statuses: Iterable[Status]) -> str:
    """A folded legend of statuses."""
    lines = "".join(
        f'<li><span class="mirror-tone-{one.tone}">{escape(one.text)}</span>: {escape(one.meaning)}</li>'
        for one in statuses
    )
    return f'<details class="mirror-signs"><summary>Legend</summary><ul>{lines}</ul></details>'
