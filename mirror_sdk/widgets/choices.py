"""A choice of a few: buttons, of which those that are chosen have a mark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import ipywidgets as widgets

_LIST = {"display": "flex", "flex_flow": "column", "width": "auto"}
_ROW = {"display": "flex", "flex_flow": "row wrap", "align_items": "center", "grid_gap": "2px"}


class Choices(widgets.Box):  # type: ignore[misc] # ipywidgets has no types
    """Buttons to choose with, by mouse, Tab and Enter.

    No list of the browser: in a notebook, JupyterLab takes arrows and letters that are pressed there for its own, and
    moves to another cell or cuts one. Buttons are used again for other options, so that the focus stays.

    Args:
        of_what: What is chosen.
        choose: Told of the option that was pressed.
        handler: Makes handlers of buttons.
        signs: What stands before an option that is chosen, and before one that is not.
        is_list: Whether the options stand below each other, without a name before them.
    """

    def __init__(
        self,
        of_what: str,
        choose: Callable[[Any], object],
        handler: Callable[[Callable[..., object]], Callable[..., None]],
        *,
        signs: tuple[str, str] = ("●", "○"),
        is_list: bool = False,
    ) -> None:
        self._of_what = of_what
        self._choose = choose
        self._handler = handler
        self._signs = signs
        self._options: list[Any] = []
        self._buttons: list[widgets.Button] = []
        self._head = [] if is_list else [widgets.Label(of_what, layout={"margin": "0 4px 0 0"})]
        super().__init__(self._head, layout=_LIST if is_list else _ROW)
        self.add_class("mirror-choices")

    @property
    def buttons(self) -> list[widgets.Button]:
        """The buttons that are shown, one for each option."""
        return self._buttons[: len(self._options)]

    def show(self, options: Sequence[tuple[str, Any]], chosen: Collection[Any]) -> None:
        """Show these options, given as (text, option), and which of them are chosen."""
        self._options = [option for _, option in options]
        while len(self._buttons) < len(options):
            self._buttons.append(self._button(len(self._buttons)))
            self.children = [*self._head, *self._buttons]
        for number, button in enumerate(self._buttons):
            button.layout.display = "block" if number < len(options) else "none"
        for button, (text, option) in zip(self._buttons, options, strict=False):
            is_chosen = option in chosen
            button.description = f"{self._signs[not is_chosen]} {text}"
            button.tooltip = f"{self._of_what}: {text}{', chosen' if is_chosen else ''}"
            button._dom_classes = ("mirror-chosen",) if is_chosen else ()

    def _button(self, number: int) -> widgets.Button:
        button = widgets.Button(layout={"width": "auto"})
        button.on_click(self._handler(lambda _: self._press(number)))
        return button

    def _press(self, number: int) -> None:
        # It may be gone from here before the page has heard of it.
        if number < len(self._options):
            self._choose(self._options[number])
