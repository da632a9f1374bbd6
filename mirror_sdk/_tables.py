"""Tables of what a client has fetched; pandas is an extra and is imported only when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mirror_sdk.device import DeviceObject
from mirror_sdk.events import Event

if TYPE_CHECKING:
    import pandas as pd


def state_table(
    objects: Sequence[DeviceObject], *, paths: Sequence[str] | None, raw: bool, tz: str | None, server: str
) -> pd.DataFrame:
    """The state table of device objects; see :func:`mirror_sdk.frames.state_frame`.

    Raises:
        ImportError: pandas is not installed.
        ValueRefused: A pattern is not one, or ``tz`` is no time zone.
    """
    from mirror_sdk.frames import state_frame

    # The oldest, so that no row is older than the table says it is.
    taken_at = min((one.created_at for one in objects), default=None)
    return state_frame(objects, paths=paths, raw=raw, taken_at=taken_at, tz=tz, server=server)


def events_table(events: Iterable[Event], *, raw: bool, tz: str | None, server: str) -> pd.DataFrame:
    """The events table; see :func:`mirror_sdk.frames.events_frame`.

    Raises:
        ImportError: pandas is not installed.
        ValueRefused: ``tz`` is no time zone.
    """
    from mirror_sdk.frames import events_frame

    return events_frame(events, raw=raw, tz=tz, server=server)
