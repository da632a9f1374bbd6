"""The options of methods that return tables, which all overloads of a method by ``as_`` share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from mirror_sdk.device import DeviceHistoryOptions
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.wire.snapshot import Compression


class StateOptions(TypedDict, total=False):
    """The options of ``client.state_frame()``."""

    paths: Sequence[str] | None
    raw: bool
    tz: str | None
    timeout: float | None


class Conditions(TypedDict, total=False):
    """The conditions that select the devices of a table."""

    state: str | None
    endpoint_type: str | None
    endpoint_name: str | None
    filters: Mapping[str, object] | None


class ChangesOptions(Conditions, total=False):
    """The options of ``client.changes()``."""

    paths: Sequence[str] | None
    tz: str | None
    timeout: float | None


class SnapshotOptions(ChangesOptions, total=False):
    """The options of ``client.fleet.snapshot()`` and ``client.as_of()``."""

    raw: bool
    compression: Compression | None


class HistoryOptions(Conditions, DeviceHistoryOptions, total=False):
    """The options of ``client.history()``, except for its positional argument ``paths``."""

    compression: Compression | None


class EventsOptions(TypedDict, total=False):
    """The options of ``client.notifications.events_frame()``."""

    timeout: float
    outage_timeout: float | None
    limit: int | None
    after: int | None
    paths: Collection[str] | None
    devices: DevicesLike | None
    raw: bool
    tz: str | None


class QueryOptions(TypedDict, total=False):
    """The options of ``client.sql()``."""

    explain: bool
    max_rows: int
    timeout: float | None
