"""The handle of a device request, which provides the response when it has arrived.

Source: specification E2 and 6; wire.md 2 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from mirror_sdk._arguments import seconds
from mirror_sdk._protocol.accepted_request import AcceptedRequest, warn_of_loss
from mirror_sdk._protocol.async_log_consumers import AsyncResponseRouter
from mirror_sdk._protocol.deadline import rest_of
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk.errors import ClientClosed, DeviceRequestFailed
from mirror_sdk.values import Value
from mirror_sdk.wire.notifications import AsyncResponse


@dataclass(frozen=True, kw_only=True, repr=False)
class AsyncDeviceRequest(AcceptedRequest):
    """A device request in progress, from ``client.requests.begin_read()``, ``begin_write()`` or ``begin_execute()``.

    The client fetches the response while your program waits for it. You can wait again after a timeout or a
    cancellation. Deleting this object does not cancel the request.
    """

    _router: AsyncResponseRouter

    def __repr__(self) -> str:
        state = "waiting" if self._awaited_response.response is None else "answered"
        return f"<AsyncDeviceRequest {self.method} {self.path} of device {self.device_id}, {self.async_id}, {state}>"

    async def done(self) -> bool:
        """Return whether the response has arrived, by reading the current entries of the log without waiting.

        The client retries temporary failures for a few seconds. If it still cannot reach the service, the result is
        false. ``result(timeout=0)`` then raises an error with the reason.

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
        """Wait for the response and return its value.

        The response to a write or an execution often contains no value. In this case, the result has the kind ``NONE``.

        Args:
            timeout: How many seconds to wait. The call may take one second longer, because the protocol uses whole
                seconds. With 0, it only reads the current entries of the log. The default is slightly longer than
                ``expiry_seconds``, but at most a minute.

        Raises:
            DeviceRequestFailed: The request failed. The subclass depends on the category.
            WaitTimeout: The response has not arrived in time. You can wait again. If the response may be among lost
                entries of the log, the client also issues a :class:`GapWarning`.
            APIError: The service responded to the poll with an error.
            InvalidValue: ``timeout`` is not a number of seconds that is 0 or more.

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
        """Wait for the response and return the error of the request, or ``None`` if the request succeeded.

        The argument ``timeout`` is the same as in :meth:`result`.

        Raises:
            WaitTimeout: The response has not arrived in time. You can wait again.
            APIError: The service responded to the poll with an error.

        >>> request = await client.requests.begin_write(station, "/3303/0/5700", 30.0, allow_read_only=True)
        >>> failure = await request.exception()
        >>> failure.category
        'METHOD_NOT_ALLOWED'
        """
        return self.read_failure(await self._wait(timeout))

    async def _wait(self, timeout: float | None) -> AsyncResponse:
        timeout_seconds = self.default_timeout_seconds if timeout is None else seconds("timeout", timeout)
        # A deadline is passed on unchanged, because a part of its time may already be over.
        response = await self._router.wait(
            self._awaited_response, rest_of(timeout_seconds if timeout is None else timeout)
        )
        if response is None:
            warn_of_loss([self], self._router.called_from)
            raise self.wait_timeout(timeout_seconds) from self._router.reader.last_failure
        return response


async def wait_for_response(request: AsyncDeviceRequest, timeout_seconds: float) -> bool:
    """Wait for the response for at most this time, and return whether it arrived.

    This function does not warn if the response may have been lost. Call :func:`warn_of_loss` to do so.

    Raises:
        MirrorError: A request failed for a reason that waiting would not fix.
    """
    return await request._router.wait(request._awaited_response, timeout_seconds) is not None


async def fetch_responses(requests: Iterable[object]) -> None:
    """Read the current entries of the log once for all requests of a client. A closed client reads nothing.

    Raises:
        MirrorError: The log could not be read, and another attempt would not help.
    """
    waiting: dict[AsyncResponseRouter, list[AwaitedResponse]] = {}
    listed = list(requests)
    for request in listed:
        if isinstance(request, AsyncDeviceRequest) and request.response is None:
            waiting.setdefault(request._router, []).append(request._awaited_response)
    for router, awaited_responses in waiting.items():
        with suppress(ClientClosed):
            await router.fetch_available(awaited_responses)
    warn_of_loss(listed)
