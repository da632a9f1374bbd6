"""The controls that widgets share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets

from mirror_sdk.widgets.markup import status_line
from mirror_sdk.widgets.models.status import Status, Tone

FULL = {"width": "100%"}
LABELED = {"description_width": "70px"}
"""The style of a field with a label. It aligns fields below each other."""
_ROW = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "8px", "width": "100%"}
_BAR_STYLES = {Tone.BAD: "danger", Tone.WARN: "warning", Tone.GOOD: "success"}


def row(*views: widgets.Widget) -> widgets.HBox:
    """Return a row of views, which wraps in a narrow page."""
    return widgets.HBox(views, layout=_ROW)


def side_by_side(left: widgets.Widget) -> tuple[widgets.Box, widgets.Box]:
    """Return a box for ``left`` and a view next to it, and the container whose width decides its direction."""
    sides = widgets.Box([left])
    sides.add_class("mirror-sides")
    room = widgets.Box([sides], layout=FULL)
    room.add_class("mirror-room")
    return sides, room


class Progress(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """Progress as a bar and in words; only in words if there is nothing to do."""

    def __init__(self) -> None:
        self.bar = widgets.IntProgress(layout={"width": "220px", "display": "none"})
        self.text_view = widgets.HTML(layout={"flex": "1 1 300px", "width": "auto"})
        super().__init__([self.bar, self.text_view], layout=_ROW | {"min_height": "32px"})

    def show(self, text: str, done: int = 0, total: int = 0, tone: Tone = Tone.NOTE) -> None:
        """Show the progress.

        Args:
            text: The progress in words; screen readers read it when it changes.
            done: The amount done.
            total: The total amount; 0 if it is unknown or there is nothing to do.
            tone: The color of the bar.
        """
        self.bar.layout.display = "flex" if total else "none"
        self.bar.max, self.bar.value = max(total, 1), done
        self.bar.bar_style = _BAR_STYLES.get(tone, "")
        self.text_view.value = status_line(text)


class CountFilter(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """The count of each status, as buttons that show only its rows. The first button shows all rows.

    Args:
        noun: The counted things, such as ``writes``.
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
        """Show the counts above 0, and mark the chosen status."""
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
        """Choose a status, or all if it was chosen already."""
        chosen = status if is_on else None
        if chosen is self._chosen:
            # The first button stays pressed.
            self.buttons[chosen].value = True
        else:
            self._choose(chosen)


def count_text(status: Status, count: int) -> str:
    """Return a count of a status: ``→ 3 to write``."""
    return f"{status.sign} {count:,} {status.word.lower()}"
