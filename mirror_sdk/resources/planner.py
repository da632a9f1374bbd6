# Made from async_planner.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""How a synchronous client makes a plan: what it checks it against, and how it sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk._fork import import_locked
from mirror_sdk._protocol.channels import ResponseRouter
from mirror_sdk._protocol.device_request import DeviceRequest, wait_for_answer
from mirror_sdk._protocol.fan_out import gather_requests
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.errors import MirrorError
from mirror_sdk.progress import progress_bar
from mirror_sdk.resources.devices import Devices
from mirror_sdk.resources.requests import Requests
from mirror_sdk.values import encode

if TYPE_CHECKING:
    from mirror_sdk.plan import Plan
    from mirror_sdk.plan.checks import KnownDevice, Place, Seen
    from mirror_sdk.plan.wanted import Want


class Planner:
    """Makes plans of writes.

    Args:
        session: Sends the requests.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._devices = Devices(session)
        self._requests = Requests(session)

    def plan_of(
        self,
        wants: Sequence[Want],
        reasons: Mapping[str, str] | None = None,
        timeout: float | None = None,
        *,
        read_first: bool = False,
    ) -> Plan:
        """Check writes against what is declared and against the current state, and plan them.

        Args:
            wants: The writes, with device ids.
            reasons: Why texts name no device, by the text.
            timeout: Seconds for the whole, instead of the client's for each request.
            read_first: Whether to read from devices the values that the mirror does not know.
        """
        from mirror_sdk.plan import Plan
        from mirror_sdk.plan.checks import check_all, places_to_read

        known, new_id = self._known_of(wants, timeout), self._session.sender.clock.new_async_id
        planned = check_all(wants, known, reasons or {}, new_id=new_id)
        if read_first and (places := places_to_read(planned, known)):
            unread = self._read_each(places, timeout)
            known |= self._known_of([want for want in wants if (want.device_id, want.path) in places], timeout)
            planned = check_all(wants, known, reasons or {}, unread, new_id=new_id)
        return Plan(
            planned,
            server=self._session.base_url,
            write=self._requests.begin_write,
            see=self.see,
            make_plan=self.plan_of,
        )

    def see(self, want: Want) -> Seen:
        """Return the current state of the resource of a write."""
        from mirror_sdk.plan.checks import resources_at

        return self._session.read_device(want.device_id, partial(resources_at, {want.path}))

    def _known_of(self, wants: Sequence[Want], timeout: float | None) -> dict[str, KnownDevice]:
        """Return the devices to write to, with their entry in the directory and their resources."""
        from mirror_sdk.plan.checks import known_devices, resources_at
        from mirror_sdk.plan.wanted import device_chunks

        known: dict[str, KnownDevice] = {}
        paths = {want.path for want in wants}
        for chunk in list(device_chunks(wants)):
            listed = self._devices.list(filters={"id__in": chunk}, timeout=timeout)
            take = partial(self._session.read_device, take=partial(resources_at, paths), timeout=timeout)
            seen = gather_requests(take, listed.ids)
            known |= known_devices(listed, seen)
        return known

    def _read_each(self, places: Sequence[Place], timeout: float | None) -> Mapping[Place, str]:
        """Read from devices, several at a time. Returns why some reads failed."""
        import_locked("mirror_sdk.plan.reading")
        from mirror_sdk.plan.reading import LOOK_SECONDS, READ_EXPIRY_SECONDS, Reads

        reads: Reads[DeviceRequest] = Reads(places, timeout)
        with progress_bar(len(places), "reads") as bar:
            while reads.is_open:
                for place in reads.next_places():
                    try:
                        asked = self._requests.begin_read(*place, expiry_seconds=READ_EXPIRY_SECONDS, timeout=timeout)
                        reads.began(place, asked)
                    except MirrorError as error:
                        reads.not_taken(place, error)
                if (first := reads.first) is not None:
                    wait_for_answer(first, LOOK_SECONDS)
                bar.update(reads.sweep())
        return reads.failures

    def write_again(
        self,
        router: Callable[[], ResponseRouter],
        device_id: str,
        path: str,
        value: object,
        *,
        content_type: str | None,
        expiry_seconds: int | None,
        async_id: str | None,
        if_match: int | None,
    ) -> DeviceRequest:
        """Send a write like ``begin_write()``. It may have been sent before, and its response may be here already."""
        payload, content_type = encode(value, path, content_type)
        return self._session.submit(
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
