# Made from async_requests.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The device requests of an application: ``client.requests`` of a synchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._fork import import_whole
from mirror_sdk._service import operations as _operations
from mirror_sdk._service.asked import expected_revision, to_execute, to_write
from mirror_sdk._service.device_request import DeviceRequest, look_for_answers
from mirror_sdk._service.placed_request import PlacedRequest, UnplacedRequest
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._tables import DeviceTable, is_table, seen_revisions
from mirror_sdk.errors import (
    ValueRefused,
)
from mirror_sdk.events import utc_now
from mirror_sdk.naming import (
    DeviceLike,
    id_of,
)
from mirror_sdk.resource import ExpectedValue
from mirror_sdk.resources.base import ClientResource
from mirror_sdk.wire.device_requests import Method, WaitingRequest

if TYPE_CHECKING:
    import pandas as pd


class Requests(ClientResource[ClientSession]):
    """The device requests of this application: ``client.requests`` of a synchronous client.

    ``client.read_value()``, ``client.write_value()`` and ``client.execute()`` send a request and wait for the response.
    """

    def list(
        self, device_id: DeviceLike | None = None, *, timeout: float | None = None
    ) -> builtins.list[WaitingRequest]:
        """Return the requests of this application that have no response yet, the oldest first, without their payloads.

        Args:
            device_id: Only those for this device.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            NotFound: The device does not exist, or the service lacks this extension.

        Source: wire.md 2.

        >>> client.requests.list()
        []
        """
        deadline = self._session.sender.deadline(timeout)
        asked = (
            None if device_id is None else self._session.run(id_of(self._session.names, device_id, anew=True), deadline)
        )
        return self._session.collect(partial(_operations.list_waiting_requests, asked), deadline)

    def begin_read(
        self,
        device_id: DeviceLike,
        path: str,
        *,
        accept: str | None = None,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Ask a device for the value of a resource, without waiting for it.

        Args:
            device_id: The device: its id, its endpoint name, or what has its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: Content type wished for.
            expiry_seconds: For how long the request may wait for the device; the service's default is 2 hours, and
                3 days for a device in queue mode.
            async_id: Identity of the request, made here by default. The same one may be given again for the same
                request: it is queued once.
            timeout: Seconds the call may take, instead of the client's.

        Raises:
            NotFound: There is no such device.
            BadRequest: The service does not take the request.
            UnknownResource: The device does not have this resource.
            Conflict: ``async_id`` belongs to another request.
            LimitExceeded: Too many requests wait for this device.
            ValueError: An argument cannot be sent; the message names it.

        Source: specification E2; wire.md 2.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        """
        return self._session.place(
            "GET", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, accept=accept
        )

    def begin_write(
        self,
        device_id: DeviceLike,
        path: str,
        value: object = None,
        *,
        text: str | None = None,
        content_type: str | None = None,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        allow_read_only: bool = False,
        if_match: ExpectedValue | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Ask a device to take a value, without waiting for it; see :func:`mirror_sdk.values.encode` for values.

        In the place of ``value``, ``text`` is what people typed, such as ``"off"`` or ``" 55 "``; it is read by
        :func:`mirror_sdk.parse_value`. With ``if_match`` the service takes the write only while the desired value of
        the resource is the one that was seen: a :class:`Resource`, a :class:`DesiredValue`, its ``revision``, or 0
        where nothing was ever written. It is another one after each write, and when a write has ended. A service
        without this extension writes in any case. Other arguments and errors as for :meth:`begin_read`, and:

        Raises:
            PreconditionFailed: The desired value is another one by now; ``error.resource`` has it. Nothing was sent
                to the device.
            ValueRefused: The value or the text does not go with what is declared for the path, there are both or
                neither, or it is declared read-only and ``allow_read_only`` is not set.

        Source: specification E2, 3.1; wire.md 2.

        >>> seen = client.get_device(light)["/3311/0/5851"]
        >>> request = client.requests.begin_write(light, "/3311/0/5851", 40, if_match=seen)
        >>> request.exception() is None
        True
        >>> try:
        ...     client.requests.begin_write(light, "/3311/0/5851", 70, if_match=seen)
        ... except PreconditionFailed as error:
        ...     print(error.resource.desired_value)
        40
        """
        asked = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        return self._session.place(
            "PUT", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **asked
        )

    def begin_execute(
        self,
        device_id: DeviceLike,
        path: str,
        argument: str | None = None,
        *,
        expiry_seconds: int | None = None,
        async_id: str | None = None,
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Send an execute request to a device without waiting for the response.

        Arguments and errors as for :meth:`begin_read`.

        The service never sends an execute again that may have reached the device, because it would run twice. If no
        response comes, also because the service restarted meanwhile, the request fails with
        :class:`DeviceUnavailable` and the category ``TIMEOUT``: whether the device acted is unknown.

        Source: wire.md 2.

        >>> request = client.requests.begin_execute(light, "/3/0/4")
        >>> request.exception() is None
        True
        """
        asked = to_execute(argument)
        return self._session.place(
            "POST", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **asked
        )

    def resume(
        self,
        async_id: str,
        device_id: DeviceLike,
        path: str,
        *,
        method: Method = "GET",
        timeout: float | None = None,
    ) -> DeviceRequest:
        """Take up a request again by its async-id, also in another process than the one that made it.

        Its answer is looked for in all that is kept of the notification log, a day as a rule, and then waited for.

        Args:
            async_id: The request's identity.
            device_id: The device that was asked.
            path: The resource path.
            method: ``GET`` read, ``PUT`` write, ``POST`` execute.
            timeout: Seconds the call may take, instead of the client's.

        Source: specification 6; wire.md 4.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> again = client.requests.resume(request.async_id, station, "/3303/0/5700")
        >>> again.result().python
        21.5
        """
        pump = self._session.new_pump(self._session.new_log_reader(0))
        return DeviceRequest(
            async_id=async_id,
            device_id=self._session.run(id_of(self._session.names, device_id, anew=True), timeout),
            path=path,
            method=method,
            issued_at=utc_now(),
            expiry_seconds=None,
            _expectation=pump.expect(async_id),
            _pump=pump,
        )

    def frame(self, requests: Iterable[PlacedRequest | UnplacedRequest], *, tz: str | None = None) -> pd.DataFrame:
        """The requests table, as the notification log has them now; see :func:`mirror_sdk.frames.requests_frame`.

        Args:
            requests: What ``begin_read``, ``begin_write`` and ``begin_execute`` gave.
            tz: Time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

        Raises:
            ImportError: pandas is not installed.
            ValueRefused: ``tz`` is no time zone.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        >>> client.requests.frame([request])["status"].tolist()
        ['success']
        """
        rows = list(requests)
        import_whole("mirror_sdk.frames")
        from mirror_sdk.frames.requests import seen_requests_frame

        look_for_answers(rows)
        return seen_requests_frame(rows, tz=tz, server=self._session.base_url)

    def acknowledge_failed_write(
        self,
        device_id: DeviceLike | DeviceTable,
        path: str | None = None,
        *,
        by: str | None = None,
        if_match: ExpectedValue | None = None,
        timeout: float | None = None,
    ) -> None:
        """Acknowledge a write that failed, or those that a table names, so that it does not count as failed any more.

        The drift table, FleetTable and the server's page leave it out. ``desired.acknowledged_at`` and
        ``desired.acknowledged_by`` of the resource show when and by whom, until the next write. A write that was
        acknowledged before stays as it is. A state as of an earlier instant does not tell it.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``drift.query("kind == 'failed'")``. With a column ``desired_revision`` it acknowledges only the
                failures that it shows: one of a later write is refused. Without it, the last one of each resource is.
            path: The resource path; of a table that of each of its devices, in the place of its column.
            by: Who acknowledges it; the name of this application's access key by default.
            if_match: What the caller saw: the resource, its desired value or that one's revision. Another write since
                is not acknowledged. A table has it in ``desired_revision``.
            timeout: Seconds the call may take, instead of the client's; of a table, instead of the client's for each.

        Raises:
            AccessDenied: The key may not write.
            BadRequest: The device does not have this resource. Of a table, all others are acknowledged, as a note of
                the error tells.
            Conflict: The last write has not failed, or is another one than the caller saw; the same.
            NotFound: There is no such device; the same.
            ValueRefused: The table has no such columns, its ``desired_revision`` no numbers, or ``if_match`` was given
                with a table.

        >>> simulator.set_answer(light, "reject")
        >>> error = client.requests.begin_write(light, "/3311/0/5851", 40).exception()
        >>> len(client.state_frame().mirror.drift())
        1
        >>> client.requests.acknowledge_failed_write(light, "/3311/0/5851", by="night shift")
        >>> len(client.state_frame().mirror.drift())
        0
        >>> client.get_device(light)["/3311/0/5851"].desired.acknowledged_by
        'night shift'
        """
        if if_match is not None and is_table(device_id):
            raise ValueRefused("if_match= goes with one resource; a table has it in its column desired_revision")
        revision = None if if_match is None else expected_revision(if_match)
        operation = partial(_operations.acknowledge_failed_write, by=by, revision=revision)
        seen = seen_revisions(device_id, path, "device_id") if is_table(device_id) else {}
        self._session.act_on(device_id, path, operation, timeout, seen)
