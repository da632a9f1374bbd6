"""A planner for an asynchronous client, which checks writes and makes plans that send them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, wait_for_response
from mirror_sdk._protocol.async_fan_out import gather_requests
from mirror_sdk._protocol.async_log_consumers import AsyncResponseRouter
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._table_arguments import ResourceKey
from mirror_sdk.client_groups.async_devices import AsyncDevices
from mirror_sdk.client_groups.async_requests import AsyncRequests
from mirror_sdk.errors import CallTimeout, MirrorError
from mirror_sdk.progress import progress_bar
from mirror_sdk.values import encode

if TYPE_CHECKING:
    from mirror_sdk.plan import AsyncPlan
    from mirror_sdk.plan.checks import ReadResources, TargetDevice
    from mirror_sdk.plan.requested_writes import RequestedWrite

_CONCURRENT_READS = 8
_READ_EXPIRY_SECONDS = 20
"""The expiry of a read in seconds. Only devices that are always connected are read."""
# The response to an expired read arrives a little after its expiry.
_LATE_SECONDS = _READ_EXPIRY_SECONDS + 5.0
_POLL_SECONDS = 1.0
"""The time in seconds to wait for one response before the other responses are checked."""


class AsyncPlanner:
    """A planner, which checks writes and makes plans that send them.

    Args:
        session: The session that sends the requests.
    """

    def __init__(self, session: AsyncClientSession) -> None:
        self._session = session
        self._devices = AsyncDevices(session)
        self._requests = AsyncRequests(session)

    async def plan_of(
        self,
        requested: Sequence[RequestedWrite],
        reasons: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        read_first: bool = False,
    ) -> AsyncPlan:
        """Check writes against the declarations and the current state, and return a plan that sends them.

        Args:
            requested: The writes, with device ids.
            reasons: The reasons why device names were not found, by name.
            timeout: The timeout of the whole call in seconds. By default, the client's timeout applies to each request.
            read_first: Whether to first read the values that the mirror does not have from the devices.
        """
        from mirror_sdk.plan import AsyncPlan
        from mirror_sdk.plan.checks import check_all, resources_to_read

        devices, new_id = await self._targets(requested, timeout), self._session.sender.clock.new_async_id
        planned = await run_in_thread(check_all, requested, devices, reasons or {}, new_id=new_id)
        if read_first and (unread := await run_in_thread(resources_to_read, planned, devices)):
            failures = await self._read_resources(unread, timeout)
            # The mirror now has the values that were just read.
            devices |= await self._targets([one for one in requested if (one.device_id, one.path) in unread], timeout)
            planned = await run_in_thread(check_all, requested, devices, reasons or {}, failures, new_id=new_id)
        return AsyncPlan(
            planned,
            server=self._session.base_url,
            write=self._requests.begin_write,
            read_state=self.read_state,
            make_plan=self.plan_of,
        )

    async def read_state(self, device_id: str, path: str) -> ReadResources:
        """Return the current state of a resource."""
        from mirror_sdk.plan.checks import resources_at

        return await self._session.read_device(device_id, partial(resources_at, {path}))

    async def _targets(self, requested: Sequence[RequestedWrite], timeout: float | None) -> dict[str, TargetDevice]:
        from mirror_sdk.plan.checks import resources_at, target_devices
        from mirror_sdk.plan.requested_writes import device_chunks

        devices: dict[str, TargetDevice] = {}
        paths = {one.path for one in requested}
        for chunk in await run_in_thread(list, device_chunks(requested)):
            listed = await self._devices.list(filters={"id__in": chunk}, timeout=timeout)
            read = partial(self._session.read_device, take=partial(resources_at, paths), timeout=timeout)
            states = await gather_requests(read, listed.ids)
            devices |= await run_in_thread(target_devices, listed, states)
        return devices

    async def _read_resources(self, keys: Sequence[ResourceKey], timeout: float | None) -> Mapping[ResourceKey, str]:
        """Read resources from devices, several at a time, and return the reason of each failed read by resource.

        Raises:
            CallTimeout: The reads took longer than ``timeout``.
        """
        from mirror_sdk.plan.scheduler import raise_unless_device_specific

        failures: dict[ResourceKey, str] = {}
        deadline = math.inf if timeout is None else time.monotonic() + left_of(timeout)
        unsent, pending = deque(keys), dict[ResourceKey, tuple[AsyncDeviceRequest, float]]()
        with progress_bar(len(keys), "reads") as bar:
            while unsent or pending:
                while unsent and len(pending) < _CONCURRENT_READS:
                    key = unsent.popleft()
                    try:
                        sent = self._requests.begin_read(*key, expiry_seconds=_READ_EXPIRY_SECONDS, timeout=timeout)
                        pending[key] = await sent, time.monotonic() + _LATE_SECONDS
                    except MirrorError as error:
                        raise_unless_device_specific(error)
                        failures[key] = str(error)
                if pending:
                    # Waiting for one response reads the log, and so also delivers the responses to the other reads.
                    await wait_for_response(next(iter(pending.values()))[0], _POLL_SECONDS)
                ended = [
                    key for key, (read, late_at) in pending.items() if read.response or time.monotonic() >= late_at
                ]
                for key in ended:
                    if failure := _failure_of_read(pending.pop(key)[0]):
                        failures[key] = failure
                bar.update(len(ended))
                if (unsent or pending) and time.monotonic() >= deadline:
                    raise CallTimeout(
                        f"the reads before the plan took longer than timeout={timeout:g} s; pass a longer timeout=, or"
                        " plan without read_first"
                    )
        return failures

    async def write_again(
        self,
        router: Callable[[], AsyncResponseRouter],
        device_id: str,
        path: str,
        value: object,
        *,
        content_type: str | None,
        expiry_seconds: int | None,
        async_id: str | None,
        if_match: int | None,
    ) -> AsyncDeviceRequest:
        """Send a write of a plan that might have been sent before.

        In that case, its response might already be in the log.
        """
        payload, content_type = encode(value, path, content_type)
        return await self._session.submit(
            "PUT",
            device_id,
            path,
            expiry_seconds=expiry_seconds,
            async_id=async_id,
            payload=payload,
            content_type=content_type,
            if_match=if_match,
            router=router(),
        )


def _failure_of_read(read: AcceptedRequest) -> str | None:
    if read.response is None:
        return "no response"
    failure = read.read_failure(read.response)
    return None if failure is None else failure.category
