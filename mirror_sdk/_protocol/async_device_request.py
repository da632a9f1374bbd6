"""The handle of a device request, with its response once that has arrived.

Source: specification E2 and 6; wire.md 2 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from mirror_sdk._arguments import seconds
from mirror_sdk._protocol.accepted_request import AcceptedRequest, warn_of_loss
from mirror_sdk._protocol.async_channels import AsyncResponseRouter
from mirror_sdk._protocol.deadline import rest_of
from mirror_sdk._protocol.inbox import Expectation
from mirror_sdk.errors import ClientClosed, DeviceRequestFailed
from mirror_sdk.values import Value
from mirror_sdk.wire.notifications import AsyncResponse


@dataclass(frozen=True, kw_only=True, repr=False)
class AsyncDeviceRequest(AcceptedRequest):
    """A device request in progress, from ``client.requests.begin_read()``, ``begin_write()`` or ``begin_execute()``.

    Its response is fetched while the program waits for it. A wait that timed out or was cancelled may be repeated.
    Dropping the handle does not cancel the request.
    """

    _router: AsyncResponseRouter

    def __repr__(self) -> str:
        state = "waiting" if self._expectation.response is None else "answered"
        return f"<AsyncDeviceRequest {self.method} {self.path} of device {self.device_id}, {self.async_id}, {state}>"

    async def done(self) -> bool:
        """Whether the response has arrived; reads the current entries of the notification log and does not wait.

        Temporary failures are retried for a few seconds. While the service cannot be reached, this is false, and the
        error of ``result(timeout=0)`` has the reason.

        Raises:
            APIError: The service responded to the poll with an error.

        >>> request = await client.requests.begin_read(station, "/3303/0/5700")
        >>> (await request.result()).python, await request.done()
        (21.5, True)
        """
        is_done = await wait_for_response(self, 0)
        warn_of_loss([self], self._router.called_from)
        return is_done

    async def result(self, timeout: float | None = None) -> Value:
        """Return the value in the response; ``NONE`` for a write or an execution whose response has no value.

        Args:
            timeout: Seconds to wait, possibly one more, because the protocol uses whole seconds; 0 only reads the
                current entries of the notification log. The default is slightly longer than ``expiry_seconds``, and a
                minute at most.

        Raises:
            DeviceRequestFailed: The request failed; which subclass depends on the category.
            WaitTimeout: The wait is over and the request is not; wait again. If the response may be among lost entries
                of the log, there is a :class:`GapWarning` too.
            APIError: The service responded to the poll with an error.
            InvalidValue: ``timeout`` is not a time span.

        >>> request = await client.requests.begin_read(station, "/3303/0/5700")
        >>> (await request.result(timeout=10)).kind
        <ValueKind.NUMBER: 'number'>
        """
        response = await self._wait(timeout)
        failure = self.read_failure(response)
        if failure is not None:
            raise failure
        return self.read_value(response)

    async def exception(self, timeout: float | None = None) -> DeviceRequestFailed | None:
        """Return the error of the request; ``None`` if it succeeded. Arguments and other errors as in :meth:`result`.

        Raises:
            WaitTimeout: The wait is over and the request is not; wait again.
            APIError: The service responded to the poll with an error.

        >>> request = await client.requests.begin_write(station, "/3303/0/5700", 30.0, allow_read_only=True)
        >>> failure = await request.exception()
        >>> failure.category
        'METHOD_NOT_ALLOWED'
        """
        return self.read_failure(await self._wait(timeout))

    async def _wait(self, timeout: float | None) -> AsyncResponse:
        timeout_seconds = self.default_timeout_seconds if timeout is None else seconds("timeout", timeout)
        # A deadline is passed on as it is, because a part of its time may be over.
        response = await self._router.wait(self._expectation, rest_of(timeout_seconds if timeout is None else timeout))
        if response is None:
            warn_of_loss([self], self._router.called_from)
            raise self.wait_timeout(timeout_seconds) from self._router.reader.last_failure
        return response


async def wait_for_response(request: AsyncDeviceRequest, timeout_seconds: float) -> bool:
    """Return whether the response came in that time. :func:`warn_of_loss` reports lost entries.

    Raises:
        MirrorError: A failure that waiting would not fix.
    """
    return await request._router.wait(request._expectation, timeout_seconds) is not None


async def fetch_responses(requests: Iterable[object]) -> None:
    """Read the current entries of the log, once for all requests of a client; a closed client reads nothing.

    Raises:
        MirrorError: The log could not be read, and another attempt would not help.
    """
    waiting: dict[AsyncResponseRouter, list[Expectation]] = {}
    listed = list(requests)
    for request in listed:
        if isinstance(request, AsyncDeviceRequest) and request.response is None:
            waiting.setdefault(request._router, []).append(request._expectation)
    for router, expectations in waiting.items():
        with suppress(ClientClosed):
            await router.fetch_available(expectations)
    warn_of_loss(listed)
