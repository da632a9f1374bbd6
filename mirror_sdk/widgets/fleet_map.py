"""The overview of a fleet: a tile for each device, the worst first; a click leads to the explorer."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from mirror_sdk._client import MirrorClient
from mirror_sdk.events import Event
from mirror_sdk.naming import DeviceLike
from mirror_sdk.widgets.base import MirrorWidget
from mirror_sdk.widgets.choices import Choices
from mirror_sdk.widgets.explorer import Explorer
from mirror_sdk.widgets.markup import bar, heading, status
from mirror_sdk.widgets.models.fleet_model import (
    DEFAULT_STALE_AFTER_SECONDS,
    Condition,
    DeviceSummary,
    FleetModel,
)
from mirror_sdk.widgets.pager import Pager

_WORDS = {
    Condition.FAILED: ("✗", "with a failed write", "mirror-bad"),
    Condition.DRIFT: ("≠", "drifting", "mirror-warn"),
    Condition.PENDING: ("…", "with a pending write", "mirror-note"),
    Condition.STALE: ("◔", "with stale values", "mirror-warn"),
    Condition.SILENT: ("○", "never reported", ""),
    Condition.GONE: ("∅", "not registered", ""),
    Condition.FINE: ("✓", "all as asked for", "mirror-good"),
}
_SHOWN = [("all devices", None), *((_WORDS[one][1], one) for one in Condition)]
NAME_SHOWN = 40
_FULL = {"width": "auto"}


class FleetMap(MirrorWidget):
    """Drift, staleness and pending writes of the whole fleet at a glance; a tile opens its device in an explorer.

    It looks again at the devices that events are about, and every minute at all of them.

    Args:
        client: The mirror.
        stale_after_seconds: How old a value may be for which the device gave no time of its own.
        live: Whether it changes by itself; without, a button works until it is done.
        keep_earlier: Whether an earlier overview of this client stays, where the page does not tell which cell runs.

    Raises:
        TypeError: ``client`` is no :class:`MirrorClient`.
        ValueError: ``stale_after_seconds`` is not above 0.

    >>> with FleetMap(client, live=False) as fleet:
    ...     fleet.model.counts_text
    '2 devices · 0 failed writes · 0 drifting values · 0 pending writes · 0 stale values'
    """

    def __init__(
        self,
        client: MirrorClient,
        *,
        stale_after_seconds: float = DEFAULT_STALE_AFTER_SECONDS,
        live: bool = True,
        keep_earlier: bool = False,
    ) -> None:
        super().__init__(client, live=live, keep_earlier=keep_earlier)
        self.model: FleetModel = FleetModel(client, self._live.run, stale_after_seconds=stale_after_seconds)
        self.explorer: Explorer | None = None
        self._tiles: list[_Tile] = []
        self.model.load()
        self.begin(*self._views())

    def take(self, events: Sequence[Event], overrun: int) -> None:  # noqa: ARG002 - it looks at devices, not at each event
        """Look again at what the events are about."""
        self.model.take(events)

    def tick(self) -> None:
        """Look again where it is time to."""
        self.model.tick()

    def render(self) -> None:
        """Show the model."""
        if not self.is_changed:
            return
        shown = self.model.tiles
        while len(self._tiles) < len(shown):
            self._tiles.append(_Tile(self))
        if len(self.tiles_view.children) < len(self._tiles):
            self.tiles_view.children = [tile.button for tile in self._tiles]
        for number, tile in enumerate(self._tiles):
            tile.show(shown[number] if number < len(shown) else None)
        parts = [(*_WORDS[one], count) for one, count in self.model.counts.items()]
        self.bar_view.value = bar(parts)
        self.title_view.value = heading("Fleet", self.model.counts_text)
        self.empty_view.value = status(self.model.empty_text)
        self.condition.show(_SHOWN, [self.model.condition])
        self.pager.show(self.model.pages)

    def show_device(self, device_id: DeviceLike) -> None:
        """Open a device in the explorer below the tiles.

        >>> fleet = FleetMap(client, live=False)
        >>> fleet.show_device(light)
        >>> fleet.explorer.model.title
        'light-01'
        """
        if self.explorer is None or self.explorer.comm is None:
            self.explorer = Explorer(self.client, device_id, live=self._is_live, keep_earlier=True)
            self.explorer_view.children = [self.explorer]
        else:
            self.explorer.choose(device_id)
        self.explorer.resource_search.focus()

    @property
    def tile_buttons(self) -> list[widgets.Button]:
        """The tiles that are shown.

        >>> for tile in FleetMap(client, live=False).tile_buttons:
        ...     print(tile.description)
        ○ light-01
        never reported
        ○ station-01
        never reported
        """
        return [tile.button for tile in self._tiles if tile.device_id]

    def _views(self) -> list[widgets.Widget]:
        model = self.model
        self.title_view = widgets.HTML(layout=_FULL)
        self.bar_view = widgets.HTML(layout={"width": "100%"})
        self.search = widgets.Text(description="Search", placeholder="name or id", style={"description_width": "50px"})
        self.condition = Choices("Show", lambda wanted: model.find(model.search, wanted), self.handler)
        self.reload_button = widgets.Button(description="Read again", tooltip="Read the whole fleet again")
        self.search.observe(self.changed(lambda text: model.find(text, model.condition)), "value")
        self.reload_button.on_click(self.handler(lambda _: model.load()))
        bar_row = widgets.HBox([self.search, self.reload_button], layout={"flex_flow": "row wrap"})
        self.tiles_view = widgets.GridBox(
            layout={"grid_template_columns": "repeat(auto-fill, minmax(170px, 1fr))", "grid_gap": "6px"}
        )
        self.empty_view = widgets.HTML(layout=_FULL)
        self.pager = Pager("devices", model.turn_page, self.handler)
        self.explorer_view = widgets.VBox(layout={"width": "100%"})
        return [
            self.title_view,
            self.bar_view,
            bar_row,
            self.condition,
            self.tiles_view,
            self.empty_view,
            self.pager,
            self.explorer_view,
        ]


class _Tile:
    """A device as a button. Tiles are used again for other devices, so that the focus stays."""

    def __init__(self, fleet: FleetMap) -> None:
        self.device_id = ""
        self.button = widgets.Button()
        self.button.on_click(fleet.handler(lambda _: self._open(fleet)))

    def _open(self, fleet: FleetMap) -> None:
        # It may be gone from here before the page has heard of it.
        if self.device_id:
            fleet.show_device(self.device_id)

    def show(self, summary: DeviceSummary | None) -> None:
        self.device_id = summary.device_id if summary else ""
        self.button.layout.display = "block" if summary else "none"
        if summary is None:
            return
        sign, _, name = _WORDS[summary.worst]
        self.button.description = f"{sign} {_short(summary.name)}\n{summary.text}"
        self.button.tooltip = f"{summary.name} ({summary.device_id}): {summary.text}. Opens the device below."
        self.button._dom_classes = ("mirror-tile", name) if name else ("mirror-tile",)


def _short(name: str) -> str:
    return name if len(name) <= NAME_SHOWN else f"{name[: NAME_SHOWN - 1]}…"
