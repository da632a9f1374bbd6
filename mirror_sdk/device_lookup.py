"""Finds the device that a caller names by an id, by an endpoint name, or by an object with an id.

A string of 32 hexadecimal digits is always a device id. An id needs no request. A name that looks like an id is never
looked up, so no device can impersonate another. The client looks up any other string in the directory: first as an id,
then as an endpoint name. If several devices have the name, it selects the registered device. If none or several of them
are registered, the call fails with :class:`~mirror_sdk.AmbiguousName`.

A client caches the result for half a minute, for calls that only read the mirror. Calls that act on a device or
subscribe look up the name every time, because another device may have taken over the name.

This module does no I/O: it yields requests, and the client sends them.
"""

from __future__ import annotations

import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from mirror_sdk._arguments import closest, type_name
from mirror_sdk._formatting import visible, visible_line
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.flow import Flow, Work
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._table_arguments import DeviceTable, is_table, warn_if_empty
from mirror_sdk._table_arguments import device_ids as ids_in
from mirror_sdk.errors import (
    AccessDenied,
    AmbiguousName,
    BadRequest,
    InvalidValue,
    MirrorError,
    NotFound,
    UnexpectedResponse,
    UnknownDevice,
)
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.errors import ErrorBody

T = TypeVar("T")

CACHE_SECONDS = 30.0
_MAX_CACHED = 10_000
_LONGEST_QUERY = 3000
_MAX_SEARCHED = 5000
"""Maximum number of devices that are searched for similar names."""
_MAX_DESCRIBED = 10
"""Number of unknown strings that are listed with similar names; each search takes hundredths of a second."""
_ID = re.compile(r"[0-9A-Fa-f]{32}")
ANY_ID = "0" * 32
"""A placeholder for an id that is not known yet."""


class ListedDevice(Protocol):
    """A device of a list of devices, such as :class:`~mirror_sdk.Device`."""

    @property
    def id(self) -> str:
        """Its device id."""

    @property
    def endpoint_name(self) -> str:
        """Its endpoint name."""


class HasDeviceId(Protocol):
    """An object that belongs to a device, such as a :class:`~mirror_sdk.DeviceObject` or a device request."""

    @property
    def device_id(self) -> str:
        """The id of the device."""


DeviceLike: TypeAlias = str | ListedDevice | HasDeviceId
"""A device: its id, its endpoint name, a ``Device``, a ``DeviceObject``, or a device request."""
DevicesLike: TypeAlias = Iterable[DeviceLike] | DeviceTable
"""Several devices: a list of them, or a table that names them in a column or an index ``device_id``."""


class NameCache:
    """A cache of the ids of devices: of endpoint names for :data:`CACHE_SECONDS`, of strings that are ids for ever.

    Args:
        now: Returns seconds, of a monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._names: dict[str, tuple[str, float]] = {}
        # These do not expire: no other device can get the id.
        self._ids: set[str] = set()

    def recall(self, texts: Iterable[str], *, only_ids: bool) -> dict[str, str]:
        """Return the ids of the strings that are cached."""
        oldest = self._now() - CACHE_SECONDS
        found = {}
        for text in texts:
            device_id, at = self._names.get(text, ("", oldest))
            if text in self._ids:
                found[text] = text
            elif at > oldest and not only_ids:
                found[text] = device_id
        return found

    def keep(self, ids: Mapping[str, str]) -> None:
        """Cache the ids of strings."""
        if len(self._names) + len(self._ids) + len(ids) > _MAX_CACHED:
            self._names.clear()
            self._ids.clear()
        at = self._now()
        self._ids.update(text for text, device_id in ids.items() if text == device_id)
        self._names.update({text: (device_id, at) for text, device_id in ids.items() if text != device_id})

    def forget(self, name: str) -> None:
        """Remove a name, so that it is looked up again."""
        self._names.pop(name, None)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result for strings: ids, strings that match no device, and the devices of strings that match several."""

    ids: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    several: dict[str, list[Device]] = field(default_factory=dict)


def known_id(argument: str, device: object) -> str | None:
    """Return the id of a device if no request is needed; ``None`` for a string that may be an endpoint name.

    Raises:
        TypeError: ``device`` is not a device.
    """
    if isinstance(device, str):
        # An empty text counts as an id, which is rejected before anything is sent.
        return device if _ID.fullmatch(device) or not device else None
    own = own_id(device)
    if own is None:
        raise TypeError(
            f"{argument} must be a str, not {type_name(device)}; pass a device, its id or its endpoint name"
        )
    return own


def send_for(
    names: NameCache, device: DeviceLike, operation: Callable[[str], Operation[T]], *, refresh: bool
) -> Flow[T]:
    """Send an operation about one device.

    Args:
        names: The cache of names.
        device: The device.
        operation: Makes the operation for a device id.
        refresh: Whether to look up a name even if it is cached.

    Raises:
        AmbiguousName: Several devices have this name.
        NotFound: The device does not exist.
        TypeError: ``device`` is not a device.
        ValueError: An argument cannot be sent; the message names it.
    """
    if known_id("device_id", device) is None:
        # Reject invalid arguments before the directory is queried.
        operation(ANY_ID)
    device_id = yield from id_of(names, device, refresh=refresh)
    try:
        return (yield from send_to(device, operation(device_id)))
    except NotFound:
        if refresh or not isinstance(device, str) or device == device_id:
            raise
        # The service may have been replaced since the name was cached.
        names.forget(device)
        if (again := (yield from id_of(names, device))) == device_id:
            raise
    return (yield from send_to(device, operation(again)))


def send_to(device: DeviceLike, operation: Operation[T]) -> Flow[T]:
    """Send an operation about a device. If the device does not exist, the error suggests similar names.

    Raises:
        AccessDenied: ``device`` may be a name, and this key has no access to the directory.
        NotFound: The device does not exist.
    """
    try:
        response: T = yield operation
    except NotFound as error:
        if isinstance(device, str):
            yield from _say_more(device, error)
        raise
    return response


def id_of(names: NameCache, device: DeviceLike, *, refresh: bool = False) -> Flow[str]:
    """Return the id of one device.

    Raises:
        AmbiguousName: Several devices have this name.
        TypeError: ``device`` is not a device.
        UnknownDevice: No device has this id or name.
    """
    if (device_id := known_id("device_id", device)) is None:
        (device_id,) = yield from ids_of(names, [device], "devices", refresh=refresh)
    return device_id


def require_known(device_ids: Sequence[str]) -> Flow[None]:
    """Check that devices exist.

    Raises:
        UnknownDevice: A device does not exist.
    """
    listed = {device.id for device in (yield from devices_with("id", device_ids))}
    if unknown := [device_id for device_id in device_ids if device_id not in listed]:
        raise (yield from unknown_device(unknown, (yield from _endpoint_names())))


def ids_of(names: NameCache, devices: DevicesLike, argument: str, *, refresh: bool = True) -> Flow[list[str]]:
    """Return the ids of devices, in their order; their names are looked up together.

    Errors as for :func:`id_of`, and:

    Raises:
        InvalidValue: A string is empty, or a row of a table has no device.

    Warns:
        EmptyTableWarning: A table has no rows.
    """
    if is_table(devices):
        in_table: list[str] = yield Work(partial(ids_in, devices, argument))
        warn_if_empty(in_table, argument)
        devices = in_table
    listed, each = devices_in(devices, argument), f"each of {argument}"
    known = [known_id(each, device) for device in listed]
    if "" in known:
        raise InvalidValue(
            f"{each} must be an id or an endpoint name, not ''; client.devices.list() returns the existing ones"
        )
    sought = [str(device) for device, device_id in zip(listed, known, strict=True) if device_id is None]
    found = yield from resolve_names(names, sought, refresh=refresh)
    if found.several:
        raise AmbiguousName("; ".join(starmap(_of_several, found.several.items())))
    if found.unknown:
        raise (yield from unknown_device(found.unknown, (yield from _endpoint_names())))
    return [device_id or found.ids[str(device)] for device, device_id in zip(listed, known, strict=True)]


def devices_in(devices: DevicesLike, argument: str) -> list[DeviceLike]:
    """Return the devices in a list or a table.

    Raises:
        TypeError: A single device was passed instead of a list.
        InvalidValue: A row of a table has no device.
    """
    if is_table(devices):
        return [*ids_in(devices, argument)]
    # A string and a device object are iterable, too.
    if isinstance(devices, str) or own_id(devices) is not None:
        raise TypeError(f"{argument} takes a list of device ids; write {argument}=[{devices!r}]")
    return list(devices)


def resolve_names(names: NameCache, texts: Iterable[str], *, refresh: bool = True) -> Flow[LookupResult]:
    """Look up strings in the directory.

    Without access to it, or if it cannot be searched by name, they count as ids.
    """
    sought = list(dict.fromkeys(texts))
    found = LookupResult(names.recall(sought, only_ids=refresh))
    sought = [text for text in sought if text not in found.ids]
    try:
        named = defaultdict(list)
        for device in (yield from devices_with("endpoint_name", sought)):
            named[device.endpoint_name].append(device)
        # In a service whose ids have another form, a name could be the id of another device. The id takes precedence.
        doubtful = [text for text in sought if not all(_ID.fullmatch(one.id) for one in named[text]) or not named[text]]
        identified = {device.id for device in (yield from devices_with("id", doubtful))}
    except (AccessDenied, BadRequest, NotFound, UnexpectedResponse):
        return LookupResult(found.ids | {text: text for text in sought})
    for text in sought:
        registered = [device for device in named[text] if device.state == "registered"]
        fitting = registered or named[text]
        if text in identified:
            found.ids[text] = text
        elif len(fitting) == 1:
            found.ids[text] = fitting[0].id
        elif fitting:
            found.several[text] = named[text]
        else:
            found.unknown.append(text)
    names.keep({text: found.ids[text] for text in sought if text in found.ids})
    return found


def lookup_failures(found: LookupResult) -> Flow[dict[str, str]]:
    """Return why strings match no single device, in words."""
    reasons = {}
    if found.unknown:
        reasons = yield from _search(found.unknown, (yield from _endpoint_names()))
    return reasons | {text: _of_several(text, devices) for text, devices in found.several.items()}


def describe_devices(several: Sequence[Device]) -> str:
    """List devices with the same name: their ids and states."""
    return ", ".join(f"{visible(device.id)} ({visible(device.state)})" for device in several)


def name_passed(device: DeviceLike, device_id: str) -> str | None:
    """Return the endpoint name if a caller passed one for the device with this id; ``None`` for anything else."""
    return device if isinstance(device, str) and device != device_id else None


def own_id(device: object) -> str | None:
    """Return the id that an object has; ``None`` if it is not a device."""
    of_device = getattr(device, "device_id", None)
    listed = getattr(device, "id", None) if hasattr(device, "endpoint_name") else None
    return next((one for one in (of_device, listed) if isinstance(one, str)), None)


def _of_several(name: str, several: Sequence[Device]) -> str:
    return f"{len(several)} devices have the endpoint name {name!r}; pass the id of one: {describe_devices(several)}"


def _say_more(device: str, error: NotFound) -> Flow[None]:
    """Raise a more helpful error, if there is one, for a string that was sent as an id and is unknown."""
    is_id = _ID.fullmatch(device) is not None
    try:
        namesakes = yield from devices_with("endpoint_name", [device])
    except AccessDenied as denied:
        if is_id:
            return
        denied.hint = (
            f"looking up {device!r} in the directory requires this scope; pass the device's id, or use a key with this"
            " scope"
        )
        raise  # the text may be a name, and this key has no access to names
    # This search is optional: the original error is raised then.
    except MirrorError:
        return
    if is_id and namesakes:
        raise _not_found(
            f"no device has the id {device!r}, and 32 hexadecimal digits are always an id; for the device with this"
            f" endpoint name, pass its id: {describe_devices(namesakes)}"
        ) from error


def unknown_device(texts: Sequence[str], known: Collection[str]) -> Flow[UnknownDevice]:
    """Return the error for strings that match no device. It lists the first strings, with similar known names."""
    reasons = yield from _search(texts[:_MAX_DESCRIBED], known)
    further = len(texts) - len(reasons)
    more = [f"and {further} more of {len(texts)} match no device"] if further else []
    return _not_found("; ".join([*reasons.values(), *more]))


def _search(texts: Sequence[str], known: Collection[str]) -> Flow[dict[str, str]]:
    """Return in words why each of the strings matches no device. For the first strings, add similar known names."""

    def find() -> dict[str, str]:
        reasons = {text: f"no device has the id or endpoint name {text!r}" for text in texts}
        close = {text: closest(text, known) for text in texts[:_MAX_DESCRIBED]}
        return reasons | {text: f"{reasons[text]}; {names}" for text, names in close.items()}

    found: dict[str, str] = yield Work(find)
    return found


def _not_found(message: str) -> UnknownDevice:
    return UnknownDevice(
        404, ErrorBody(code=404, type="not_found", reason="DEVICE_NOT_FOUND", message=visible_line(message))
    )


def _endpoint_names() -> Flow[list[str]]:
    return [device.endpoint_name for device in (yield from all_devices({}, at_most=_MAX_SEARCHED))]


def devices_with(condition: str, texts: Sequence[str]) -> Flow[list[Device]]:
    """Return the devices that match one of the strings in this condition."""
    listed: list[Device] = []
    for filters in _conditions(condition, texts):
        listed += yield from all_devices(filters)
    return listed


def all_devices(filters: Mapping[str, object], *, at_most: float = math.inf) -> Flow[list[Device]]:
    """Return the devices that match the conditions, from all pages.

    Args:
        filters: The conditions.
        at_most: After this many devices no further page is read.
    """
    listed: list[Device] = []
    pages = _operations.Pages()
    after: str | None = None
    while len(listed) < at_most:
        page = yield _operations.list_devices(filters, limit=None, after=after)
        listed += page.data
        after = pages.next_after(page)
        if after is None:
            break
    return listed


def _conditions(condition: str, texts: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the conditions of each request, with as many strings as every part of the network accepts in a URL."""
    part: list[str] = []
    length = 0
    for text in texts:
        size = len(quote(text, safe="")) + len("%2C")
        # A comma separates texts on the wire, so a string with a comma needs a request of its own.
        if part and ("," in text or "," in part[0] or length + size > _LONGEST_QUERY):
            yield _condition(condition, part)
            part, length = [], 0
        part.append(text)
        length += size
    if part:
        yield _condition(condition, part)


def _condition(condition: str, texts: list[str]) -> dict[str, object]:
    return {condition: texts[0]} if len(texts) == 1 else {f"{condition}__in": texts}
