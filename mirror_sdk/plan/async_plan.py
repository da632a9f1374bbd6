"""A plan that is applied by tasks in the event loop of the caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from mirror_sdk._fork import register_fork_handler
from mirror_sdk._protocol.accepted_request import RESPONSE_MARGIN_SECONDS, AcceptedRequest, warn_of_loss
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, fetch_responses, wait_for_response
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk.errors import InvalidValue, MirrorError, PreconditionFailed
from mirror_sdk.events import utc_now
from mirror_sdk.plan.async_in_flight_writes import InFlightWrite, start_write, wait_all, wait_first
from mirror_sdk.plan.checks import PlannedWrite, ReadResources
from mirror_sdk.plan.report import (
    DEFAULT_CANARY,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_FAILURES,
    PlanReport,
    check_limits,
)
from mirror_sdk.plan.requested_writes import RequestedWrite
from mirror_sdk.plan.scheduler import ScheduledWrite, raise_unless_device_specific
from mirror_sdk.progress import ProgressBar, progress_bar

_POLL_SECONDS = 1.0
"""The time to wait for a response before checking whether the plan was stopped, in seconds."""


class AsyncPlan(PlanReport):
    """A list of checked writes that you can send in steps and undo.

    ``client.plan`` creates a plan. Nothing is written until you call :meth:`apply`.

    Members that are not coroutines, such as ``frame``, ``result`` and ``save``, block the event loop. If the plan has
    thousands of writes, call these members in a thread: ``await asyncio.to_thread(plan.save, path)``.
    """

    def __init__(
        self,
        planned: Sequence[PlannedWrite],
        *,
        server: str,
        write: Callable[..., Awaitable[AsyncDeviceRequest]],
        read_state: Callable[[str, str], Awaitable[ReadResources]],
        make_plan: Callable[[Sequence[RequestedWrite]], Awaitable[AsyncPlan]],
        accepted: Mapping[str, AcceptedRequest] | None = None,
    ) -> None:
        super().__init__(planned, server, accepted or {})
        self._write = write
        self._read_state = read_state
        self._make_plan = make_plan
        self._after_fork_in_child()
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Reset the locks. The child process does not apply the plan, even if a task of the parent process does."""
        self._stopped = threading.Event()
        self._applying = threading.Lock()

    async def apply(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        canary: int = DEFAULT_CANARY,
        max_failures: int | None = DEFAULT_MAX_FAILURES,
        expiry_seconds: int | None = None,
        timeout: float | None = None,
        include_offline: bool = False,
    ) -> pd.DataFrame:
        """Send the writes and wait for their responses.

        Writes to sleeping devices are sent last, after the other devices have responded. A sleeping device accepts the
        write at its next contact. ``apply`` does not wait for that contact, so the write stays ``pending``. To read the
        responses that have arrived since then, call ``apply`` again, even in another process (:meth:`save`).

        A second call sends only writes that were not sent, and waits for writes that have not ended. It does not repeat
        a failed write; create a new plan for that. Each write keeps its async-id, so a device never executes it twice.

        Cancellation has the same effect as :meth:`stop`.

        Args:
            concurrency: The maximum number of writes in flight at the same time.
            canary: The number of writes to send first, to devices that are awake. All of them must succeed before any
                other write is sent. Writes that succeeded in an earlier ``apply`` count toward this number.
            max_failures: The number of writes that may fail. If more writes fail, the plan stops sending. ``None``
                means no limit.
            expiry_seconds: The time for which each write may wait for its device, in seconds. The defaults are in the
                plan table: a minute for a connected device. For a sleeping device it is three days, or more if the
                device was silent for long.
            timeout: The time to wait for each response, and for all sleeping devices together, in seconds. The default
                is slightly longer than the expiry, and 0 for sleeping devices. After the timeout, the write stays
                ``pending``.
            include_offline: Whether to include devices that are not registered.

        Returns:
            A table of all writes that may be sent; see :attr:`result`. Writes that were not sent are ``queued``.

        Raises:
            AccessDenied: The access key has no permission to write. No further writes are sent.
            AuthenticationError: The access key is unknown. No further writes are sent.
            MirrorError: Another error occurred that would affect every write.
            InvalidValue: An argument is out of range, or the plan is already being applied. It is also raised if the
                plan has more writes than ``canary``, but no device is awake for the first writes.

        >>> plan = await client.plan([(light, "/3311/0/5851", 40)])
        >>> (await plan.apply())["status"].tolist()
        ['success']
        """
        check_limits(
            concurrency=concurrency,
            canary=canary,
            max_failures=max_failures,
            expiry_seconds=expiry_seconds,
            timeout=timeout,
        )
        if not self._applying.acquire(blocking=False):
            raise InvalidValue("this plan is being applied already; wait until it ends, or stop() it")
        try:
            self._stopped.clear()
            count = self._scheduler.start(canary=canary, max_failures=max_failures, include_offline=include_offline)
            with progress_bar(count, "writes") as bar:
                await self._send_all(bar, concurrency, expiry_seconds, timeout)
            await self._await_sleeping(0 if timeout is None else timeout)
        finally:
            self._applying.release()
        warn_of_loss(self.requests)
        return await run_in_thread(lambda: self.result)

    def stop(self) -> None:
        """Stop sending writes. Writes in flight continue, and ``apply`` returns within about a second.

        >>> plan = await client.plan([(light, "/3311/0/5851", 40)])
        >>> plan.stop()
        """
        self._scheduler.stop("apply() was interrupted")
        self._stopped.set()

    async def undo(self) -> AsyncPlan:
        """Return a new plan that restores the earlier value for each write that may have had an effect.

        Nothing is written until you apply the new plan. The new plan rejects two kinds of rows:

        - rows that are not ``undoable`` in the table of this plan;
        - resources that another client or the device changed after this plan wrote them. Their ``check`` is
          ``changed``, and ``reason`` shows the later value. The service repeats this check when you apply the new plan.

        To undo several plans, start with the last one: undo it and apply the result.

        Raises:
            MirrorError: The state could not be read.

        >>> await client.read_value(light, "/3311/0/5851")
        10
        >>> plan = await client.plan([(light, "/3311/0/5851", 40)])
        >>> (await plan.apply())["status"].tolist()
        ['success']
        >>> (await plan.undo()).frame["wanted_num"].tolist()
        [10.0]
        """
        return await self._make_plan(await run_in_thread(self._undo))

    async def _send_all(
        self,
        bar: ProgressBar,
        concurrency: int,
        expiry_seconds: int | None,
        timeout: float | None,
    ) -> None:
        in_flight: dict[InFlightWrite, ScheduledWrite] = {}
        try:
            while True:
                while len(in_flight) < concurrency and (entry := self._scheduler.next()) is not None:
                    in_flight[start_write(partial(self._carry_out, entry, expiry_seconds, timeout))] = entry
                if not in_flight:
                    return
                for ended in await wait_first(in_flight):
                    entry = in_flight.pop(ended)
                    # This comes first, because result() raises the error of a failed write.
                    self._scheduler.settle(entry)
                    ended.result()
                    bar.update()
        except BaseException:
            self.stop()
            # Devices may still receive the writes in flight. Their requests are needed to undo or continue the plan.
            await wait_all(in_flight)
            raise

    async def _carry_out(self, entry: ScheduledWrite, expiry_seconds: int | None, timeout: float | None) -> None:
        own_seconds = entry.planned.expiry_seconds if expiry_seconds is None else int(expiry_seconds)
        planned = entry.planned
        if isinstance(entry.request, AcceptedRequest) and await self._is_settled(entry):
            return
        # A request of a saved plan has no router to wait with. It is sent again, which is harmless because of its
        # async-id.
        if not isinstance(entry.request, AsyncDeviceRequest):
            issued_at = utc_now()
            try:
                entry.request = await self._write(
                    planned.device_id,
                    planned.path,
                    planned.value,
                    content_type=planned.content_type,
                    expiry_seconds=own_seconds,
                    async_id=planned.async_id,
                    if_match=planned.if_match,
                )
            except PreconditionFailed as error:
                entry.record_conflict(error, issued_at)
                return
            except MirrorError as error:
                entry.record_rejection(error, issued_at)
                return
        # A sleeping device responds at its next contact. The plan waits for all sleeping devices together at the end.
        if not planned.sleeps:
            wait_seconds = own_seconds + RESPONSE_MARGIN_SECONDS if timeout is None else timeout
            await self._wait_for_response(entry.request, time.monotonic() + wait_seconds)

    async def _is_settled(self, entry: ScheduledWrite) -> bool:
        """Return whether the outcome of a write that was sent earlier is known, or cannot be determined."""
        try:
            return entry.is_settled_by(*await self._read_state(entry.planned.device_id, entry.planned.path))
        except MirrorError as error:
            raise_unless_device_specific(error)
            # Without the state, it is unknown whether the service still recognizes the async-id.
            return True

    async def _await_sleeping(self, wait_seconds: float) -> None:
        """Wait for the responses of sleeping devices, and read the responses that have arrived."""
        pending = [entry.request for entry in self._scheduler.asleep()]
        deadline = time.monotonic() + wait_seconds
        for request in pending:
            if isinstance(request, AsyncDeviceRequest):
                await self._wait_for_response(request, deadline)
        await fetch_responses(pending)

    async def _wait_for_response(self, request: AsyncDeviceRequest, deadline: float) -> None:
        """Wait until the request has its response, the deadline has passed, or the plan is stopped."""
        while not self._stopped.is_set() and (remaining_seconds := deadline - time.monotonic()) > 0:
            if await wait_for_response(request, min(remaining_seconds, _POLL_SECONDS)):
                return
