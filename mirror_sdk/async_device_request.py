"""The handle of a device request of an asynchronous client. Source: specification E2 and 6; wire.md 2 and 5."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_sdk._arguments import seconds
from mirror_sdk._async_channels import AsyncAnswerPump
from mirror_sdk._deadline import rest_of
from mirror_sdk.device_request import PlacedRequest
from mirror_sdk.errors import DeviceRequestFailed
from mirror_sdk.values import Value
from mirror_sdk.wire.notifications import AsyncResponse


@dataclass(frozen=True, kw_only=True, repr=False)
class AsyncDeviceRequest(PlacedRequest):
    """As :class:`~mirror_sdk.DeviceRequest`, awaited. A wait that is cancelled leaves the request as it is."""

    _pump: AsyncAnswerPump

    def __repr__(self) -> str:
        state = "waiting" if self._expectation.answer is None else "answered"
        return f"<AsyncDeviceRequest {self.method} {self.path} of device {self.device_id}, {self.async_id}, {state}>"

    async def done(self) -> bool:
        """As :meth:`mirror_sdk.DeviceRequest.done`."""
        return await self._pump.wait(self._expectation, 0) is not None

    async def result(self, timeout: float | None = None) -> Value:
        """As :meth:`mirror_sdk.DeviceRequest.result`, with the same errors."""
        answer = await self._wait(timeout)
        failure = self.read_failure(answer)
        if failure is not None:
            raise failure
        return self.read_value(answer)

    async def exception(self, timeout: float | None = None) -> DeviceRequestFailed | None:
        """As :meth:`mirror_sdk.DeviceRequest.exception`, with the same errors."""
        return self.read_failure(await self._wait(timeout))

    async def _wait(self, timeout: float | None) -> AsyncResponse:
        timeout_seconds = self.default_timeout_seconds if timeout is None else seconds("timeout", timeout)
        answer = await self._pump.wait(self._expectation, rest_of(timeout_seconds if timeout is None else timeout))
        if answer is None:
            raise self.late(timeout_seconds) from self._pump.last_failure
        return answer
