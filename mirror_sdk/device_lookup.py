"""Lookup of the devices that a caller passes as an id, an endpoint name, or an object that contains an id.

A string of 32 hexadecimal digits is always a device id, and needs no request. If the endpoint name of a device looks
like an id, the device cannot be found by that name. No device can therefore impersonate another one. The client looks
up any other string in the directory, first as an id and then as an endpoint name. If several devices have the name, the
registered one is selected. If none or several of them are registered, the call fails with
:class:`~mirror_sdk.AmbiguousName`.

For calls that only read the mirror, a client caches the result for half a minute. Calls that send a request to a device
or subscribe look up the name every time, because the name might belong to another device by then.

This module performs no I/O. Its generators yield requests, which the client sends.
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
"""The maximum number of devices that are searched for similar names."""
_MAX_DESCRIBED = 10
"""The maximum number of unknown strings that are listed with similar names, because each search takes about 10 ms."""
_ID = re.compile(r"[0-9A-Fa-f]{32}")
ANY_ID = "0" * 32
"""A placeholder for an id that is not known yet."""


class ListedDevice(Protocol):
    """An entry of a list of devices, such as :class:`~mirror_sdk.Device`."""

    @property
    def id(self) -> str:
        """The id of the device."""

    @property
    def endpoint_name(self) -> str:
        """The endpoint name of the device."""


class HasDeviceId(Protocol):
    """An object that belongs to a device, such as a :class:`~mirror_sdk.DeviceObject` or a device request."""

    @property
    def device_id(self) -> str:
        """The id of the device."""


DeviceLike: TypeAlias = str | ListedDevice | HasDeviceId
"""A device: an id, an endpoint name, a ``Device``, a ``DeviceObject`` or a device request."""
DevicesLike: TypeAlias = Iterable[DeviceLike] | DeviceTable
"""Several devices: a list of devices, or a table with a column or an index ``device_id``."""


class NameCache:
    """A cache of device ids. Endpoint names expire after :data:`CACHE_SECONDS`, and strings that are ids never expire.

    Args:
        now: A function that returns the time of a monotonic clock in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._names: dict[str, tuple[str, float]] = {}
        # Ids do not expire, because no other device can get the same id.
        self._ids: set[str] = set()

    def recall(self, texts: Iterable[str], *, only_ids: bool) -> dict[str, str]:
        """Return the cached ids of these strings. With ``only_ids``, endpoint names are left out."""
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
        """Store the ids of strings in the cache."""
        if len(self._names) + len(self._ids) + len(ids) > _MAX_CACHED:
            self._names.clear()
            self._ids.clear()
        at = self._now()
        self._ids.update(text for text, device_id in ids.items() if text == device_id)
        self._names.update({text: (device_id, at) for text, device_id in ids.items() if text != device_id})

    def forget(self, name: str) -> None:
        """Remove a name from the cache, so that it is looked up again."""
        self._names.pop(name, None)


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The result of a lookup: the ids, the strings without a device, and the devices of each ambiguous string."""

    ids: dict[str, str] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    several: dict[str, list[Device]] = field(default_factory=dict)


def known_id(argument: str, device: object) -> str | None:
    """Return the id of a device if it is known without a request, or ``None`` for a possible endpoint name.

    Raises:
        TypeError: ``device`` is not a device.
    """
    if isinstance(device, str):
        # An empty string counts as an id, which is rejected before any request is sent.
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
    """Send an operation that concerns one device.

    Args:
        names: The cache of endpoint names.
        device: The device.
        operation: A function that returns the operation for a device id.
        refresh: Whether to look up a name again even if it is cached.

    Raises:
        AmbiguousName: Several devices have this name.
        NotFound: The device does not exist.
        TypeError: ``device`` is not a device.
        ValueError: An argument is not valid and cannot be sent. The message contains its name.
    """
    if known_id("device_id", device) is None:
        # Check the arguments before the directory is queried.
        operation(ANY_ID)
    device_id = yield from id_of(names, device, refresh=refresh)
    try:
        return (yield from send_to(device, operation(device_id)))
    except NotFound:
        if refresh or not isinstance(device, str) or device == device_id:
            raise
        # The service may have been replaced since the name was cached, so look it up again.
        names.forget(device)
        if (again := (yield from id_of(names, device))) == device_id:
            raise
    return (yield from send_to(device, operation(again)))


def send_to(device: DeviceLike, operation: Operation[T]) -> Flow[T]:
    """Send an operation that concerns a device. If the device does not exist, the error suggests similar names.

    Raises:
        AccessDenied: ``device`` may be an endpoint name, and this key has no access to the directory.
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
    """Return the id of a device.

    Raises:
        AmbiguousName: Several devices have this name.
        TypeError: ``device`` is not a device.
        UnknownDevice: No device has this id or name.
    """
    if (device_id := known_id("device_id", device)) is None:
        (device_id,) = yield from ids_of(names, [device], "devices", refresh=refresh)
    return device_id


def require_known(device_ids: Sequence[str]) -> Flow[None]:
    """Check that all of these devices exist.

    Raises:
        UnknownDevice: A device does not exist.
    """
    listed = {device.id for device in (yield from devices_with("id", device_ids))}
    if unknown := [device_id for device_id in device_ids if device_id not in listed]:
        raise (yield from unknown_device(unknown, (yield from _endpoint_names())))


def ids_of(names: NameCache, devices: DevicesLike, argument: str, *, refresh: bool = True) -> Flow[list[str]]:
    """Return the ids of devices in the same order. All names are looked up together.

    This function raises the errors of :func:`id_of` and the following ones.

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
    # Strings and device objects are iterable, too, so they need this check.
    if isinstance(devices, str) or own_id(devices) is not None:
        raise TypeError(f"{argument} takes a list of device ids; write {argument}=[{devices!r}]")
    return list(devices)


def resolve_names(names: NameCache, texts: Iterable[str], *, refresh: bool = True) -> Flow[LookupResult]:
    """Look up strings as ids and endpoint names in the directory.

    If the key has no access to the directory, or the service cannot search by name, all strings count as ids.
    """
    sought = list(dict.fromkeys(texts))
    found = LookupResult(names.recall(sought, only_ids=refresh))
    sought = [text for text in sought if text not in found.ids]
    try:
        named = defaultdict(list)
        for device in (yield from devices_with("endpoint_name", sought)):
            named[device.endpoint_name].append(device)
        # In a service whose ids have another form, the name of one device could be the id of another. Ids take
        # precedence.
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
    """Return a sentence for each string that does not match exactly one device, which explains why."""
    reasons = {}
    if found.unknown:
        reasons = yield from _search(found.unknown, (yield from _endpoint_names()))
    return reasons | {text: _of_several(text, devices) for text, devices in found.several.items()}


def describe_devices(several: Sequence[Device]) -> str:
    """List the ids and states of devices that have the same name."""
    return ", ".join(f"{visible(device.id)} ({visible(device.state)})" for device in several)


def name_passed(device: DeviceLike, device_id: str) -> str | None:
    """Return the endpoint name that a caller passed for a device, or ``None`` if the caller passed something else."""
    return device if isinstance(device, str) and device != device_id else None


def own_id(device: object) -> str | None:
    """Return the id that an object contains, or ``None`` if the object does not represent a device."""
    of_device = getattr(device, "device_id", None)
    listed = getattr(device, "id", None) if hasattr(device, "endpoint_name") else None
    return next((one for one in (of_device, listed) if isinstance(one, str)), None)


def _of_several(name: str, several: Sequence[Device]) -> str:
    return f"{len(several)} devices have the endpoint name {name!r}; pass the id of one: {describe_devices(several)}"


def _say_more(device: str, error: NotFound) -> Flow[None]:
    """Raise a more helpful error, if there is one, for a string that was sent as an id but is unknown."""
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
        raise  # the string may be a name, but this key has no access to names
        # This search is only a help. If it fails, the original error is raised.
    except MirrorError:
        return
    if is_id and namesakes:
        raise _not_found(
            f"no device has the id {device!r}; 32 hexadecimal digits are always taken as an id, so pass the id of the"
            f" device with this endpoint name: {describe_devices(namesakes)}"
        ) from error


def unknown_device(texts: Sequence[str], known: Collection[str]) -> Flow[UnknownDevice]:
    """Return the error for strings that match no device. It lists the first ones with similar known names."""
    reasons = yield from _search(texts[:_MAX_DESCRIBED], known)
    further = len(texts) - len(reasons)
    more = [f"and {further} more of {len(texts)} match no device"] if further else []
    return _not_found("; ".join([*reasons.values(), *more]))


def _search(texts: Sequence[str], known: Collection[str]) -> Flow[dict[str, str]]:
    """Return a sentence for each string, which explains why no device matches.

    For the first ones, it lists similar names.
    """

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
    """Return the devices for which a field of the directory has one of these values."""
    listed: list[Device] = []
    for filters in _conditions(condition, texts):
        listed += yield from all_devices(filters)
    return listed


def all_devices(filters: Mapping[str, object], *, at_most: float = math.inf) -> Flow[list[Device]]:
    """Return the devices on all pages that match the conditions.

    Args:
        filters: The conditions.
        at_most: The number of devices after which no further page is read.
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
    """Yield the conditions of each request. Each URL stays short enough for all parts of the network."""
    part: list[str] = []
    length = 0
    for text in texts:
        size = len(quote(text, safe="")) + len("%2C")
        # On the wire, commas separate strings, so a string that contains a comma needs a request of its own.
        if part and ("," in text or "," in part[0] or length + size > _LONGEST_QUERY):
            yield _condition(condition, part)
            part, length = [], 0
        part.append(text)
        length += size
    if part:
        yield _condition(condition, part)


def _condition(condition: str, texts: list[str]) -> dict[str, object]:
    return {condition: texts[0]} if len(texts) == 1 else {f"{condition}__in": texts}
