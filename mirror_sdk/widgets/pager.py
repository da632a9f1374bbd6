"""Buttons that turn the pages of a long list."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from mirror_sdk.widgets.markup import status
from mirror_sdk.widgets.models.pages import Pages


class Pager(widgets.HBox):  # type: ignore[misc] # ipywidgets has no types
    """Previous, which page it is, next.

    Args:
        of_what: What the pages hold, for people who do not see them.
        turn: Told by how many pages to go on.
        handler: Makes handlers of buttons.
    """

    def __init__(
        self,
        of_what: str,
        turn: Callable[[int], object],
        handler: Callable[[Callable[..., object]], Callable[..., None]],
    ) -> None:
        self.previous = widgets.Button(description="Previous", tooltip=f"Previous page of {of_what}")
        self.next = widgets.Button(description="Next", tooltip=f"Next page of {of_what}")
        self.text = widgets.HTML()
        self.previous.on_click(handler(lambda _: turn(-1)))
        self.next.on_click(handler(lambda _: turn(1)))
        super().__init__([self.previous, self.text, self.next], layout={"align_items": "center"})

    def show(self, pages: Pages) -> None:
        """Show which page it is; nothing where there is only one."""
        self.layout.display = "flex" if pages.count > 1 else "none"
        self.text.value = status(pages.text)
