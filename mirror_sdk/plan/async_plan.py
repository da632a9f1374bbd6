"""Applying a plan from tasks of the caller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pandas as pd

from mirror_sdk._fork import tell_in_child
from mirror_sdk._off_loop import off_loop
from mirror_sdk._reports import utc_now
from mirror_sdk.async_device_request import AsyncDeviceRequest, wait_for_answer
from mirror_sdk.device_request import ANSWER_MARGIN_SECONDS, warn_of_loss
from mirror_sdk.errors import MirrorError
from mirror_sdk.plan.checks import PlannedWrite
from mirror_sdk.plan.ledger import Entry
from mirror_sdk.plan.report import (
    DEFAULT_CANARY,
    DEFAULT_CONCURRENCY,
    DEFAULT_EXPIRY_SECONDS,
    DEFAULT_MAX_FAILURES,
    PlanReport,
    check_limits,
)
from mirror_sdk.plan.wanted import Want
from mirror_sdk.progress import progress_bar


class AsyncPlan(PlanReport):
    """As :class:`~mirror_sdk.plan.Plan`, awaited. Cancelling ``apply`` ends it as :meth:`stop` does.

    What is no coroutine, such as ``frame``, ``result`` and ``save``, is done at once. Of a plan with thousands of
    writes a thread may do it: ``await asyncio.to_thread(plan.save, path)``.
    """

    def __init__(
        self,
        planned: Sequence[PlannedWrite],
        *,
        server: str,
        write: Callable[..., Awaitable[AsyncDeviceRequest]],
        make_plan: Callable[[Sequence[Want]], Awaitable[AsyncPlan]],
    ) -> None:
        super().__init__(planned, server)
        self._write = write
        self._make_plan = make_plan
        self._begin_in_child()
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """It is not being applied here, whatever a task of the parent does."""
        self._stopped = asyncio.Event()
        self._is_applying = False

    async def apply(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        canary: int = DEFAULT_CANARY,
        max_failures: int | None = DEFAULT_MAX_FAILURES,
        expiry_seconds: int = DEFAULT_EXPIRY_SECONDS,
        timeout: float | None = None,
        include_offline: bool = False,
    ) -> pd.DataFrame:
        """Send the writes and wait for their answers; called again, it goes on with what has not ended.

        When it is cancelled it ends as by :meth:`stop`: no more is sent, and what is on its way stays so. A write is
        sent under the same async-id however often it is tried, so a device takes it once. One that failed is not sent
        again: make a new plan of those.

        Args:
            concurrency: How many writes may be under way at once.
            canary: How many to send first; all of them must succeed before any other is sent.
            max_failures: How many failures are borne; after one more nothing is sent any more. ``None`` for no limit.
            expiry_seconds: For how long a write may wait for its device.
            timeout: For how many seconds to wait for each answer here; the default is ``expiry_seconds`` and a little
                more. What has no answer by then is ``pending``, and may be waited for again. Devices that sleep need
                a long expiry, and nobody wants to wait as long.
            include_offline: Whether devices that are not registered are written to as well.

        Returns:
            The requests table of all writes; one that was not sent is ``queued``. See :attr:`result`.

        Raises:
            AccessDenied: The key may not write; nothing more is sent.
            AuthenticationError: The key is not known; nothing more is sent.
            MirrorError: Something else that every other write would meet too.
            ValueRefused: An argument is no such number, or the plan is being applied already.

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
        wait_seconds = expiry_seconds + ANSWER_MARGIN_SECONDS if timeout is None else timeout
        if self._is_applying:
            raise self._busy()
        self._is_applying = True
        try:
            self._stopped.clear()
            total = self._ledger.begin(canary=canary, max_failures=max_failures, include_offline=include_offline)
            with progress_bar(total, "writes") as bar:
                await self._send_all(bar.update, concurrency, expiry_seconds, wait_seconds)
        finally:
            self._is_applying = False
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

        A resource that had no reported value is refused in it. Nothing is sent before it is applied.

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
        self, advance: Callable[[], object], concurrency: int, expiry_seconds: int, wait_seconds: float
    ) -> None:
        flying: dict[asyncio.Task[None], Entry] = {}
        try:
            while True:
                while len(flying) < concurrency and (entry := self._ledger.next()) is not None:
                    task = asyncio.create_task(self._carry_out(entry, expiry_seconds, wait_seconds))
                    flying[task] = entry
                if not flying:
                    return
                landed, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
                for task in landed:
                    self._ledger.settle(flying.pop(task))
                    task.result()
                    advance()
        finally:
            if flying:
                self.stop()
                for task in flying:
                    task.cancel()
                await asyncio.wait(flying)

    async def _carry_out(self, entry: Entry, expiry_seconds: int, wait_seconds: float) -> None:
        if not isinstance(entry.request, AsyncDeviceRequest):
            issued_at = utc_now()
            want = entry.planned.want
            try:
                entry.request = await self._write(
                    want.device_id,
                    want.path,
                    want.value,
                    content_type=want.content_type,
                    expiry_seconds=int(expiry_seconds),
                    async_id=entry.planned.async_id,
                )
            except MirrorError as error:
                entry.not_taken(error, issued_at)
                return
        await self._wait(entry.request, wait_seconds)

    async def _wait(self, request: AsyncDeviceRequest, wait_seconds: float) -> None:
        """Until it has ended, its time is over, or the plan is stopped."""
        answered = asyncio.ensure_future(wait_for_answer(request, wait_seconds))
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait({answered, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if answered.done():
                answered.result()
        finally:
            for one in (answered, stopped):
                one.cancel()
            await asyncio.wait({answered, stopped})
