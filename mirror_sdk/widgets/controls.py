"""The controls that several widgets use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets

from mirror_sdk.widgets.markup import status_line
from mirror_sdk.widgets.models.status import Status, Tone

FULL = {"width": "100%"}
LABELED = {"description_width": "70px"}
"""The style of a field with a label: fields below each other start on one line."""
_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "8px", "width": "100%"}
_BAR_STYLES = {Tone.BAD: "danger", Tone.WARN: "warning", Tone.GOOD: "success"}


def row(*parts: widgets.Widget) -> widgets.HBox:
    """Parts next to each other, and below each other where there is no room."""
    return widgets.HBox(parts, layout=_ROW)


def side_by_side(left: widgets.Widget) -> tuple[widgets.Box, widgets.Box]:
    """A box for ``left`` and what is put next to it, and the room for it, on which its direction depends."""
    sides = widgets.Box([left])
    sides.add_class("mirror-sides")
    room = widgets.Box([sides], layout=FULL)
    room.add_class("mirror-room")
    return sides, room


class Progress(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """Progress as a bar and in words; in words alone where there is nothing to do."""

    def __init__(self) -> None:
        self.bar = widgets.IntProgress(layout={"width": "220px", "display": "none"})
        self.text_view = widgets.HTML(layout={"flex": "1 1 300px", "width": "auto"})
        super().__init__([self.bar, self.text_view], layout=_ROW | {"min_height": "32px"})

    def show(self, text: str, done: int = 0, total: int = 0, tone: Tone = Tone.NOTE) -> None:
        """Show it.

        Args:
            text: The progress in words; screen readers read it when it changes.
            done: How much is done.
            total: How much there is to do; 0 where there is nothing, or that is not known.
            tone: The color of the bar.
        """
        self.bar.layout.display = "flex" if total else "none"
        self.bar.max, self.bar.value = max(total, 1), done
        self.bar.bar_style = _BAR_STYLES.get(tone, "")
        self.text_view.value = status_line(text)


class CountFilter(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """The count of each status, as buttons that show its rows alone; the first button shows all again.

    Args:
        noun: What is counted, such as ``writes``.
        statuses: The statuses, in this order.
        choose: Called with the status to show, ``None`` for all.
        handler: Makes handlers of buttons.
    """

    def __init__(
        self,
        noun: str,
        statuses: Sequence[Status],
        choose: Callable[[Status | None], object],
        handler: Callable[[Callable[..., object]], Callable[..., None]],
    ) -> None:
        self._noun = noun
        self._choose = choose
        self._chosen: Status | None = None
        self.buttons: dict[Status | None, widgets.ToggleButton] = {}
        for status in (None, *statuses):
            made = widgets.ToggleButton(value=status is None)
            made.add_class("mirror-count")
            if status is not None:
                made.add_class(f"mirror-tone-{status.tone}")
            made.observe(handler(lambda change, status=status: self._press(status, is_on=change["new"])), "value")
            self.buttons[status] = made
        super().__init__(list(self.buttons.values()), layout=_ROW)

    def show(self, counts: Mapping[Status, int], chosen: Status | None) -> None:
        """Show the counts above 0, and which status is chosen."""
        self._chosen = chosen
        total = sum(counts.values())
        for status, button in self.buttons.items():
            count = total if status is None else counts.get(status, 0)
            rows = f"all {self._noun}" if status is None else f"the {self._noun} with the status {status.word.lower()}"
            button.description = f"{count:,} {self._noun}" if status is None else count_text(status, count)
            button.tooltip = f"Show {rows}{', chosen' if status is chosen else ''}"
            button.value = status is chosen
            button.layout.display = "inline-block" if count or status is chosen else "none"

    def _press(self, status: Status | None, *, is_on: bool) -> None:
        """Choose a status; pressed again, all are shown."""
        chosen = status if is_on else None
        if chosen is self._chosen:
            # The button that shows all stays pressed.
            self.buttons[chosen].value = True
        else:
            self._choose(chosen)


def count_text(status: Status, count: int) -> str:
    """Return a count of a status: ``→ 3 to write``."""
    return f"{status.sign} {count:,} {status.word.lower()}"
