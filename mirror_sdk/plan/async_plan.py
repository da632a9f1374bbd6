"""Applying a plan from tasks of the caller's loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from mirror_sdk._fork import register_fork_handler
from mirror_sdk._off_loop import off_loop
from mirror_sdk._protocol.accepted_request import ANSWER_MARGIN_SECONDS, AcceptedRequest, warn_of_loss
from mirror_sdk._protocol.async_device_request import AsyncDeviceRequest, look_for_answers
from mirror_sdk.errors import MirrorError, PreconditionFailed
from mirror_sdk.events import utc_now
from mirror_sdk.plan.async_in_flight import InFlightWrite, Stop, start_write, wait_all, wait_first, wait_or_stop
from mirror_sdk.plan.checks import PlannedWrite, Seen
from mirror_sdk.plan.ledger import LedgerEntry, check_about_one
from mirror_sdk.plan.report import (
    DEFAULT_CANARY,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_FAILURES,
    PlanReport,
    check_limits,
    progress_bars,
)
from mirror_sdk.plan.wanted import Want


class AsyncPlan(PlanReport):
    """Writes that were checked, to be sent with care and undone. ``client.plan`` makes it; looking sends nothing.

    What is no coroutine, such as ``frame``, ``result`` and ``save``, is done at once. Of a plan with thousands of
    writes a thread may do it: ``await asyncio.to_thread(plan.save, path)``.
    """

    def __init__(
        self,
        planned: Sequence[PlannedWrite],
        *,
        server: str,
        write: Callable[..., Awaitable[AsyncDeviceRequest]],
        see: Callable[[Want], Awaitable[Seen]],
        make_plan: Callable[[Sequence[Want]], Awaitable[AsyncPlan]],
        placed: Mapping[str, AcceptedRequest] | None = None,
    ) -> None:
        super().__init__(planned, server, placed or {})
        self._write = write
        self._see = see
        self._make_plan = make_plan
        self._after_fork_in_child()
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """It is not being applied here, whatever a task of the parent does."""
        self._stopped = Stop()
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
        """Send the writes and wait for their answers; called again, it goes on with what has not ended.

        Devices that sleep are written to last, when the others have answered. They take it at their next contact, which
        is not waited for: until then it is ``pending``, and ``apply`` called again, in another process too, looks for
        what has come.

        When it is cancelled it ends as by :meth:`stop`: no more is sent, and what is on its way stays so. A write is
        sent under the same async-id however often it is tried, so a device takes it once. One that failed is not sent
        again: make a new plan of those.

        Args:
            concurrency: How many writes may be under way at once.
            canary: How many to send first; all of them must succeed before any other is sent. They go to devices that
                are awake, and what succeeded in an earlier ``apply`` counts.
            max_failures: How many failures are borne; after one more nothing is sent any more. ``None`` for no limit.
            expiry_seconds: For how long each write may wait for its device; by default as the table of the plan has it:
                a minute, and for a device that sleeps 3 days, or more if it was silent for long.
            timeout: For how many seconds to wait for each answer here, those of devices that sleep all together. By
                default that is a little more than the expiry, and devices that sleep are not waited for. What has no
                answer by then is ``pending``, and may be waited for again.
            include_offline: Whether devices that are not registered are written to as well.

        Returns:
            The requests table of all writes; one that was not sent is ``queued``. See :attr:`result`.

        Raises:
            AccessDenied: The key may not write; nothing more is sent.
            AuthenticationError: The key is not known; nothing more is sent.
            MirrorError: Something else that every other write would meet too.
            InvalidValue: An argument is no such number, the plan is being applied already, or there is no canary: of
                several devices none is awake.

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
            raise self._busy()
        try:
            self._stopped.clear()
            todo = self._ledger.begin(canary=canary, max_failures=max_failures, include_offline=include_offline)
            with progress_bars(todo) as advance:
                await self._send_all(advance, concurrency, expiry_seconds, timeout)
            await self._look_at_sleepers(0 if timeout is None else timeout)
        finally:
            self._applying.release()
        warn_of_loss(self.requests)
        return await off_loop(lambda: self.result)

    def stop(self) -> None:
        """Send no more. What is on its way stays so, and ``apply`` returns soon.

        >>> plan = await client.plan([(light, "/3311/0/5851", 40)])
        >>> plan.stop()
        """
        self._ledger.stop("it was stopped")
        self._stopped.set()

    async def undo(self) -> AsyncPlan:
        """A plan that writes what was reported before this one, wherever this one may have had an effect.

        What the table of this plan says is not ``undoable`` is refused in it. So is what was changed after this plan
        wrote it, by a write of another value or by the device itself: ``check`` is ``changed``, ``reason`` shows the
        later value, and the other rows are undone all the same. To undo several plans, undo and apply the last one
        first. The service compares once more when it is applied. Nothing is sent before it is applied.

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
        return await self._make_plan(await off_loop(self._undo))

    async def _send_all(
        self,
        advance: Callable[[LedgerEntry], object],
        concurrency: int,
        expiry_seconds: int | None,
        timeout: float | None,
    ) -> None:
        in_flight: dict[InFlightWrite, LedgerEntry] = {}
        try:
            while True:
                while len(in_flight) < concurrency and (entry := self._ledger.next()) is not None:
                    in_flight[start_write(partial(self._carry_out, entry, expiry_seconds, timeout))] = entry
                if not in_flight:
                    return
                for ended in await wait_first(in_flight):
                    entry = in_flight.pop(ended)
                    self._ledger.settle(entry)
                    ended.result()
                    advance(entry)
        except BaseException:
            self.stop()
            await wait_all(in_flight)
            raise

    async def _carry_out(self, entry: LedgerEntry, expiry_seconds: int | None, timeout: float | None) -> None:
        own_seconds = entry.planned.expiry_seconds if expiry_seconds is None else int(expiry_seconds)
        if isinstance(entry.request, AcceptedRequest) and await self._is_settled(entry):
            return
        if not isinstance(entry.request, AsyncDeviceRequest):
            issued_at = utc_now()
            want = entry.planned.want
            try:
                entry.request = await self._write(
                    want.device_id,
                    want.path,
                    want.value,
                    content_type=want.content_type,
                    expiry_seconds=own_seconds,
                    async_id=entry.planned.async_id,
                    if_match=want.if_match,
                )
            except PreconditionFailed as error:
                entry.overtaken(error, issued_at)
                return
            except MirrorError as error:
                entry.not_taken(error, issued_at)
                return
        if not entry.planned.sleeps:
            wait_seconds = own_seconds + ANSWER_MARGIN_SECONDS if timeout is None else timeout
            await wait_or_stop(entry.request, wait_seconds, self._stopped)

    async def _is_settled(self, entry: LedgerEntry) -> bool:
        """Whether the mirror knows what became of a write that was sent before, or whether that cannot be known."""
        try:
            return entry.is_settled_by(*await self._see(entry.planned.want))
        except MirrorError as error:
            check_about_one(error)
            return True

    async def _look_at_sleepers(self, wait_seconds: float) -> None:
        """Wait for what sleeping devices answer, all together, and see what has come."""
        left = [entry.request for entry in self._ledger.asleep()]
        deadline = time.monotonic() + wait_seconds
        for request in left:
            if isinstance(request, AsyncDeviceRequest) and not self._stopped.is_set() and time.monotonic() < deadline:
                await wait_or_stop(request, deadline - time.monotonic(), self._stopped)
        await look_for_answers(left)
