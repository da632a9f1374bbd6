"""A picker that selects devices from the directory or from a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from mirror_sdk._formatting import display_names, visible
from mirror_sdk.device_lookup import DeviceLike, DevicesLike, devices_with, own_id
from mirror_sdk.events import Event
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.model import DIRECTORY_EVENTS, Model, Row
from mirror_sdk.widgets.models.periodic_read import PeriodicRead, empty_directory_text
from mirror_sdk.wire.directory import Device

DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0


class DevicePicker:
    """The devices that the user can pick from, and the devices that are picked.

    Args:
        model: The model to which the picker belongs.
        devices: The devices to pick from, which are all picked initially. With ``None``, these are all devices of the
            directory, and none of them is picked.
        changed: A function that is called when the view has to be updated.

    Raises:
        AmbiguousName: Several devices have the same name, and ``devices`` contains it.
        TypeError: An item of ``devices`` is not a device.
        UnknownDevice: A name in ``devices`` does not belong to any device.
    """

    def __init__(self, model: Model, devices: DeviceLike | DevicesLike | None, changed: Callable[[], object]) -> None:
        self._model = model
        self._changed = changed
        self._offered = None if devices is None else _ids_of(model, devices)
        self._picked = frozenset(self._offered or ())
        self._directory: dict[str, Device] = {}
        self._names: dict[str, str] = {}
        self._candidates = self._offered or []
        self._read = PeriodicRead(model, "directory", DIRECTORY_RELOAD_SECONDS)

    def load(self) -> None:
        """Read the complete directory, or only the listed devices."""
        self._read.start("Reading the directory", self._list_devices, self._accept)

    def pick(self, device_ids: Iterable[str]) -> None:
        """Pick these devices, and no others."""
        self._picked = frozenset(device_ids)
        self._changed()

    @property
    def rows(self) -> list[Row]:
        """The rows of a grid with the devices to pick from."""
        return [self._row(device_id) for device_id in self._candidates]

    @property
    def picked(self) -> list[str]:
        """The ids of the picked devices, in the order in which the devices are listed."""
        return [device_id for device_id in self._candidates if device_id in self._picked]

    @property
    def first_listed(self) -> str | None:
        """The id of the first picked device that is in the directory."""
        return next((device_id for device_id in self.picked if device_id in self._directory), None)

    @property
    def is_one(self) -> bool:
        """Whether there is only one device, so that the user cannot choose."""
        return self._offered is not None and len(self._offered) == 1

    @property
    def text(self) -> str:
        """A phrase that contains the number of picked devices."""
        if self._is_loading or not self._candidates:
            return "no devices to pick from" if self._offered == [] else empty_directory_text(self._read)
        return f"{len(self.picked):,} of {format_count(len(self._candidates), 'device')} picked"

    def name(self, device_id: str) -> str:
        """Return the name of a device, or its id if the name is unknown."""
        return self._names.get(device_id, device_id)

    def receive(self, events: Iterable[Event]) -> None:
        """Schedule a read of the directory if devices were added or removed."""
        if any(event.kind in DIRECTORY_EVENTS for event in events):
            self._read.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Read the directory again if a read is due."""
        if self._read.is_due:
            self.load()

    @property
    def _is_loading(self) -> bool:
        return self._read.is_running and not self._directory

    def _row(self, device_id: str) -> Row:
        device = self._directory.get(device_id)
        return {
            "key": device_id,
            "device": self.name(device_id),
            "type": visible(device.endpoint_type or "") if device else "",
            "state": device.state if device else "" if self._is_loading else "unknown",
            "hints": {"device": device_id},
        }

    def _list_devices(self) -> Sequence[Device]:
        client = self._model.client
        if self._offered is None:
            return list(client.devices.list())
        return client._session.run(devices_with("id", self._offered))

    def _accept(self, devices: Sequence[Device]) -> None:
        self._directory = {device.id: device for device in devices}
        self._names = display_names({device.id: device.endpoint_name for device in devices})
        if self._offered is None:
            self._candidates = sorted(self._directory, key=lambda device_id: (self.name(device_id), device_id))
        self._changed()


def _ids_of(model: Model, devices: DeviceLike | DevicesLike) -> list[str]:
    is_one = isinstance(devices, str) or own_id(devices) is not None
    several = cast("DevicesLike", [devices] if is_one else devices)
    return list(dict.fromkeys(model.client._session.ids_of(several)))
