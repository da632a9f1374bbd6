"""The units that devices report for their sensors (resource 5701), and the times at which they reported them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import datetime
from operator import itemgetter

from mirror_sdk.arrow_tables.units import Units, instance_of, is_in_named_unit, names_unit, unitless_of, units_of
from mirror_sdk.events import Event
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.model import Model


class EventUnits:
    """The units of events.

    Args:
        model: The model to which the units belong. Its client reads the current units.
        changed: A function that is called when the unit of events may have changed.
    """

    def __init__(self, model: Model, changed: Callable[[], object]) -> None:
        self._model = model
        self._changed = changed
        self._present: dict[tuple[str, str], str] = {}
        self._named: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
        self._requested: set[tuple[str, str]] = set()

    def learn(self, events: Iterable[Event]) -> None:
        """Store the units that the events contain, by device id and object instance."""
        for event in events:
            device_id, path = event.device_id or "", event.path or ""
            if event.unit and is_in_named_unit(path):
                # Rows of the history have a unit, but entries of the log do not.
                self._present.setdefault((device_id, path), event.unit)
            if not names_unit(path) or event.value is None or event.value.kind is not ValueKind.TEXT:
                continue
            unit, at = str(event.value.python), event.changed_at or event.received_at
            named = self._named.setdefault((device_id, instance_of(path)), [])
            index = bisect_right(named, at, key=itemgetter(0))
            if not index or named[index - 1][1] != unit:
                named.insert(index, (at, unit))
                self._changed()

    def unit_of(self, event: Event) -> str:
        """Return the unit of an event.

        It is the event's own unit, or else the last unit that the device had reported before.
        """
        device_id, path = event.device_id or "", event.path or ""
        if event.unit or not is_in_named_unit(path):
            return event.unit or ""
        named = self._named.get((device_id, instance_of(path)), [])
        index = bisect_right(named, event.changed_at or event.received_at, key=itemgetter(0))
        return named[index - 1][1] if index else self._present.get((device_id, path), "")

    def request(self, events: Iterable[Event]) -> None:
        """Read the current units of resources from the mirror, unless they were already requested."""
        keys = {(event.device_id or "", event.path or "") for event in events if event.value is not None}
        new = {key for key in keys - self._requested if is_in_named_unit(key[1])}
        if not new:
            return
        self._requested |= new

        def read() -> Units:
            state = self._model.client._tables.units_of(unitless_of(new))
            return {} if state is None else units_of(state)

        # If the units cannot be read, the declared units are displayed.
        self._model.run(read, self._accept, lambda _: None)

    def _accept(self, units: Units) -> None:
        self._present |= units
        self._changed()
