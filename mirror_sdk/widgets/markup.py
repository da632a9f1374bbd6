"""The HTML of widgets. Every text goes through ``escape`` here: it may come from a device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

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


def status(text: str) -> str:
    """A line that screen readers tell when it changes."""
    return f'<div class="mirror-dim" role="status">{escape(text)}</div>'


def notices(texts: Sequence[str]) -> str:
    """What went wrong; screen readers tell it at once."""
    lines = "".join(f"<p>{escape(text)}</p>" for text in texts)
    return f'<div class="mirror-notices" role="alert">{lines}</div>' if texts else ""


def table(caption: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns are (name, width), cells are texts."""
    widths = "".join(f'<col style="width: {escape(width)}">' for _, width in columns)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name, _ in columns)
    body = "".join(
        "<tr>" + "".join(f'<td title="{escape(cell)}">{escape(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<table class="mirror-table"><caption class="mirror-hidden">{escape(caption)}</caption>'
        f"<colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def cells(named: Iterable[tuple[str, str, str, str]]) -> str:
    """A row of cells, as (what it is, text, classes, more of it).

    What a cell is is told to screen readers alone; what is more of it also where it is pointed at.
    """
    spans = "".join(
        f'<span class="{escape(classes)}" title="{escape(" — ".join(filter(None, (text, more))))}">'
        f'<span class="mirror-hidden">{escape(name)}: </span>{escape(text)}'
        f'<span class="mirror-hidden"> {escape(more)}</span></span>'
        if text
        else "<span></span>"
        for name, text, classes, more in named
    )
    return f'<div class="mirror-row">{spans}</div>'


def head(names: Iterable[str]) -> str:
    """The names over rows of cells; each row tells them to screen readers itself."""
    spans = "".join(f"<span>{escape(name)}</span>" for name in names)
    return f'<div class="mirror-row mirror-head" aria-hidden="true">{spans}</div>'


def bar(parts: Iterable[tuple[str, str, str, int]]) -> str:
    """Shares of a whole as a bar with a legend; parts are (sign, text, class, count)."""
    there = [part for part in parts if part[-1]]
    spans = "".join(f'<span class="{escape(name)}" style="flex: {count}"></span>' for _, _, name, count in there)
    legend = "".join(
        f'<li><span class="mirror-dot {escape(name)}"></span>{escape(sign)} {count:,} {escape(text)}</li>'
        for sign, text, name, count in there
    )
    return f'<div class="mirror-bar" aria-hidden="true">{spans}</div><ul class="mirror-legend">{legend}</ul>'
