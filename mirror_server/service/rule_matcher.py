"""Matches presubscription rules with the resources of devices, by indexes that are kept. Source: specification 3.3."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from mirror_server.core.rule_index import RuleIndex
from mirror_server.store.devices import DeviceRow
from mirror_server.store.subscriptions import Matched


class RuleMatcher:
    """An index of the rules of each application, together with the text that it was made of."""

    def __init__(self) -> None:
        self._indexes: dict[str, tuple[str, RuleIndex]] = {}

    def prepare(self, app_id: str, text: str) -> None:
        """Make the index of these rules before a transaction needs it."""
        self._indexes[app_id] = text, RuleIndex(orjson.loads(text))

    def match(self, app_id: str, text: str, device: DeviceRow, paths: Iterable[str]) -> list[Matched]:
        """Return the resources of a device that a rule of the application matches.

        Args:
            app_id: The application.
            text: Its rules, as they are stored.
            device: The device.
            paths: Its resources that can be observed.
        """
        known_text, index = self._indexes.get(app_id, (None, None))
        if index is None or known_text != text:
            self.prepare(app_id, text)
            index = self._indexes[app_id][1]
        positions = index.positions(
            paths,
            device_id=device.device_id,
            endpoint_name=device.endpoint_name,
            endpoint_type=device.endpoint_type,
        )
        return [
            Matched(position, device.device_id, path, device.endpoint_name, device.endpoint_type)
            for path, position in positions.items()
        ]
