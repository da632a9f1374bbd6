"""What widgets are made of, so that the same thing looks and works the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets

from mirror_sdk.widgets.markup import status
from mirror_sdk.widgets.models.marks import Mark, Tone

FULL = {"width": "100%"}
LABELLED = {"description_width": "70px"}
"""The style of a field whose label stands before it: fields below each other begin on one line."""
_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "8px", "width": "100%"}
_BAR_STYLES = {Tone.BAD: "danger", Tone.WARN: "warning", Tone.GOOD: "success"}

Handler = Callable[[Callable[..., object]], Callable[..., None]]


def button(description: str, tooltip: str, press: Callable[..., None], *, is_primary: bool = False) -> widgets.Button:
    """A button; a widget has one that is primary at most, the one that people came for."""
    made = widgets.Button(description=description, tooltip=tooltip, button_style="primary" if is_primary else "")
    made.on_click(press)
    return made


def row(*parts: widgets.Widget) -> widgets.HBox:
    """Parts beside each other, and below each other where there is no room."""
    return widgets.HBox(parts, layout=_ROW)


class Progress(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """How far something is, as a bar and in words; without anything to do it is the words alone."""

    def __init__(self) -> None:
        self.bar = widgets.IntProgress(layout={"width": "220px", "display": "none"})
        self.text_view = widgets.HTML(layout={"flex": "1 1 300px", "width": "auto"})
        super().__init__([self.bar, self.text_view], layout=_ROW | {"min_height": "32px"})

    def show(self, text: str, done: int = 0, total: int = 0, tone: Tone = Tone.NOTE) -> None:
        """Show it.

        Args:
            text: How far it is, in words; screen readers tell it when it changes.
            done: How much of it is done.
            total: How much there is to do; 0 where there is nothing, or nobody knows.
            tone: How it goes.
        """
        self.bar.layout.display = "flex" if total else "none"
        self.bar.max, self.bar.value = max(total, 1), done
        self.bar.bar_style = _BAR_STYLES.get(tone, "")
        self.text_view.value = status(text)


class CountFilter(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """How many stand how, as buttons that show these alone; the first of them shows all again.

    Args:
        of_what: What is counted, such as ``writes``.
        marks: The states there may be, in this order.
        choose: Told of the state that is to be shown, ``None`` for all.
        handler: Makes handlers of buttons.
    """

    def __init__(
        self, of_what: str, marks: Sequence[Mark], choose: Callable[[Mark | None], object], handler: Handler
    ) -> None:
        self._of_what = of_what
        self._choose = choose
        self._chosen: Mark | None = None
        self.buttons: dict[Mark | None, widgets.ToggleButton] = {}
        for mark in (None, *marks):
            made = widgets.ToggleButton(value=mark is None)
            made.add_class("mirror-count")
            if mark is not None:
                made.add_class(f"mirror-tone-{mark.tone}")
            made.observe(handler(lambda change, mark=mark: self._press(mark, is_pressed=change["new"])), "value")
            self.buttons[mark] = made
        super().__init__(list(self.buttons.values()), layout=_ROW)

    def show(self, counts: Mapping[Mark, int], chosen: Mark | None) -> None:
        """Show the counts, without those of which there is none, and which is chosen."""
        self._chosen = chosen
        total = sum(counts.values())
        for mark, one in self.buttons.items():
            count = total if mark is None else counts.get(mark, 0)
            what = f"all {self._of_what}" if mark is None else f"the {self._of_what} that are: {mark.word}"
            one.description = f"{count:,} {self._of_what}" if mark is None else f"{mark.sign} {count:,} {mark.word}"
            one.tooltip = f"Show {what}{', chosen' if mark is chosen else ''}"
            one.value = mark is chosen
            one.layout.display = "inline-block" if count or mark is chosen else "none"

    def _press(self, mark: Mark | None, *, is_pressed: bool) -> None:
        """Choose a state; pressed again, all are shown."""
        wanted = mark if is_pressed else None
        if wanted is self._chosen:
            # Nothing else would put back the one that shows all.
            self.buttons[wanted].value = True
        else:
            self._choose(wanted)
