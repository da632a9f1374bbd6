"""What the write panel knows: devices, a resource and a value; the plan of it, how far that is, and the way back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk.device_request import DeviceRequest
from mirror_sdk.errors import ValueRefused
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import requests_frame
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.plan import Decision, Plan
from mirror_sdk.plan.report import (
    DEFAULT_CANARY,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_FAILURES,
    check_limits,
)
from mirror_sdk.progress import without_progress
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.device_picker import DevicePicker, GivenDevices
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.pages import Pages
from mirror_sdk.widgets.models.value_input import ValueInput, path_text
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.widgets.models.write_rows import WriteRow, WriteState, decision, write_rows

ROWS_SHOWN = 12


class Stage(StrEnum):
    """How far it is: an input, the look at what it would change, that preview, the writing, its end."""

    INPUT = "input"
    CHECKING = "checking"
    PREVIEW = "preview"
    WRITING = "writing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Limits:
    """How carefully is written, as for ``Plan.apply``."""

    expiry_seconds: int | None = None
    canary: int = DEFAULT_CANARY
    max_failures: int | None = DEFAULT_MAX_FAILURES
    include_offline: bool = False

    @property
    def text(self) -> str:
        """The same in words."""
        parts = [f"{count_text(self.canary, 'device')} first, which must succeed"] if self.canary else []
        if self.max_failures is not None:
            parts.append(f"no more is sent after {count_text(self.max_failures + 1, 'failure')}")
        waits = "as long as its row says" if self.expiry_seconds is None else f"{self.expiry_seconds:,} s"
        parts.append(f"a write waits {waits} for its device")
        return " · ".join(parts)


class WriteModel:
    """A value for a resource of some devices: looked at first, then written, then perhaps undone.

    Picking devices and looking reads the mirror; only :meth:`apply` sends.

    Args:
        client: The mirror.
        devices: Which devices can be picked, all of them picked at first: ids, devices, or a table with a column or
            an index ``device_id``. Without, any device of the directory can, and none is picked.
        run: Makes the client calls.
        limits: How carefully is written.
        clock: Seconds, for how often the directory is read again.

    Raises:
        ValueRefused: ``devices`` is none of these, or a limit is too small.

    Attributes:
        devices: Which devices are picked.
        value: The resource, and the value for it.
        limits: How carefully is written.
        stage: How far it is.
        plan: The plan that was looked at or written last.
        is_way_back: Whether that plan undoes another.
        pages: Which part of the writes is shown.
        notices: What went wrong.
        version: Grows with every change of what is shown.
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: GivenDevices | None = None,
        run: Run = run_now,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or Limits()
        check_limits(
            concurrency=DEFAULT_CONCURRENCY,
            canary=self.limits.canary,
            max_failures=self.limits.max_failures,
            expiry_seconds=self.limits.expiry_seconds,
            timeout=None,
        )
        self.notices = Notices()
        self.version = 0
        self.devices = DevicePicker(
            client, devices, run, notices=self.notices, changed=self._devices_changed, clock=clock
        )
        self.value = ValueInput(client, run, notices=self.notices, changed=self._changed)
        self.stage = Stage.INPUT
        self.plan: Plan | None = None
        self.is_way_back = False
        self.pages = Pages(ROWS_SHOWN)
        self._client = client
        self._run = run
        self._looks = 0
        self._looked_at: object = None
        self._applied: Plan | None = None
        self._is_stopping = False
        self._statuses: list[RequestStatus] = []
        self._made: tuple[int, list[WriteRow]] = (-1, [])

    @property
    def missing(self) -> str:
        """What a preview still needs; empty where it needs nothing."""
        if not self.devices.picked:
            return "pick at least one device"
        if not self.value.path:
            return "choose a resource"
        return self.value.path_problem or self.value.value_problem

    # Looking, writing, going back

    def preview(self) -> None:
        """Look at what the input would change; reads only."""
        if self.missing:
            self._tell("preview", "No preview yet", ValueRefused(self.missing))
            return
        value, path = self.value.read(), self.value.path
        wanted = [(device_id, path, value) for device_id in self.devices.picked]
        self._look("The preview", lambda: self._client.plan(wanted), is_way_back=False)

    def preview_undo(self) -> None:
        """Look at the way back from what was written last; reads only."""
        if self._applied is None or not self.can_undo:
            self._tell("preview", "Undo", ValueRefused("nothing was written that could be undone"))
            return
        self._look("The preview of the way back", self._applied.undo, is_way_back=True)

    def apply(self) -> None:
        """Write what the preview shows."""
        plan = self.plan
        if plan is None or not self.can_apply:
            self._tell("apply", "Nothing was sent", ValueRefused("make a preview of this input first"))
            return
        self.stage = Stage.WRITING
        self.notices.clear("apply")
        self._applied = plan
        self._is_stopping = False
        self._changed()
        canary = self._canary
        self._run(lambda: _apply(plan, self.limits, canary), lambda _: self._ended(), self._broke_off)

    def stop(self) -> None:
        """Send no more; what is on its way stays so."""
        if self.stage is Stage.WRITING and self.plan is not None:
            self._is_stopping = True
            self.plan.stop()
            self._changed()

    @property
    def is_old(self) -> bool:
        """Whether the input changed since the preview that is shown."""
        return self.stage is Stage.PREVIEW and self._input != self._looked_at

    @property
    def can_apply(self) -> bool:
        """Whether there is a preview of this very input, with something to write."""
        return self.stage is Stage.PREVIEW and not self.is_old and self.to_write > 0

    @property
    def can_undo(self) -> bool:
        """Whether something was written that may have had an effect, and nothing is under way."""
        is_busy = self.stage in {Stage.WRITING, Stage.CHECKING}
        return not is_busy and self._applied is not None and self._applied.is_undoable

    @property
    def result(self) -> pd.DataFrame:
        """The requests table of what was written last, as it stands now; without rows before that."""
        return requests_frame([]) if self._applied is None else self._applied.result

    def dismiss(self) -> None:
        """The notices were read."""
        self.notices.dismiss()
        self._changed()

    # What is shown of the plan

    def turn_page(self, step: int) -> None:
        """Go on by so many pages of writes, or back."""
        self.pages.index += step
        self._changed()

    @property
    def rows(self) -> Sequence[WriteRow]:
        """The writes of the page: what is refused, what is skipped, what is written."""
        return self.pages.cut(self._rows)

    @property
    def counts(self) -> dict[WriteState, int]:
        """How many writes stand how."""
        counted = Counter(row.state for row in self._rows)
        return {state: counted[state] for state in WriteState}

    @property
    def to_write(self) -> int:
        """How many writes the preview would send."""
        return self.counts[WriteState.PLANNED]

    @property
    def plan_title(self) -> str:
        """What the writes that are shown are about; empty where there are none."""
        if self.plan is None or not self.plan.planned:
            return ""
        what = path_text(self.plan.planned[0].want.path)
        return f"The way back: {what}" if self.is_way_back else what

    @property
    def status_text(self) -> str:
        """How it stands, in words."""
        match self.stage:
            case Stage.CHECKING:
                return "Looking at what would change …"
            case Stage.PREVIEW if self.is_old:
                return "The input changed since this preview: make a new one."
            case Stage.PREVIEW:
                return f"Preview: {'. '.join(self._preview_parts)}. Nothing was sent yet."
            case Stage.WRITING | Stage.ENDED:
                return self._progress_text
        return f"To begin, {self.missing}." if self.missing else "Ready for a preview; it only reads."

    # What comes in

    def take(self, events: Iterable[Event]) -> None:
        """Devices may come and go, and answers come after the end."""
        for event in events:
            self.devices.take([event])
            if event.kind is EventKind.ASYNC_RESPONSE and self.stage is not Stage.WRITING:
                self._look_for_answer(event.async_id)

    def tick(self) -> None:
        """Do what is due, and see how far the writing is: it is to be called some times a second."""
        self.devices.tick()
        if self.plan is None:
            return
        if self._is_stopping and self.stage is Stage.WRITING:
            # Again: the first time may have been before the plan had begun.
            self.plan.stop()
        statuses = [request_status(request) for request in self.plan.requests]
        if statuses != self._statuses:
            self._statuses = statuses
            self._changed()

    @property
    def _input(self) -> object:
        return self.devices.picked, self.value.path, self.value.entry, type(self.value.entry)

    @property
    def _rows(self) -> list[WriteRow]:
        """All writes, made once for each version: a fleet has many."""
        if self._made[0] != self.version:
            self._made = self.version, self._make_rows()
        return self._made[1]

    def _make_rows(self) -> list[WriteRow]:
        if self.plan is None:
            return []
        is_begun = self.stage in {Stage.WRITING, Stage.ENDED}
        is_over = self.stage is Stage.ENDED
        limits = self.limits
        return write_rows(
            self.plan,
            is_begun=is_begun,
            is_over=is_over,
            with_offline=limits.include_offline,
            expiry_seconds=limits.expiry_seconds,
        )

    @property
    def _preview_parts(self) -> Iterator[str]:
        yield _told(self.counts, _PREVIEW_WORDS)
        lost = sum(row.undo == "no" for row in self._rows)
        if lost:
            yield f"{lost:,} cannot be undone"
        if self._asleep_text:
            yield self._asleep_text
        if self.limits.canary < self.to_write and self._canary < self.limits.canary:
            yield "None is awake, so none is written to first"

    @property
    def _asleep_text(self) -> str:
        return self.plan.asleep_text(self.limits.expiry_seconds) if self.plan else ""

    @property
    def _canary(self) -> int:
        """How many are written to first: none where none is awake, which the preview has told."""
        sent = (
            [one for one in self.plan.planned if decision(one, self.limits.include_offline) is Decision.WRITE]
            if self.plan
            else []
        )
        return self.limits.canary if any(one.is_awake for one in sent) else 0

    @property
    def _progress_text(self) -> str:
        counts = self.counts
        every = sum(count for state, count in counts.items() if state not in _NOT_WAITED_FOR)
        ended = counts[WriteState.SUCCESS] + counts[WriteState.FAILURE]
        text = f"{ended:,} of {count_text(every, 'write')} ended"
        if ended:
            text = f"{text}, {_told(counts, _END_WORDS)}"
        if self.stage is Stage.WRITING:
            return f"Stopping: {text}" if self._is_stopping else f"Writing: {text}"
        if counts[WriteState.PENDING]:
            text = f"{text}, {counts[WriteState.PENDING]:,} without an answer yet"
        if counts[WriteState.ASLEEP]:
            text = f"{text}; {self._asleep_text}"
        if self._is_stopping:
            return f"Stopped: {text}."
        because = self.plan and self.plan.stopped_because
        return f"Ended early, because {because}: {text}." if because else f"Done: {text}."

    def _changed(self) -> None:
        self.version += 1

    def _devices_changed(self) -> None:
        self._changed()
        first = self.devices.first_known
        self.value.look_at(first, self.devices.name(first) if first else "")

    def _look(self, what: str, make: Callable[[], Plan], *, is_way_back: bool) -> None:
        if self.stage is Stage.WRITING:
            return
        self._looks += 1
        number, looked_at = self._looks, self._input
        self.stage, self.plan = Stage.CHECKING, None
        self.notices.clear("preview")
        self.notices.clear("apply")
        self._changed()

        def took(plan: Plan) -> None:
            if number == self._looks:
                self.stage, self.plan, self.is_way_back = Stage.PREVIEW, plan, is_way_back
                self._looked_at = looked_at
                self.pages.index = 0
                self._changed()

        def failed(error: Exception) -> None:
            if number == self._looks:
                self.stage = Stage.INPUT
                self._tell("preview", what, error)

        self._run(make, took, failed)

    def _ended(self) -> None:
        self.stage = Stage.ENDED
        self._changed()

    def _broke_off(self, error: Exception) -> None:
        self.stage = Stage.ENDED
        self._tell("apply", "Writing ended", error)

    def _look_for_answer(self, async_id: str | None) -> None:
        for request in self._applied.requests if self._applied else []:
            if isinstance(request, DeviceRequest) and request.async_id == async_id and request.answer is None:
                self._run(
                    request.done, lambda _: None, lambda error: self._tell("answer", "Looking for an answer", error)
                )

    def _tell(self, subject: str, what: str, error: Exception) -> None:
        self.notices.put(subject, what, error)
        self._changed()


_PREVIEW_WORDS = {
    WriteState.PLANNED: "to write",
    WriteState.SKIPPED: "skipped",
    WriteState.REFUSED: "refused",
}
_END_WORDS = {WriteState.SUCCESS: "with success", WriteState.FAILURE: "with failure"}
_NOT_WAITED_FOR = {WriteState.SKIPPED, WriteState.REFUSED, WriteState.ASLEEP}


def _told(counts: dict[WriteState, int], words: dict[WriteState, str]) -> str:
    parts = [f"{counts[state]:,} {word}" for state, word in words.items() if counts[state]]
    return ", ".join(parts) or "nothing to write"


def _apply(plan: Plan, limits: Limits, canary: int) -> None:
    with without_progress():
        plan.apply(
            expiry_seconds=limits.expiry_seconds,
            canary=canary,
            max_failures=limits.max_failures,
            include_offline=limits.include_offline,
        )
