"""How an asynchronous client makes a plan: what it checks it against, and how it sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._off_loop import import_off_loop, off_loop
from mirror_sdk._protocol.async_channels import AsyncResponseRouter
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, wait_for_answer
from mirror_sdk._protocol.async_fan_out import gather_requests
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk.errors import MirrorError
from mirror_sdk.progress import progress_bar
from mirror_sdk.resources.async_devices import AsyncDevices
from mirror_sdk.resources.async_requests import AsyncRequests
from mirror_sdk.values import encode

if TYPE_CHECKING:
    from mirror_sdk.plan import AsyncPlan
    from mirror_sdk.plan.checks import KnownDevice, Place, Seen
    from mirror_sdk.plan.wanted import Want


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
        wants: Sequence[Want],
        reasons: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        read_first: bool = False,
    ) -> AsyncPlan:
        """Check writes against what is declared and against the current state, and plan them.

        Args:
            wants: The writes, with device ids.
            reasons: Why texts name no device, by the text.
            timeout: Seconds for the whole, instead of the client's for each request.
            read_first: Whether to read from devices the values that the mirror does not know.
        """
        from mirror_sdk.plan import AsyncPlan
        from mirror_sdk.plan.checks import check_all, places_to_read

        known, new_id = await self._known_of(wants, timeout), self._session.sender.clock.new_async_id
        planned = await off_loop(check_all, wants, known, reasons or {}, new_id=new_id)
        if read_first and (places := await off_loop(places_to_read, planned, known)):
            unread = await self._read_each(places, timeout)
            known |= await self._known_of([want for want in wants if (want.device_id, want.path) in places], timeout)
            planned = await off_loop(check_all, wants, known, reasons or {}, unread, new_id=new_id)
        return AsyncPlan(
            planned,
            server=self._session.base_url,
            write=self._requests.begin_write,
            see=self.see,
            make_plan=self.plan_of,
        )

    async def see(self, want: Want) -> Seen:
        """Return the current state of the resource of a write."""
        from mirror_sdk.plan.checks import resources_at

        return await self._session.read_device(want.device_id, partial(resources_at, {want.path}))

    async def _known_of(self, wants: Sequence[Want], timeout: float | None) -> dict[str, KnownDevice]:
        """Return the devices to write to, with their entry in the directory and their resources."""
        from mirror_sdk.plan.checks import known_devices, resources_at
        from mirror_sdk.plan.wanted import device_chunks

        known: dict[str, KnownDevice] = {}
        paths = {want.path for want in wants}
        for chunk in await off_loop(list, device_chunks(wants)):
            listed = await self._devices.list(filters={"id__in": chunk}, timeout=timeout)
            take = partial(self._session.read_device, take=partial(resources_at, paths), timeout=timeout)
            seen = await gather_requests(take, listed.ids)
            known |= await off_loop(known_devices, listed, seen)
        return known

    async def _read_each(self, places: Sequence[Place], timeout: float | None) -> Mapping[Place, str]:
        """Read from devices, several at a time. Returns why some reads failed."""
        await import_off_loop("mirror_sdk.plan.reading")
        from mirror_sdk.plan.reading import LOOK_SECONDS, READ_EXPIRY_SECONDS, Reads

        reads: Reads[AsyncDeviceRequest] = Reads(places, timeout)
        with progress_bar(len(places), "reads") as bar:
            while reads.is_open:
                for place in reads.next_places():
                    try:
                        asked = self._requests.begin_read(*place, expiry_seconds=READ_EXPIRY_SECONDS, timeout=timeout)
                        reads.began(place, await asked)
                    except MirrorError as error:
                        reads.not_taken(place, error)
                if (first := reads.first) is not None:
                    await wait_for_answer(first, LOOK_SECONDS)
                bar.update(reads.sweep())
        return reads.failures

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
