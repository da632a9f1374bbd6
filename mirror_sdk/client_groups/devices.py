# Made from async_devices.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The devices of the directory: ``client.devices`` of a synchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from mirror_sdk._arguments import InstantLike, count
from mirror_sdk._arguments import instant as instant_like
from mirror_sdk._fork import import_locked, lazy_property
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._session.table_reader import TableReader
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.client_groups.device_queries import DeviceQueries, query_of
from mirror_sdk.device import DeviceList, DeviceObject
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
from mirror_sdk.errors import AccessDenied, NotFound
from mirror_sdk.wire.device_events import DeviceEvent
from mirror_sdk.wire.device_queries import DeviceQuery
from mirror_sdk.wire.directory import Device, DeviceConnection, EndpointResource

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.value_explanation import Explanation


P = ParamSpec("P")
T = TypeVar("T")


class Devices(ClientGroup):
    """The devices of the directory: ``client.devices`` of a synchronous client.

    - ``list(endpoint_type="Light", attributes={"site": "Berlin"})`` returns the devices that match the conditions.
    - ``connection(device)`` describes how a device is connected, and whether a request would reach it now.
    - ``explain(device, path)`` explains why a resource has its current value.
    - ``get`` and ``update`` return and change the entry of a device in the directory.
    - ``resources`` lists the resources of a device, and ``events`` and ``events_frame`` its registrations.
    - ``queries`` contains the saved queries.

    ``client.get_device(device)`` returns the reported and desired values of a device, and ``client.history([device])``
    its history.
    """

    _expression = "client.devices"

    def __init__(self, session: ClientSession) -> None:
        super().__init__(session)
        self._tables = TableReader(session)

    @lazy_property
    def queries(self) -> DeviceQueries:
        """The saved queries of the directory."""
        return DeviceQueries(self._session)

    def list(
        self,
        *,
        state: str | None = None,
        endpoint_type: str | None = None,
        endpoint_name: str | None = None,
        id: str | None = None,  # noqa: A002 - the name of the field in the directory
        attributes: Mapping[str, str] | None = None,
        filters: Mapping[str, object] | None = None,
        query: str | DeviceQuery | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> DeviceList:
        """Return the devices that match all conditions. Without conditions, return all devices.

        Comparisons of strings are case-sensitive: ``endpoint_type="light"`` does not match ``Light``.

        Args:
            state: Select only devices in this state: ``registered`` or ``deregistered``.
            endpoint_type: Select only devices of this endpoint type.
            endpoint_name: Select only the devices with this endpoint name.
            id: Select only the device with this id.
            attributes: Select only devices that have these attributes with these values, such as
                ``{"site": "Berlin"}``. :meth:`update` sets the attributes of a device.
            filters: Further conditions. Each is a field, an operator and a value, such as
                ``{"created_at__gte": datetime(2026, 1, 1, tzinfo=UTC), "endpoint_type__in": ["Light", "Fan"]}``, or
                ``{"custom_attributes__room__neq": "B12"}``. The operators are ``eq neq in nin gte lte gt lt``.
            query: A saved query or its name. The devices must also match it. See ``client.devices.queries.create()``.
            limit: The maximum number of devices to return. ``None`` returns all of them.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            BadRequest: A filter does not exist. The message lists the supported filters.
            UnknownQuery: No saved query has this name.
            ValueError: A time in ``filters`` has no time zone, a list of values is passed for an operator other than
                ``in`` or ``nin``, or ``limit`` is not a number.

        >>> [device.endpoint_name for device in client.devices.list(endpoint_type="Light")]
        ['light-01']
        """
        conditions = _operations.conditions(
            filters, state=state, endpoint_type=endpoint_type, endpoint_name=endpoint_name, id=id
        )
        conditions |= {f"custom_attributes__{name}": value for name, value in (attributes or {}).items()}
        limit = count("limit", limit)
        deadline = self._session.sender.deadline(timeout)
        saved = None if query is None else query_of(self._session, query, deadline).query
        page = partial(_operations.list_devices, conditions, limit=limit, query=saved)
        return DeviceList(self._session.collect(page, deadline, limit=limit))

    def get(self, device_id: DeviceLike, *, timeout: float | None = None) -> Device:
        """Return the entry of a device in the directory: its names, type, state and attributes.

        ``client.get_device()`` returns the values of its resources.

        Raises:
            NotFound: The device does not exist.

        >>> client.devices.get(station).state
        'registered'
        """
        return self._session.send_for(device_id, _operations.get_directory_device, timeout=timeout)

    def update(
        self,
        device_id: DeviceLike,
        *,
        name: str | None = None,
        description: str | None = None,
        attributes: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Device:
        """Set the name, description or attributes of a device in the directory. ``None`` leaves them unchanged.

        All applications see these changes, and ``client.devices.list(attributes={"room": "B12"})`` finds devices by
        their attributes. Methods that take a device do not accept this name. They accept the endpoint name, which the
        device itself sends. The access key needs the scope ``write``.

        Args:
            device_id: The device.
            name: The new name of at most 128 characters. ``""`` removes the name.
            description: The new description of at most 2000 characters. ``""`` removes the description.
            attributes: At most five strings of at most 128 characters each, by name. A name must not start with a
                digit. They replace all existing attributes, and ``{}`` removes all of them.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Returns:
            The new entry of the device in the directory.

        Raises:
            NotFound: The device does not exist.
            ValueError: A string is too long, an attribute is not valid, or there are too many attributes.

        >>> lamp = client.devices.update("light-01", name="Lamp by the window", attributes={"room": "B12"})
        >>> lamp.name, lamp.custom_attributes
        ('Lamp by the window', {'room': 'B12'})
        >>> client.devices.list(attributes={"room": "B12"}).ids == [light]
        True
        """
        said = {"name": name, "description": description, "custom_attributes": attributes}
        return self._session.send_for(device_id, partial(_operations.put_device, changes=said), timeout=timeout)

    def connection(self, device_id: DeviceLike, *, timeout: float | None = None) -> DeviceConnection:
        """Return a description of how a device is connected, and of whether a request would reach it now.

        The result also contains the protocol, the lifetime and the last contact.

        The result contains the network address of the device only if the access key has the scope ``admin``.

        Raises:
            NotFound: The device does not exist, or the service has no information about connections.

        >>> client.devices.connection(station).protocol
        'simulated'
        """
        return self._session.send_for(device_id, _operations.get_device_connection, timeout=timeout)

    def resources(self, device_id: DeviceLike, *, timeout: float | None = None) -> builtins.list[EndpointResource]:
        """Return the resources that a device has now, and whether each of them can be observed.

        Raises:
            NotFound: The device does not exist.

        >>> [(resource.uri, resource.obs) for resource in client.devices.resources(station)]
        [('/3303/0/5700', True)]
        """
        return self._session.send_for(device_id, _operations.list_resources, timeout=timeout)

    def events(
        self,
        devices: DevicesLike | None = None,
        *,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        event_types: Collection[str] | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> builtins.list[DeviceEvent]:
        """Return the registrations, registration updates and deregistrations of devices, oldest first.

        The notification log sends the same events to programs that are connected when they happen. This method also
        returns earlier events. The service stores them for a month, unless its operator has configured another period.

        Args:
            devices: Return only events of these devices. ``None`` returns the events of all devices.
            begin: Return only events at or after this time. It is a datetime with a time zone, a string such as
                ``2026-01-31T08:00:00Z``, or a duration before the current time, such as ``"2h"``.
            end: Return only events before this time.
            event_types: Return only events of these types: ``registration``, ``reg_update``, ``deregistration``,
                ``expired``.
            limit: The maximum number of events. If there are more, the newest ones are returned. ``None`` returns all
                of them.
            timeout: The timeout for all pages in seconds. By default, the client's timeout applies to each page.

        Raises:
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of strings.
            ValueError: A time has no time zone, or ``limit`` is not a number.

        >>> simulator.deregister(light)
        >>> [(event.event_type, event.state_change) for event in client.devices.events([light])]
        [('registration', True), ('deregistration', True)]
        """
        deadline = self._session.sender.total_deadline(timeout)
        limit = count("limit", limit)
        device_ids = None if devices is None else self._session.ids_of(devices, timeout=deadline)
        found: list[DeviceEvent] = []
        now = self._tables.clock_of(begin, end, timeout=deadline)
        first = None if begin is None else instant_like("begin", begin, now)
        last = None if end is None else instant_like("end", end, now)
        for filters in _operations.event_filters(device_ids, first, last, event_types):
            page = partial(_operations.list_device_events, filters, limit=limit)
            found += self._session.collect(page, deadline, limit=limit)
        return _operations.newest(found, limit)

    def events_frame(
        self,
        devices: DevicesLike | None = None,
        *,
        begin: InstantLike | None = None,
        end: InstantLike | None = None,
        event_types: Collection[str] | None = None,
        limit: int | None = None,
        tz: str | None = None,
        timeout: float | None = None,
    ) -> pd.DataFrame:
        """Return :meth:`events` as a table; see :func:`mirror_sdk.frames.device_events_frame`.

        Args:
            devices: Return only events of these devices. ``None`` returns the events of all devices.
            begin: Return only events at or after this time, in any form that :meth:`events` accepts.
            end: Return only events before this time.
            event_types: Return only events of these types.
            limit: The maximum number of events. If there are more, the newest ones are returned.
            tz: The time zone of the time column, such as ``Europe/Berlin``. The default is UTC.
            timeout: The timeout for all pages in seconds. By default, the client's timeout applies to each page.

        Raises:
            ImportError: pandas is not installed.
            NotFound: One of the ``devices`` does not exist.
            TypeError: A string was passed instead of a list of strings.
            ValueError: A time has no time zone, or ``limit`` is not a number.
            InvalidValue: ``tz`` is not a time zone.

        >>> events = client.devices.events_frame(event_types=["registration"])
        >>> events["endpoint_name"].tolist()
        ['light-01', 'station-01']
        """
        import_locked("mirror_sdk.frames")
        from mirror_sdk.frames.device_events import device_events_frame

        events = self.events(devices, begin=begin, end=end, event_types=event_types, limit=limit, timeout=timeout)
        return device_events_frame(events, tz=tz, server=self._session.base_url)

    def explain(self, device_id: DeviceLike, path: str, *, timeout: float | None = None) -> Explanation:
        """Return an explanation of why a resource has its current value, without sending a request to the device.

        The explanation consists of sentences, and also says how the value can be refreshed.

        It also says whether the device has probably lost its connection. The client assumes so if the device has been
        silent for more than three times its longest recent pause. A pause is the time between two values that the
        device sent to this application, and at least five pauses are needed. The device may still be connected if its
        values simply did not change. Facts that the access key may not read are omitted or described as unknown.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device never reported this resource. The message lists similar paths.

        >>> client.devices.explain(station, "/3303/0/5700").why[0]
        'The device has never reported it: no read has succeeded, and the device has not sent it by itself.'
        """
        # Imported here because few programs use this module and its import takes time.
        import_locked("mirror_sdk.value_explanation")
        from mirror_sdk.value_explanation import Facts, explain

        session = self._session
        deadline = session.sender.deadline(timeout)
        device = self.get(device_id, timeout=deadline)
        contacts = _if_allowed(session.send_for, device, _operations.get_device_contacts, timeout=deadline)
        connection = _if_allowed(self.connection, device, timeout=deadline)
        mirrored = session.send_for(device, _operations.get_device_object, timeout=deadline)
        announced = self.resources(device, timeout=deadline)
        subscription = partial(_operations.get_subscription_state, path=path)
        state = _if_allowed(session.send_for, device, subscription, timeout=deadline)
        rules = _if_allowed(session.sender.send, _operations.get_presubscriptions(), deadline)
        requests = partial(_operations.list_waiting_requests, device.id)
        waiting = _if_allowed(session.collect, requests, deadline)
        return explain(
            Facts(
                device=device,
                mirrored=DeviceObject.from_wire(mirrored),
                path=path,
                announced=announced,
                subscription=state,
                rules=None if rules is None else rules.rules,
                waiting=waiting,
                contacts=None if contacts is None else contacts.heard_at,
                connection=connection,
            )
        )


def _if_allowed(request: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
    """Return the response, or ``None`` if the key has no access or the service does not have this endpoint."""
    try:
        return request(*arguments, **options)
    except (AccessDenied, NotFound):
        return None
