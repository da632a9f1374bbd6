"""What the write panel knows: devices, a resource and a value; the plan of it, how far that is, and the way back."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.device_request import DeviceRequest
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames import requests_frame
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.plan import Decision, Plan
from mirror_sdk.plan.checks import PlannedWrite
from mirror_sdk.plan.report import (
    DEFAULT_CANARY,
    DEFAULT_CONCURRENCY,
    DEFAULT_MAX_FAILURES,
    check_limits,
)
from mirror_sdk.progress import without_progress
from mirror_sdk.widgets.models.calls import Run, run_now
from mirror_sdk.widgets.models.device_picker import DevicePicker, GivenDevices
from mirror_sdk.widgets.models.marks import Mark, Tone
from mirror_sdk.widgets.models.notices import Notices
from mirror_sdk.widgets.models.value_input import ValueInput, path_text
from mirror_sdk.widgets.models.wording import count_text
from mirror_sdk.widgets.models.write_rows import WRITE_MARKS, WriteRow, decision, write_rows


class Stage(StrEnum):
    """How far it is: an input, the look at what it would change, that preview, the writing, its end."""

    INPUT = "input"
    CHECKING = "checking"
    PREVIEW = "preview"
    WRITING = "writing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class WriteLimits:
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
        path: The resource, where it is known at first.
        limits: How carefully is written.
        clock: Seconds, for how often the mirror is read again.

    Raises:
        InvalidValue: ``devices`` is none of these, or a limit is too small.

    Attributes:
        devices: Which devices are picked.
        value: The resource, and the value for it.
        limits: How carefully is written.
        stage: How far it is.
        plan: The plan that was looked at or written last.
        is_way_back: Whether that plan undoes another.
        shown: How the writes stand that are shown; ``None`` for all.
        notices: What went wrong.
        version: Grows with every change of what is shown.
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: GivenDevices | None = None,
        run: Run = run_now,
        *,
        path: str = "",
        limits: WriteLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or WriteLimits()
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
        self.value = ValueInput(client, path, run, notices=self.notices, changed=self._changed, clock=clock)
        self.stage = Stage.INPUT
        self.plan: Plan | None = None
        self.is_way_back = False
        self.shown: Mark | None = None
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
            self._tell("preview", "No preview yet", InvalidValue(self.missing))
            return
        value, path = self.value.read(), self.value.path
        wanted = [(device_id, path, value) for device_id in self.devices.picked]
        self._look("The preview", lambda: self._client.plan(wanted), is_way_back=False)

    def preview_undo(self) -> None:
        """Look at the way back from what was written last; reads only."""
        if self._applied is None or not self.can_undo:
            self._tell("preview", "Undo", InvalidValue("nothing was written that could be undone"))
            return
        self._look("The preview of the way back", self._applied.undo, is_way_back=True)

    def apply(self) -> None:
        """Write what the preview shows."""
        plan = self.plan
        if plan is None or not self.can_apply:
            self._tell("apply", "Nothing was sent", InvalidValue("make a preview of this input first"))
            return
        self.stage = Stage.WRITING
        self.notices.clear("apply")
        self._applied, self.shown = plan, None
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

    def show(self, mark: Mark | None) -> None:
        """Show the writes that stand so alone; ``None`` for all."""
        self.shown = mark
        self._changed()

    @property
    def rows(self) -> list[WriteRow]:
        """The writes that are shown: what is written, in its order, what is skipped, what is refused."""
        return [row for row in self._rows if self.shown in {None, row.mark}]

    @property
    def counts(self) -> dict[Mark, int]:
        """How many writes stand how."""
        counted = Counter(row.mark for row in self._rows)
        return {mark: counted[mark] for mark in WRITE_MARKS}

    @property
    def progress(self) -> tuple[int, int, Tone]:
        """How many writes have ended, how many are waited for, and how it goes; none before they are sent."""
        if self.stage not in {Stage.WRITING, Stage.ENDED}:
            return 0, 0, Tone.NOTE
        counts = self.counts
        total = sum(count for mark, count in counts.items() if mark not in _NOT_WAITED_FOR)
        ended = counts[Mark.SUCCESS] + counts[Mark.FAILED]
        if counts[Mark.FAILED]:
            return ended, total, Tone.WARN if counts[Mark.SUCCESS] else Tone.BAD
        return ended, total, Tone.GOOD if total == ended else Tone.NOTE

    @property
    def to_write(self) -> int:
        """How many writes the preview would send."""
        return self.counts[Mark.TO_WRITE]

    @property
    def plan_title(self) -> str:
        """What the writes that are shown are about; empty where there are none."""
        if self.plan is None or not self.plan.planned:
            return ""
        what = path_text(self.plan.planned[0].path)
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
        return self._input_text

    # What comes in

    def take(self, events: Sequence[Event]) -> None:
        """Devices may come and go, and answers come after the end."""
        self.devices.take(events)
        self.value.take(events)
        for event in events:
            if event.kind is EventKind.ASYNC_RESPONSE and self.stage is not Stage.WRITING:
                self._look_for_answer(event.async_id)

    def tick(self) -> None:
        """Do what is due, and see how far the writing is: it is to be called some times a second."""
        self.devices.tick()
        self.value.tick()
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
            canary=self._canary if self._canary < len(self._sent) else 0,
            is_begun=is_begun,
            is_over=is_over,
            with_offline=limits.include_offline,
            expiry_seconds=limits.expiry_seconds,
        )

    @property
    def _input_text(self) -> str:
        if self.value.problem:
            # It stands beside the field.
            return "To begin, mend the input."
        if self.value.value_problem:
            return "To begin, enter a value."
        return f"To begin, {self.missing}." if self.missing else "Ready for a preview; it only reads."

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
    def _sent(self) -> list[PlannedWrite]:
        """What is sent of the plan."""
        planned = self.plan.planned if self.plan else []
        return [one for one in planned if decision(one, self.limits.include_offline) is Decision.WRITE]

    @property
    def _canary(self) -> int:
        """How many are written to first: none where none is awake, which the preview has told."""
        return self.limits.canary if any(one.is_awake for one in self._sent) else 0

    @property
    def _progress_text(self) -> str:
        counts = self.counts
        ended, every, _ = self.progress
        text = f"{ended:,} of {count_text(every, 'write')} ended"
        if ended:
            text = f"{text}, {_told(counts, _END_WORDS)}"
        if self.stage is Stage.WRITING:
            return f"Stopping: {text}" if self._is_stopping else f"Writing: {text}"
        if counts[Mark.PENDING]:
            text = f"{text}, {counts[Mark.PENDING]:,} without an answer yet"
        if counts[Mark.ASLEEP]:
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
                self.shown = None
                self._changed()

        def failed(error: Exception) -> None:
            if number == self._looks:
                self.stage = Stage.INPUT
                self._tell("preview", what, error)

        self._run(make, took, failed)

    def _ended(self) -> None:
        self.stage = Stage.ENDED
        self.value.load()
        self._changed()

    def _broke_off(self, error: Exception) -> None:
        self._ended()
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
    Mark.TO_WRITE: "to write",
    Mark.SKIPPED: "skipped",
    Mark.REFUSED: "refused",
}
_END_WORDS = {Mark.SUCCESS: "with success", Mark.FAILED: "with failure"}
_NOT_WAITED_FOR = {Mark.SKIPPED, Mark.REFUSED, Mark.ASLEEP}


def _told(counts: dict[Mark, int], words: dict[Mark, str]) -> str:
    parts = [f"{counts[state]:,} {word}" for state, word in words.items() if counts[state]]
    return ", ".join(parts) or "nothing to write"


def _apply(plan: Plan, limits: WriteLimits, canary: int) -> None:
    with without_progress():
        plan.apply(
            expiry_seconds=limits.expiry_seconds,
            canary=canary,
            max_failures=limits.max_failures,
            include_offline=limits.include_offline,
        )
