"""Which devices are picked, out of the directory or of some that were given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import cast

from mirror_sdk._client import MirrorClient
from mirror_sdk._table_keys import device_ids, is_table
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.device import DeviceList
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event, EventKind
from mirror_sdk.naming import DeviceLike, DevicesLike, own_id
from mirror_sdk.widgets.models.calls import Run
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.reload import Reload
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.wire.directory import Device

DIRECTORY_RELOAD_SECONDS = 60.0
RELOAD_AFTER_EVENT_SECONDS = 1.0
_IDS_AT_ONCE = 50
_OF_THE_DIRECTORY = {EventKind.REGISTRATION, EventKind.DEREGISTRATION, EventKind.EXPIRED, EventKind.GAP}

GivenDevices = DeviceLike | DevicesLike


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """A device that can be picked; ``name``, ``type`` and ``state`` may hold anything a device says."""

    device_id: str
    name: str
    type: str
    state: str


class DevicePicker:
    """Devices to pick from, and those that are picked.

    Args:
        client: The mirror; its directory is read.
        given: Which devices can be picked, all of them picked at first; ``None`` for any, and none is picked.
        run: Makes the client calls.
        notices: Told of what went wrong.
        changed: Called when something is to be shown anew.
        clock: Seconds, for how often the directory is read again.

    Raises:
        InvalidValue: ``given`` are no devices.

    Attributes:
        type: The type of the devices that are listed; empty for any.
        state: Their state; empty for any.
    """

    def __init__(
        self,
        client: MirrorClient,
        given: GivenDevices | None,
        run: Run,
        *,
        notices: Notices,
        changed: Callable[[], object],
        clock: Callable[[], float],
    ) -> None:
        self.type = ""
        self.state = ""
        self._client = client
        self._run = run
        self._notices = notices
        self._changed = changed
        self._given = None if given is None else list(dict.fromkeys(client._session.ids_of(read_ids(given))))
        self._picked = dict.fromkeys(self._given or ())
        self._directory: dict[str, Device] = {}
        self._names: dict[str, str] = {}
        self._candidates = self._given or []
        self._listing = Reload(clock, DIRECTORY_RELOAD_SECONDS)

    def load(self) -> None:
        """Read the directory, of the given devices alone where some were given."""
        number = self._listing.begin()
        self._run(
            lambda: _list_devices(self._client, self._given),
            lambda devices: self._took(number, devices),
            lambda error: self._failed(number, error),
        )

    def find(self, type: str, state: str) -> None:  # noqa: A002 - what the directory calls it
        """List the devices of this type and in this state, each empty for any; what is picked stays picked."""
        self.type, self.state = type, state
        self._changed()

    def pick(self, device_ids: Iterable[str], is_picked: bool) -> None:
        """Pick devices, or drop them."""
        for device_id in device_ids:
            if is_picked:
                self._picked[device_id] = None
            else:
                self._picked.pop(device_id, None)
        self._changed()

    @property
    def choices(self) -> list[DeviceChoice]:
        """The devices that are listed."""
        return [one for one in self._choices if self.type in {"", one.type} and self.state in {"", one.state}]

    @property
    def count(self) -> int:
        """How many devices there are to pick from."""
        return len(self._candidates)

    @property
    def types(self) -> list[str]:
        """The types of all devices there are."""
        return sorted({one.type for one in self._choices if one.type} | ({self.type} - {""}))

    @property
    def states(self) -> list[str]:
        """The states of all devices there are."""
        return sorted({one.state for one in self._choices if one.state} | ({self.state} - {""}))

    @property
    def picked(self) -> list[str]:
        """The ids of the devices that are picked, in the order in which they are listed."""
        listed = self._candidates
        gone = self._picked.keys() - set(listed)
        return [one for one in listed if one in self._picked] + [one for one in self._picked if one in gone]

    @property
    def first_known(self) -> str | None:
        """The first of them that is in the directory."""
        return next((device_id for device_id in self.picked if device_id in self._directory), None)

    @property
    def is_one(self) -> bool:
        """Whether there is nothing to choose: one device was given."""
        return self._given is not None and len(self._given) == 1

    @property
    def text(self) -> str:
        """How many devices are picked, and how many of those are not listed."""
        if self._is_unread:
            return "reading the directory …"
        if not self._candidates:
            return "no device was given" if self._given is not None else "the directory lists no device"
        text = f"{len(self._picked):,} of {count_text(len(self._candidates), 'device')} picked"
        hidden = len(self._picked.keys() - {one.device_id for one in self.choices})
        return f"{text}, {hidden:,} of them not listed" if hidden else text

    def name(self, device_id: str) -> str:
        """What a device is called."""
        return self._names.get(device_id, device_id)

    def take(self, events: Iterable[Event]) -> None:
        """Read the directory again soon where devices come and go."""
        if any(event.kind in _OF_THE_DIRECTORY for event in events):
            self._listing.within(RELOAD_AFTER_EVENT_SECONDS)

    def tick(self) -> None:
        """Read the directory again where it is time to."""
        if self._listing.is_due:
            self.load()

    @property
    def _is_unread(self) -> bool:
        return self._listing.is_running and not self._directory

    @property
    def _choices(self) -> list[DeviceChoice]:
        return [self._choice(device_id) for device_id in self._candidates]

    def _choice(self, device_id: str) -> DeviceChoice:
        listed = self._directory.get(device_id)
        unlisted = "" if self._is_unread else "unknown"
        return DeviceChoice(
            device_id,
            self.name(device_id),
            visible(listed.endpoint_type or "") if listed else "",
            listed.state if listed else unlisted,
        )

    def _took(self, number: int, devices: DeviceList) -> None:
        if self._listing.end(number):
            self._directory = {device.id: device for device in devices}
            self._names = shown_names({device.id: device.endpoint_name for device in devices})
            if self._given is None:
                self._candidates = sorted(self._directory, key=lambda device_id: (self.name(device_id), device_id))
            self._notices.clear("directory")
            self._changed()

    def _failed(self, number: int, error: Exception) -> None:
        if self._listing.end(number):
            self._notices.put("directory", "Reading the directory", error)
            self._changed()


def read_ids(devices: GivenDevices) -> list[str]:
    """The ids or names of devices, each once, out of the forms in which people have them.

    Raises:
        InvalidValue: It is none of these.
    """
    cure = "give device ids, devices, or a table with a column or an index device_id"
    if is_table(devices):
        return device_ids(devices, "devices")
    try:
        given = (
            [devices]
            if isinstance(devices, str) or own_id(devices) is not None
            else list(cast("Iterable[DeviceLike]", devices))
        )
    except TypeError:
        raise InvalidValue(f"{devices!r} are no devices; {cure}") from None
    return list(dict.fromkeys(_id_of(one, cure) for one in given))


def _id_of(device: object, cure: str) -> str:
    if isinstance(device, str):
        return device
    found = own_id(device)
    if found is None:
        raise InvalidValue(f"{device!r} is no device; {cure}")
    return found


def _list_devices(client: MirrorClient, given: list[str] | None) -> DeviceList:
    if given is None:
        return client.devices.list()
    parts = [given[start : start + _IDS_AT_ONCE] for start in range(0, len(given), _IDS_AT_ONCE)]
    return DeviceList([device for part in parts for device in client.devices.list(filters={"id__in": part})])
