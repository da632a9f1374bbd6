"""Who hears of which resource, as it was looked up: values come by the thousand, and subscriptions seldom change."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from mirror_server.core.instants import Instant

_MOST = 50_000
"""So many take some 20 MB; beyond that all are forgotten."""


@dataclass(slots=True)
class Hearing:
    """Who hears of a resource that was observed, and what is to be known to tell them.

    Attributes:
        endpoint_name: That of its device.
        app_ids: The applications that hold a subscription of it, while the device observes it for any of them.
        auto_observed: Whether the device sends it without a subscription.
        changed_at: The device's time in the last observation event of it; who tells of another one notes that here.
    """

    endpoint_name: str
    app_ids: list[str]
    auto_observed: bool
    changed_at: Instant | None


class KnownHearings:
    """What was looked up, by device id and path; for the thread that writes alone."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Hearing] = {}
        self._version: Hashable | None = None

    def as_of(self, version: Hashable | None) -> dict[tuple[str, str], Hearing]:
        """What is known at this version, to be added to; with ``None``, or another version than before, nothing."""
        if version is None or version != self._version or len(self._known) > _MOST:
            self._known, self._version = {}, version
        return self._known

    def forget(self) -> None:
        """Forget all, because what was noted was undone."""
        self._known, self._version = {}, None
