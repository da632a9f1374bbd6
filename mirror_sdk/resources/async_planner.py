"""Makes plans for an asynchronous client: checks the writes, and sends them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk._protocol.async_channels import AsyncResponseRouter
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, wait_for_response
from mirror_sdk._protocol.async_fan_out import gather_requests
from mirror_sdk._protocol.deadline import left_of
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._table_keys import ResourceKey
from mirror_sdk.errors import CallTimeout, MirrorError
from mirror_sdk.progress import progress_bar
from mirror_sdk.resources.async_devices import AsyncDevices
from mirror_sdk.resources.async_requests import AsyncRequests
from mirror_sdk.values import encode

if TYPE_CHECKING:
    from mirror_sdk.plan import AsyncPlan
    from mirror_sdk.plan.checks import KnownDevice, Seen
    from mirror_sdk.plan.requested import RequestedWrite

_CONCURRENT_READS = 8
_READ_EXPIRY_SECONDS = 20
"""How long a read waits for its device, which stays connected."""
_LATE_SECONDS = _READ_EXPIRY_SECONDS + 5.0
_POLL_SECONDS = 1.0
"""How long to wait for one response before the others are checked."""


class AsyncPlanner:
    """Makes plans of writes.

    Args:
        session: Sends the requests.
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
        """Check writes against what is declared and against the current state, and plan them.

        Args:
            requested: The writes, with device ids.
            reasons: Why texts name no device, by the text.
            timeout: Seconds for the whole, instead of the client's for each request.
            read_first: Whether to read from devices the values that the mirror does not know.
        """
        from mirror_sdk.plan import AsyncPlan
        from mirror_sdk.plan.checks import check_all, places_to_read

        known, new_id = await self._known_of(requested, timeout), self._session.sender.clock.new_async_id
        planned = await run_in_thread(check_all, requested, known, reasons or {}, new_id=new_id)
        if read_first and (places := await run_in_thread(places_to_read, planned, known)):
            unread = await self._read_each(places, timeout)
            known |= await self._known_of([one for one in requested if (one.device_id, one.path) in places], timeout)
            planned = await run_in_thread(check_all, requested, known, reasons or {}, unread, new_id=new_id)
        return AsyncPlan(
            planned,
            server=self._session.base_url,
            write=self._requests.begin_write,
            read_state=self.read_state,
            make_plan=self.plan_of,
        )

    async def read_state(self, device_id: str, path: str) -> Seen:
        """Return the current state of a resource."""
        from mirror_sdk.plan.checks import resources_at

        return await self._session.read_device(device_id, partial(resources_at, {path}))

    async def _known_of(self, requested: Sequence[RequestedWrite], timeout: float | None) -> dict[str, KnownDevice]:
        """Return the devices to write to, with their entry in the directory and their resources."""
        from mirror_sdk.plan.checks import known_devices, resources_at
        from mirror_sdk.plan.requested import device_chunks

        known: dict[str, KnownDevice] = {}
        paths = {one.path for one in requested}
        for chunk in await run_in_thread(list, device_chunks(requested)):
            listed = await self._devices.list(filters={"id__in": chunk}, timeout=timeout)
            take = partial(self._session.read_device, take=partial(resources_at, paths), timeout=timeout)
            seen = await gather_requests(take, listed.ids)
            known |= await run_in_thread(known_devices, listed, seen)
        return known

    async def _read_each(self, places: Sequence[ResourceKey], timeout: float | None) -> Mapping[ResourceKey, str]:
        """Read from devices, several at a time. Returns why some reads failed.

        Raises:
            CallTimeout: The time for all reads is over.
        """
        from mirror_sdk.plan.ledger import check_about_one_device

        failures: dict[ResourceKey, str] = {}
        ends_at = math.inf if timeout is None else time.monotonic() + left_of(timeout)
        left, waiting = deque(places), dict[ResourceKey, tuple[AsyncDeviceRequest, float]]()
        with progress_bar(len(places), "reads") as bar:
            while left or waiting:
                while left and len(waiting) < _CONCURRENT_READS:
                    place = left.popleft()
                    try:
                        begun = self._requests.begin_read(*place, expiry_seconds=_READ_EXPIRY_SECONDS, timeout=timeout)
                        waiting[place] = await begun, time.monotonic() + _LATE_SECONDS
                    except MirrorError as error:
                        check_about_one_device(error)
                        failures[place] = str(error)
                if waiting:
                    await wait_for_response(next(iter(waiting.values()))[0], _POLL_SECONDS)
                ended = [
                    one for one, (read, late_at) in waiting.items() if read.response or time.monotonic() >= late_at
                ]
                for place in ended:
                    if failure := _failure_of_read(waiting.pop(place)[0]):
                        failures[place] = failure
                bar.update(len(ended))
                if (left or waiting) and time.monotonic() >= ends_at:
                    raise CallTimeout(
                        f"the reads before the plan took longer than timeout={timeout:g} s; give a longer timeout=, or"
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
        """Send a write like ``begin_write()``. It may have been sent before, and its response may be here already."""
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
