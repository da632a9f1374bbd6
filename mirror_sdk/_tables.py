"""Tables of what a client has fetched; pandas is an extra and is imported only when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mirror_sdk._arguments import text
from mirror_sdk.device import DeviceObject
from mirror_sdk.events import Event
from mirror_sdk.wire.directory import Device

if TYPE_CHECKING:
    import pandas as pd


def device_ids(devices: Iterable[str | Device]) -> list[str]:
    """The ids of devices that are given by their ids or as the directory lists them.

    Raises:
        TypeError: A single text was given where a list of device ids belongs, or something else than devices.
    """
    if isinstance(devices, str):
        raise TypeError(f"devices takes a list of device ids; write devices=[{devices!r}]")
    return [device.id if isinstance(device, Device) else text("each of devices", device) for device in devices]


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
