"""The handle of a device request: its answer, when it has come.

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
    """What ``client.requests.begin_read()``, ``begin_write()`` and ``begin_execute()`` give: a request on its way.

    Its answer is fetched by whoever waits for it. A wait that timed out or was cancelled may be repeated. Throwing the
    handle away does not cancel the request.
    """

    _router: AsyncResponseRouter

    def __repr__(self) -> str:
        state = "waiting" if self._expectation.response is None else "answered"
        return f"<AsyncDeviceRequest {self.method} {self.path} of device {self.device_id}, {self.async_id}, {state}>"

    async def done(self) -> bool:
        """Whether the answer has come; looks at all that the notification log has now and does not wait for more.

        A failure that may pass is asked past for a few seconds; while the service cannot be asked at all, this is
        false, and ``result(timeout=0)`` tells why.

        Raises:
            APIError: The service refuses to say.

        >>> request = await client.requests.begin_read(station, "/3303/0/5700")
        >>> (await request.result()).python, await request.done()
        (21.5, True)
        """
        is_done = await wait_for_answer(self, 0)
        warn_of_loss([self], self._router.called_from)
        return is_done

    async def result(self, timeout: float | None = None) -> Value:
        """The value the device answered with; ``NONE`` for a write or an execution that brings none.

        Args:
            timeout: Seconds to wait, up to one more because the wire takes whole ones; 0 looks at all that the
                notification log has now. The default is ``expiry_seconds`` and a little more, and a minute at most.

        Raises:
            DeviceRequestFailed: The device or the service gave up on it; which subclass depends on the category.
            WaitTimeout: The wait is over and the request is not; ask again. Where the answer may have been lost with
                entries of the log, a :class:`GapWarning` says so.
            APIError: The service refuses to say.
            InvalidValue: ``timeout`` is not a duration.

        >>> request = await client.requests.begin_read(station, "/3303/0/5700")
        >>> (await request.result(timeout=10)).kind
        <ValueKind.NUMBER: 'number'>
        """
        answer = await self._wait(timeout)
        failure = self.read_failure(answer)
        if failure is not None:
            raise failure
        return self.read_value(answer)

    async def exception(self, timeout: float | None = None) -> DeviceRequestFailed | None:
        """Why it failed, or ``None`` when it did not. Arguments and other errors as for :meth:`result`.

        Raises:
            WaitTimeout: The wait is over and the request is not; ask again.
            APIError: The service refuses to say.

        >>> request = await client.requests.begin_write(station, "/3303/0/5700", 30.0, allow_read_only=True)
        >>> failure = await request.exception()
        >>> failure.category
        'METHOD_NOT_ALLOWED'
        """
        return self.read_failure(await self._wait(timeout))

    async def _wait(self, timeout: float | None) -> AsyncResponse:
        timeout_seconds = self.default_timeout_seconds if timeout is None else seconds("timeout", timeout)
        answer = await self._router.wait(self._expectation, rest_of(timeout_seconds if timeout is None else timeout))
        if answer is None:
            warn_of_loss([self], self._router.called_from)
            raise self.late(timeout_seconds) from self._router.reader.last_failure
        return answer


async def wait_for_answer(request: AsyncDeviceRequest, timeout_seconds: float) -> bool:
    """Whether its answer has come in that time. What was lost meanwhile is left for :func:`warn_of_loss`.

    Raises:
        MirrorError: A failure that waiting would not mend.
    """
    return await request._router.wait(request._expectation, timeout_seconds) is not None


async def look_for_answers(requests: Iterable[object]) -> None:
    """Look at what the log has now, once for all requests of a client; what a closed one has seen is all there is.

    Raises:
        MirrorError: The log could not be read, and asking again would not mend that.
    """
    waiting: dict[AsyncResponseRouter, list[Expectation]] = {}
    asked = list(requests)
    for request in asked:
        if isinstance(request, AsyncDeviceRequest) and request.response is None:
            waiting.setdefault(request._router, []).append(request._expectation)
    for router, expectations in waiting.items():
        with suppress(ClientClosed):
            await router.look(expectations)
    warn_of_loss(asked)
