"""The options of methods that return tables, for their overloads by ``as_``: each overload has the same ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypedDict

from mirror_sdk._arguments import InstantLike
from mirror_sdk.naming import DevicesLike
from mirror_sdk.wire.snapshot import Compression


class StateOptions(TypedDict, total=False):
    """The options of ``client.state_frame()``."""

    paths: Sequence[str] | None
    raw: bool
    tz: str | None
    timeout: float | None


class ChangesOptions(TypedDict, total=False):
    """The options of ``client.changes()``."""

    paths: Sequence[str] | None
    state: str | None
    endpoint_type: str | None
    endpoint_name: str | None
    filters: Mapping[str, object] | None
    tz: str | None
    timeout: float | None


class SnapshotOptions(ChangesOptions, total=False):
    """The options of ``client.fleet.snapshot()`` and ``client.as_of()``."""

    raw: bool
    compression: Compression | None


class HistoryOptions(TypedDict, total=False):
    """The options of ``client.history()``; its ``paths`` are positional."""

    begin: InstantLike | None
    end: InstantLike | None
    state: str | None
    endpoint_type: str | None
    endpoint_name: str | None
    filters: Mapping[str, object] | None
    raw: bool
    tz: str | None
    limit: int | None
    compression: Compression | None
    timeout: float | None


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
