# Made from async_requests.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The device requests of an application: ``client.requests`` of a synchronous client."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._fork import import_locked
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest, require_requests
from mirror_sdk._protocol.device_request import DeviceRequest, fetch_responses
from mirror_sdk._protocol.request_options import expected_revision, to_execute, to_write
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk._table_arguments import DeviceTable, desired_revisions, is_table
from mirror_sdk.client_groups.base import ClientGroup
from mirror_sdk.device_lookup import DeviceLike, id_of, name_passed
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import utc_now
from mirror_sdk.resource import ExpectedValue
from mirror_sdk.wire.device_requests import Method, WaitingRequest

if TYPE_CHECKING:
    import pandas as pd


class Requests(ClientGroup):
    """The device requests of this application: ``client.requests`` of a synchronous client.

    - ``begin_read(device, path)``, ``begin_write`` and ``begin_execute`` send a request without waiting for the
      response.
    - ``list()`` returns the requests that have no response yet, and ``frame()`` returns them as a table.
    - ``frame(requests)`` returns a table of requests that you sent, with their responses.
    - ``resume(async_id, ...)`` continues to wait for the response to a request.

    ``client.read_value()``, ``client.write_value()`` and ``client.execute()`` send a request and wait for the response.
    """

    _expression = "client.requests"

    def list(
        self, device_id: DeviceLike | None = None, *, timeout: float | None = None
    ) -> builtins.list[WaitingRequest]:
        """Return the requests of this application that have no response yet, oldest first and without their payloads.

        Args:
            device_id: Return only requests to this device. By default, return the requests to all devices.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            NotFound: The device does not exist, or the service does not list requests.

        >>> client.requests.list()
        []
        """
        deadline = self._session.sender.deadline(timeout)
        found = None
        if device_id is not None:
            found = self._session.run(id_of(self._session.names, device_id, refresh=True), deadline)
        return self._session.collect(partial(_operations.list_waiting_requests, found), deadline)

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
        """Send a read request to a device without waiting for the response.

        Args:
            device_id: The id or the endpoint name of the device, or an object that contains its id.
            path: The resource path, such as ``/3303/0/5700``.
            accept: The preferred content type of the response.
            expiry_seconds: How many seconds the request may wait for the device before it expires. The default is 2
                hours, or 3 days for a device in queue mode.
            async_id: The async-id, which identifies the request. The default is a generated one. If you send the same
                request again with the same async-id, the service does not queue it twice.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        Raises:
            NotFound: The device does not exist.
            BadRequest: The service rejects the request.
            UnknownResource: The device does not have this resource.
            Conflict: ``async_id`` belongs to another request.
            LimitExceeded: Too many requests are waiting for this device.
            ValueError: An argument is not valid and cannot be sent. The message contains its name.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        """
        return self._session.submit(
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
        """Send a write request to a device without waiting for the response.

        See :func:`mirror_sdk.values.encode` for the possible values. If a person typed the value, pass the string as
        ``text`` instead of ``value``, such as ``"off"`` or ``" 55 "``. It is parsed with
        :func:`mirror_sdk.parse_value`.

        With ``if_match``, the service accepts the write only if nothing has changed the desired value since you read
        it. Pass the :class:`~mirror_sdk.Resource`, the :class:`~mirror_sdk.DesiredValue` or its ``revision``. Pass 0 if
        nothing was ever written. The revision changes when a write is accepted and when it ends. A service without
        conditional writes ignores ``if_match``.

        For the other arguments and errors, see :meth:`begin_read`.

        Raises:
            PreconditionFailed: The desired value has changed. ``error.resource`` contains the current one. Nothing was
                sent to the device.
            InvalidValue: The value or the text does not match the declaration of the path, or both or neither of them
                were passed. Another cause is a path that is declared read-only, unless ``allow_read_only`` is set.

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
        options = to_write(path, value, text, content_type, allow_read_only=allow_read_only, if_match=if_match)
        return self._session.submit(
            "PUT", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **options
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

        For the arguments and errors, see :meth:`begin_read`.

        The service never repeats an execute request that may have reached the device, because the device would then
        execute it twice. If no response arrives, for example after a restart of the service, the request fails with
        :class:`~mirror_sdk.DeviceUnavailable` and the category ``TIMEOUT``. It is then unknown whether the device
        executed it.

        >>> request = client.requests.begin_execute(light, "/3/0/4")
        >>> request.exception() is None
        True
        """
        options = to_execute(argument)
        return self._session.submit(
            "POST", device_id, path, expiry_seconds=expiry_seconds, async_id=async_id, timeout=timeout, **options
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
        """Continue to wait for the response to a request that was sent earlier, even if another process sent it.

        The client searches the whole stored notification log for the response. The log usually covers one day. If the
        log does not contain the response, ``result()`` waits for it.

        Args:
            async_id: The async-id of the request.
            device_id: The device to which the request was sent.
            path: The resource path of the request.
            method: ``GET`` for a read, ``PUT`` for a write, ``POST`` for an execute request.
            timeout: The timeout of this call in seconds. The default is the timeout of the client.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> again = client.requests.resume(request.async_id, station, "/3303/0/5700")
        >>> again.result().python
        21.5
        """
        # From the start of the log, because the response may have arrived long ago.
        router = self._session.new_router(self._session.new_log_reader(0))
        found = self._session.run(id_of(self._session.names, device_id, refresh=True), timeout)
        return DeviceRequest(
            async_id=async_id,
            device_id=found,
            path=path,
            method=method,
            issued_at=utc_now(),
            expiry_seconds=None,
            _awaited_response=router.expect(async_id),
            _router=router,
            _device_name=name_passed(device_id, found),
        )

    def frame(
        self, requests: Iterable[AcceptedRequest | UnacceptedRequest] | None = None, *, tz: str | None = None
    ) -> pd.DataFrame:
        """Return requests, with the responses so far, as a table; see :func:`mirror_sdk.frames.requests_frame`.

        Args:
            requests: Requests from :meth:`begin_read`, :meth:`begin_write` and :meth:`begin_execute`. The default is
                all requests of this application that have no response yet, as :meth:`list` returns them.
            tz: The time zone of the time columns, such as ``Europe/Berlin``. The default is UTC.

        Raises:
            ImportError: pandas is not installed.
            InvalidValue: ``tz`` is not a time zone.
            TypeError: ``requests`` is a single request, or contains an object that is not a request.

        >>> request = client.requests.begin_read(station, "/3303/0/5700")
        >>> request.result().python
        21.5
        >>> client.requests.frame([request])["status"].tolist()
        ['success']
        """
        rows = [*map(as_accepted, self.list())] if requests is None else require_requests(requests)
        import_locked("mirror_sdk.frames")
        from mirror_sdk.frames.requests import cached_requests_frame

        fetch_responses(rows)
        return cached_requests_frame(rows, tz=tz, server=self._session.base_url)

    def acknowledge_failed_write(
        self,
        device_id: DeviceLike | DeviceTable,
        path: str | None = None,
        *,
        by: str | None = None,
        if_match: ExpectedValue | None = None,
        timeout: float | None = None,
    ) -> None:
        """Acknowledge a failed write, or all failed writes in a table, so that it no longer counts as failed.

        An acknowledged write no longer appears in the drift table, the FleetTable and the server's web page. Until the
        next write, ``desired.acknowledged_at`` and ``desired.acknowledged_by`` of the resource contain the time and the
        author. A second acknowledgement has no effect. Tables of an earlier state, such as ``client.as_of()``, do not
        contain acknowledgements.

        Args:
            device_id: The device, or a table with the columns ``device_id`` and ``path``, such as
                ``drift.query("kind == 'failed'")``. With a column ``desired_revision``, the call acknowledges exactly
                these failures. It raises :class:`~mirror_sdk.Conflict` if a resource was written again in the meantime.
                Without this column, the call acknowledges the latest failure of each resource.
            path: The resource path. With a table, this path is used for all rows instead of the column ``path``.
            by: The person who acknowledges the failure. The default is the name of the access key.
            if_match: The resource, desired value or revision that you expect. A later write is not acknowledged. For a
                table, use the column ``desired_revision`` instead.
            timeout: The timeout of the call in seconds. By default, the client's timeout applies to the call or, with a
                table, to each row.

        Raises:
            AccessDenied: The key has no permission to write.
            BadRequest: The device does not have this resource. With a table, the call acknowledges all other rows
                before it raises this error, ``Conflict`` or ``NotFound``.
            Conflict: The last write has not failed, or is not the expected one.
            NotFound: The device does not exist.
            InvalidValue: The table does not have these columns, its ``desired_revision`` contains values other than
                numbers, or ``if_match`` was passed with a table.

        >>> simulator.set_response_mode(light, "reject")
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
            raise InvalidValue(
                "if_match= cannot be combined with a table; put the revisions into the table's column desired_revision"
            )
        revision = None if if_match is None else expected_revision(if_match)
        operation = partial(_operations.acknowledge_failed_write, by=by, revision=revision)
        revisions = desired_revisions(device_id, path, "device_id") if is_table(device_id) else {}
        self._session.act_on(device_id, path, operation, timeout, revisions)


def as_accepted(request: WaitingRequest) -> AcceptedRequest:
    """Return a request of the service's list as a request without a response."""
    return AcceptedRequest(
        async_id=request.async_response_id,
        device_id=request.device_id,
        path=request.uri,
        method=request.method,
        issued_at=request.placed_at,
        expiry_seconds=None,
        accepted_at=request.placed_at,
        expires_at=request.expires_at,
        _awaited_response=AwaitedResponse(request.async_response_id),
    )
