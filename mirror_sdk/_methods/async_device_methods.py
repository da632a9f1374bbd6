"""The methods of an asynchronous client that read a device, write to it and subscribe its resources."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.deadline import wait_of
from mirror_sdk._protocol.request_options import to_execute, to_write
from mirror_sdk._run_in_thread import import_in_thread, run_in_thread
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._table_keys import DeviceTable, is_table
from mirror_sdk.naming import DeviceLike, lookup_failures, resolve_names
from mirror_sdk.resource import ExpectedValue
from mirror_sdk.values import InstanceValues, PythonValue

if TYPE_CHECKING:
    from mirror_sdk.plan import AsyncPlan
    from mirror_sdk.plan.requested import RequestedWrites


class AsyncDeviceMethods:
    """Reads devices, writes to them and subscribes their resources."""

    _session: AsyncClientSession

    async def read_value(
        self,
        device_id: DeviceLike,
        path: str,
        *,
        accept: str | None = None,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> PythonValue | InstanceValues | None:
        """Read a value from a device, wait for the response and return it as a Python value.

        For a resource with several instances, such as ``/3/0/7``, it is a mapping from the id of each instance to its
        value: ``{0: 3800, 1: 5000}``.

        For an object instance (``/3303/0``), which real devices send as a whole, it is the ``bytes`` of the response.
        ``client.requests.begin_read(...)`` and ``result()`` also return the content type, with which
        :func:`mirror_sdk.values.decode_many` reads the value of each resource.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: The preferred content type.
            expiry_seconds: How long the request may wait for the device, by default 2 hours, and 3 days for a device in
                queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ReadRejected: The device rejects the read.
            DeviceRequestFailed: The request failed for another reason; its subclasses and ``category`` say which one.
            WaitTimeout: The wait is over. The request stays in the queue and may still be executed.
            ValueError: An argument cannot be sent; the message names it.

        For other errors see ``client.requests.begin_read()``.

        >>> await client.read_value(station, "/3303/0/5700")
        21.5
        """
        response = await self._session.submit_and_wait(
            "GET", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, accept=accept
        )
        return response.python

    async def write_value(
        self,
        device_id: DeviceLike,
        path: str,
        value: object = None,
        *,
        text: str | None = None,
        content_type: str | None = None,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
        allow_read_only: bool = False,
        if_match: ExpectedValue | None = None,
    ) -> None:
        """Write a value to a device and wait until the device has accepted it.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3311/0/5850``.
            value: The value; see :func:`mirror_sdk.values.encode`.
            text: Instead of ``value``, what a person typed, such as ``"off"``; see :func:`mirror_sdk.parse_value`.
            content_type: The content type of the value on its way to the device; by default chosen by the value.
            expiry_seconds: How long the request may wait for the device, by default 2 hours, and 3 days for a device in
                queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.
            allow_read_only: Whether to write to a path that is declared read-only.
            if_match: The resource, desired value or revision that you expect. The write is rejected if another write
                was accepted since, or the status of the last one has changed since.

        Raises:
            InvalidValue: The value does not match the declaration of the path, or another argument cannot be sent.
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            PreconditionFailed: The desired value is not the one in ``if_match``. Nothing was sent to the device.
            WriteRejected: The device rejects the write.
            DeviceRequestFailed: The request failed for another reason; its subclasses and ``category`` say which one.
            WaitTimeout: The wait is over. The request stays in the queue and may still be executed.

        For other errors see ``client.requests.begin_write()``.

        >>> await client.write_value(light, "/3311/0/5850", True)
        >>> await client.write_value(light, "/3311/0/5851", text=" 55 ")
        """
        options = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        await self._session.submit_and_wait(
            "PUT", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **options
        )

    async def execute(
        self,
        device_id: DeviceLike,
        path: str,
        argument: str | None = None,
        *,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Execute a resource of a device and wait until the device has done so.

        Args:
            device_id: The device: its id, its endpoint name, or an object that has its id.
            path: The resource path, such as ``/3/0/4``.
            argument: The argument of the execution, if the resource takes one.
            expiry_seconds: How long the request may wait for the device, by default 2 hours, and 3 days for a device in
                queue mode.
            timeout: Seconds to wait for the response; by default 60, or less if the request expires sooner.

        Raises:
            NotFound: The device does not exist.
            UnknownResource: The device does not have this resource.
            ExecuteRejected: The device rejects the execution.
            DeviceRequestFailed: The request failed for another reason; its subclasses and ``category`` say which one.
            WaitTimeout: The wait is over. The request stays in the queue and may still be executed.
            ValueError: An argument cannot be sent; the message names it.

        For other errors see ``client.requests.begin_execute()``.

        >>> await client.execute(light, "/3/0/4")
        """
        options = to_execute(argument)
        await self._session.submit_and_wait(
            "POST", device_id, path, wait_of(timeout), expiry_seconds=expiry_seconds, **options
        )

    async def subscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """Subscribe to a resource, or to those in a table. A full registration of the device ends the subscription.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``snapshot.query(...)``.
            path: The resource path. For a table, one path to use for all its devices, instead of its column ``path``.
            timeout: Seconds the call may take, instead of the client's. For a table, seconds for all rows together; by
                default the client's time-out applies to each row.

        Raises:
            NotFound: The device does not exist. For a table, all other rows are subscribed, and a note of the error
                says so.
            UnknownResource: The device does not have this resource. For a table, the same.
            InvalidValue: The table lacks these columns, or a row has no device or no path.

        Source: wire.md 3.

        >>> await client.subscribe(station, "/3303/0/5700")
        >>> found = (await client.fleet.snapshot()).query("path in ['/3311/0/5850', '/3311/0/5851']")
        >>> await client.subscribe(found)
        >>> await client.subscriptions.list(light)
        ['/3311/0/5850', '/3311/0/5851']
        """
        await self._session.act_on(device_id, path, _operations.put_subscription, timeout)

    async def unsubscribe(
        self, device_id: DeviceLike | DeviceTable, path: str | None = None, *, timeout: float | None = None
    ) -> None:
        """End the subscription to a resource. It is not an error if there is no subscription or no such resource.

        Arguments and errors as for :meth:`subscribe`. Source: wire.md 3.

        >>> await client.subscribe(station, "/3303/0/5700")
        >>> await client.unsubscribe(station, "/3303/0/5700")
        """
        await self._session.act_on(device_id, path, _operations.delete_subscription, timeout)

    async def plan(
        self,
        writes: RequestedWrites,
        *,
        value: object = None,
        path: str | None = None,
        if_match: bool = False,
        read_first: bool = False,
        timeout: float | None = None,
    ) -> AsyncPlan:
        """Check many writes against the declarations and the current state, and plan them. This writes nothing.

        ``plan.frame`` shows each write and the result of its checks, ``plan.apply()`` sends the writes, and
        ``plan.undo()`` plans their undo.

        Args:
            writes: A table with the columns ``device_id`` (or ``device``, as in the files of ``mirror plan``),
                ``path``, ``value`` and optionally ``content_type``. Or a table with the index ``device_id`` and a
                column per path, as ``state.mirror.wide()`` returns. Or a list of (device, path, value). All of these
                name devices by id or endpoint name. Rows without a value are ignored. Texts in a table are parsed like
                a CSV of ``mirror plan``; see :func:`mirror_sdk.parse_value`. A text that is not a value rejects only
                its row. The column ``value`` may also be called ``text``. Tables of Polars and pyarrow work too.
            value: What to write to the resources in the rows of a table, such as ``snapshot.query(...)``: one value, or
                a column for the rows, such as ``found["reported_num"] - 1``. Each resource is written once.
            path: With ``value``, the resource of each device to write, instead of the table's ``path``.
            if_match: Whether to write each value only while the desired value is still the one in the table, according
                to its ``desired_revision``. If there was another write since, the row is rejected with the check
                ``changed`` and the current value, here or in ``apply()``; the others are written.
            read_first: Whether to read from devices the values that the mirror does not have, so that the writes can be
                undone. Each read waits 20 s for its device; sleeping devices are not read. Without it, no request is
                sent to a device.
            timeout: Seconds for the whole call, instead of the client's for each part; see :class:`MirrorClient`.

        Raises:
            AccessDenied: With ``read_first``: the key has no permission to read from devices.
            ImportError: pandas is not installed.
            InvalidValue: ``writes`` is not one of these; the message names a missing column.

        Source: specification 3.1.

        >>> await client.plan([(light, "/3311/0/5851", 40), (light, "/3311/0/5850", "on")])
        <AsyncPlan: 1 to write, 1 rejected; 1 cannot be undone; nothing was sent, apply() sends>
        >>> await client.plan([(light, "/3311/0/5851", 40)], read_first=True)
        <AsyncPlan: 1 to write; nothing was sent, apply() sends>
        >>> dim = (await client.fleet.snapshot()).query("path == '/3311/0/5851' and reported_num < 20")
        >>> await client.plan(dim, value=40, if_match=True)
        <AsyncPlan: 1 to write; nothing was sent, apply() sends>
        """
        await import_in_thread("mirror_sdk.plan", "mirror_sdk.resources.async_planner")
        from mirror_sdk.plan.requested import names_in, read_requested, with_ids
        from mirror_sdk.resources.async_planner import AsyncPlanner

        # A generator of rows may use objects of this thread.
        rows = writes if isinstance(writes, str) or is_table(writes) else list(writes)
        requested = await run_in_thread(partial(read_requested, rows, value=value, path=path, if_match=if_match))
        deadline = self._session.sender.total_deadline(timeout)
        found = await self._session.run(
            resolve_names(self._session.names, await run_in_thread(names_in, requested)), deadline
        )
        return await AsyncPlanner(self._session).plan_of(
            await run_in_thread(with_ids, requested, found.ids),
            await self._session.run(lookup_failures(found), deadline),
            deadline,
            read_first=read_first,
        )
