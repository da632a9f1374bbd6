"""The model of the write panel.

It contains the devices, a resource and a value, and the plan with its progress and undo.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.device_request import DeviceRequest
from mirror_sdk.device_lookup import DeviceLike, DevicesLike
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
    span_text,
)
from mirror_sdk.widgets.models.device_picker import DevicePicker
from mirror_sdk.widgets.models.formatting import format_count
from mirror_sdk.widgets.models.model import Model, Row, Run, run_now
from mirror_sdk.widgets.models.periodic_read import PeriodicRead
from mirror_sdk.widgets.models.status import Status, Tone
from mirror_sdk.widgets.models.value_input import ValueInput, path_text
from mirror_sdk.widgets.models.write_rows import WRITE_STATUSES, decision, write_rows

_PREVIEW_WORDS = {Status.TO_WRITE: "to write", Status.SKIPPED: "skipped", Status.REJECTED: "rejected"}
_END_WORDS = {Status.SUCCESS: "succeeded", Status.FAILED: "failed"}
_PROBLEMS = (Status.FAILED, Status.UNKNOWN, Status.REJECTED)
_NOT_COUNTED = {Status.SKIPPED, Status.REJECTED, Status.ASLEEP}


class Stage(StrEnum):
    """The stage of the panel: input, reading for a preview, preview, writing, or end."""

    INPUT = "input"
    CHECKING = "checking"
    PREVIEW = "preview"
    WRITING = "writing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class WriteLimits:
    """The limits that are passed to ``Plan.apply``."""

    expiry_seconds: int | None = None
    canary: int = DEFAULT_CANARY
    max_failures: int | None = DEFAULT_MAX_FAILURES
    include_offline: bool = False

    @property
    def text(self) -> str:
        """The limits as a short text."""
        canary = f"canary {self.canary:,}" if self.canary else "no canary"
        failures = "no limit of failures"
        if self.max_failures is not None:
            failures = f"stop after {format_count(self.max_failures + 1, 'failure')}"
        return f"{canary}, {failures}".capitalize()

    @property
    def meaning(self) -> str:
        """The limits as complete sentences."""
        sentences = ["All devices are written to at once."]
        if self.canary:
            one = "this write succeeds" if self.canary == 1 else "all of these succeed"
            sentences = [f"{format_count(self.canary, 'device')} first; the others follow only if {one}."]
        if self.max_failures is not None:
            sentences.append(f"No more writes are sent after {format_count(self.max_failures + 1, 'failure')}.")
        if self.expiry_seconds is None:
            sentences.append("A write waits for its device as long as its row says.")
        else:
            sentences.append(f"A write waits for its device for {span_text(self.expiry_seconds)}.")
        return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class Problem:
    """A group of writes that failed or are not sent for the same reason.

    The strings may come from devices.

    Attributes:
        status: The status of these writes.
        reason: The full reason.
        devices: The names of the devices of these writes.
    """

    status: Status
    reason: str
    devices: Sequence[str]


class WriteModel(Model):
    """A value for a resource of the chosen devices. The user previews it, writes it, and can undo it.

    Picking devices and making previews only reads from the mirror. :meth:`apply` sends the writes.

    Args:
        client: The client of the mirror.
        devices: The devices to pick from, which are all picked initially. They are ids, names, devices, or a table with
            a column or an index ``device_id``. By default, these are all devices of the directory, and none of them is
            picked.
        run: The function that makes the client calls.
        path: The path of the initial resource.
        limits: The limits of the writes.
        clock: A function that returns the time in seconds. It is used to schedule reads.

    Raises:
        InvalidValue: A limit is too small, or a table does not contain devices.
        TypeError: An item of ``devices`` is not a device.

    Attributes:
        devices: The picker of the devices to write.
        value: The resource, and the input for its value.
        limits: The limits of the writes.
        stage: The current stage.
        plan: The plan of the newest preview.
        is_undo: Whether the plan undoes another plan.
        status: The status of the displayed writes; ``None`` for all writes.
    """

    def __init__(
        self,
        client: MirrorClient,
        devices: DeviceLike | DevicesLike | None = None,
        run: Run = run_now,
        *,
        path: str = "",
        limits: WriteLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(client, run, clock=clock)
        self.limits = limits or WriteLimits()
        check_limits(
            concurrency=DEFAULT_CONCURRENCY,
            canary=self.limits.canary,
            max_failures=self.limits.max_failures,
            expiry_seconds=self.limits.expiry_seconds,
            timeout=None,
        )
        self.devices = DevicePicker(self, devices, self._devices_changed)
        self.value = ValueInput(self, path)
        self.stage = Stage.INPUT
        self.plan: Plan | None = None
        self.is_undo = False
        self.status: Status | None = None
        self._newest_preview = PeriodicRead(self, "preview", math.inf)
        self._previewed_input: object = None
        self._applied: Plan | None = None
        self._is_stopping = False
        self._request_statuses: list[RequestStatus] = []
        self._cached_rows: tuple[int, list[tuple[Status, Row]]] = (-1, [])

    @property
    def missing(self) -> str:
        """The input that is still needed for a preview. It is empty if the input is complete."""
        if not self.devices.picked:
            return "pick at least one device"
        if not self.value.path:
            return "choose a resource"
        return self.value.path_problem or self.value.value_problem

    # Preview, write, undo

    def preview(self) -> None:
        """Make a preview of the changes. Nothing is written."""
        if self.missing:
            self.report("preview", "No preview yet", InvalidValue(self.missing))
            return
        value, path = self.value.read(), self.value.path
        writes = [(device_id, path, value) for device_id in self.devices.picked]
        self._preview("The preview", lambda: self.client.plan(writes), is_undo=False)

    def preview_undo(self) -> None:
        """Make a preview of the undo of the last writes. Nothing is written."""
        if self._applied is None or not self.can_undo:
            self.report("preview", "Undo", InvalidValue("no write can be undone"))
            return
        self._preview("The preview of the undo", self._applied.undo, is_undo=True)

    def apply(self) -> None:
        """Send the writes of the preview."""
        plan = self.plan
        if plan is None or not self.can_apply:
            self.report("apply", "Nothing was sent", InvalidValue("make a preview of this input first"))
            return
        self.stage = Stage.WRITING
        self.notices.clear("apply")
        # This is set before anything is sent, because an apply() that fails may have sent writes that must be undone.
        self._applied, self.status = plan, None
        self._is_stopping = False
        self.changed()
        limits, canary = self.limits, self._canary
        self.run(
            lambda: plan.apply(
                expiry_seconds=limits.expiry_seconds,
                canary=canary,
                max_failures=limits.max_failures,
                include_offline=limits.include_offline,
            ),
            lambda _: self._ended(),
            self._ended,
        )

    def stop(self) -> None:
        """Stop sending writes. Writes in flight continue."""
        if self.stage is Stage.WRITING and self.plan is not None:
            self._is_stopping = True
            self.plan.stop()
            self.changed()

    close = stop

    @property
    def is_outdated(self) -> bool:
        """Whether the input has changed since the displayed preview."""
        return self.stage is Stage.PREVIEW and self._input != self._previewed_input

    @property
    def can_apply(self) -> bool:
        """Whether there is a preview of the current input that has writes to send."""
        return self.stage is Stage.PREVIEW and not self.is_outdated and self.to_write > 0

    @property
    def can_undo(self) -> bool:
        """Whether a write may have had an effect and no write is in progress."""
        is_busy = self.stage in {Stage.WRITING, Stage.CHECKING}
        return not is_busy and self._applied is not None and self._applied.is_undoable

    @property
    def result(self) -> pd.DataFrame:
        """The current requests table of the last writes. It has no rows before the first write."""
        return requests_frame([]) if self._applied is None else self._applied.result

    # Display of the plan

    def show_only(self, status: Status | None) -> None:
        """Show only writes with this status. ``None`` shows all writes."""
        self.status = status
        self.changed()

    @property
    def rows(self) -> list[Row]:
        """The rows of the displayed writes; see :func:`write_rows`."""
        return [row for status, row in self._rows if self.status in {None, status}]

    @property
    def counts(self) -> dict[Status, int]:
        """The number of writes with each status."""
        counted = Counter(status for status, _ in self._rows)
        return {status: counted[status] for status in WRITE_STATUSES}

    @property
    def problems(self) -> list[Problem]:
        """The groups of writes that failed or are rejected for the same reason, with the most frequent reason first."""
        devices: defaultdict[tuple[Status, str], list[str]] = defaultdict(list)
        for status, row in self._rows:
            if status in _PROBLEMS:
                # Otherwise, a reason that contains the name of its device would be different for each device.
                reason = row["reason"]
                named = f"{row['device']} has "
                reason = f"it has {reason.removeprefix(named)}" if reason.startswith(named) else reason
                devices[status, reason].append(row["device"])
        found = [Problem(status, reason, names) for (status, reason), names in devices.items()]
        return sorted(found, key=lambda one: (_PROBLEMS.index(one.status), -len(one.devices)))

    @property
    def progress(self) -> tuple[int, int, Tone]:
        """The number of ended writes, the total number, and a tone. Both numbers are 0 before writes are sent."""
        if self.stage not in {Stage.WRITING, Stage.ENDED}:
            return 0, 0, Tone.NOTE
        counts = self.counts
        total = sum(count for status, count in counts.items() if status not in _NOT_COUNTED)
        ended = counts[Status.SUCCESS] + counts[Status.FAILED]
        if counts[Status.FAILED]:
            return ended, total, Tone.WARN if counts[Status.SUCCESS] else Tone.BAD
        return ended, total, Tone.GOOD if total == ended else Tone.NOTE

    @property
    def to_write(self) -> int:
        """The number of writes that the preview would send."""
        return self.counts[Status.TO_WRITE]

    @property
    def plan_title(self) -> str:
        """A title with the resource that the plan writes. It is empty if there is no plan."""
        if self.plan is None or not self.plan.planned:
            return ""
        resource = path_text(self.plan.planned[0].path)
        return f"Undo: {resource}" if self.is_undo else resource

    @property
    def status_text(self) -> str:
        """A sentence about the progress of the writes."""
        match self.stage:
            case Stage.CHECKING:
                return "Preparing the preview …"
            case Stage.PREVIEW if self.is_outdated:
                return "The input changed since this preview: make a new one."
            case Stage.PREVIEW:
                return f"Preview: {'. '.join(self._preview_phrases)}. Nothing was sent yet."
            case Stage.WRITING | Stage.ENDED:
                return self._progress_text
        return self._input_text

    # Events

    def receive(self, events: Sequence[Event]) -> None:
        """Process added and removed devices, and responses that arrive after the writing has ended."""
        self.devices.receive(events)
        self.value.receive(events)
        for event in events:
            if event.kind is EventKind.ASYNC_RESPONSE and self.stage is not Stage.WRITING:
                self._fetch_response(event.async_id)

    def tick(self) -> None:
        """Start the reads that are due, and update the progress. Call this several times a second."""
        self.devices.tick()
        self.value.tick()
        if self.plan is None:
            return
        if self._is_stopping and self.stage is Stage.WRITING:
            # This is repeated, because the plan may not have been started the first time.
            self.plan.stop()
        statuses = [request_status(request) for request in self.plan.requests]
        if statuses != self._request_statuses:
            self._request_statuses = statuses
            self.changed()

    @property
    def _input(self) -> object:
        # The types are compared too, because True == 1.
        return self.devices.picked, self.value.path, self.value.entry, type(self.value.entry)

    @property
    def _rows(self) -> list[tuple[Status, Row]]:
        """All writes with their rows. They are cached for each version, because a fleet has many writes."""
        if self.plan is None:
            return []
        if self._cached_rows[0] != self.version:
            rows = write_rows(
                self.plan,
                canary=self._canary if self._canary < len(self._sent) else 0,
                is_started=self.stage in {Stage.WRITING, Stage.ENDED},
                is_over=self.stage is Stage.ENDED,
                include_offline=self.limits.include_offline,
                expiry_seconds=self.limits.expiry_seconds,
            )
            self._cached_rows = self.version, rows
        return self._cached_rows[1]

    @property
    def _input_text(self) -> str:
        if self.value.problem:
            # The problem itself is displayed next to the field.
            return "To begin, correct the input."
        if self.value.value_problem:
            return "To begin, enter a value."
        return f"To begin, {self.missing}." if self.missing else "Ready for a preview; it only reads."

    @property
    def _preview_phrases(self) -> Iterator[str]:
        yield _counts_text(self.counts, _PREVIEW_WORDS)
        lost = sum(row["undo"] == "no" for _, row in self._rows)
        if lost:
            yield f"{lost:,} cannot be undone"
        if self._asleep_text:
            yield self._asleep_text
        if self.limits.canary < self.to_write and self._canary < self.limits.canary:
            yield "No device is awake, so none is written to first"

    @property
    def _asleep_text(self) -> str:
        return self.plan.asleep_text(self.limits.expiry_seconds) if self.plan else ""

    @property
    def _sent(self) -> list[PlannedWrite]:
        """The writes that the plan has to send."""
        planned = self.plan.planned if self.plan else []
        return [one for one in planned if decision(one, self.limits.include_offline) is Decision.WRITE]

    @property
    def _canary(self) -> int:
        """The number of devices to write first.

        It is 0 if no device is awake in the preview.
        """
        return self.limits.canary if any(one.is_awake for one in self._sent) else 0

    @property
    def _progress_text(self) -> str:
        counts = self.counts
        ended, total, _ = self.progress
        text = f"{ended:,} of {format_count(total, 'write')} ended"
        if ended:
            text = f"{text}, {_counts_text(counts, _END_WORDS)}"
        if self.stage is Stage.WRITING:
            return f"Stopping: {text}" if self._is_stopping else f"Writing: {text}"
        if counts[Status.PENDING]:
            text = f"{text}, {counts[Status.PENDING]:,} without a response yet"
        if counts[Status.ASLEEP]:
            text = f"{text}; {self._asleep_text}"
        if self._is_stopping:
            return f"Stopped: {text}."
        because = self.plan and self.plan.stopped_because
        return f"Ended early, because {because}: {text}." if because else f"Done: {text}."

    def _devices_changed(self) -> None:
        self.changed()
        first = self.devices.first_listed
        self.value.offer_resources_of(first, self.devices.name(first) if first else "")

    def _preview(self, action: str, make: Callable[[], Plan], *, is_undo: bool) -> None:
        if self.stage is Stage.WRITING:
            return
        previewed = self._input
        self.stage, self.plan = Stage.CHECKING, None
        self.notices.clear("preview")
        self.notices.clear("apply")
        self.changed()

        def accept(plan: Plan) -> None:
            self.stage, self.plan, self.is_undo = Stage.PREVIEW, plan, is_undo
            self._previewed_input = previewed
            self.status = None

        def failed(_: Exception) -> None:
            self.stage = Stage.INPUT

        self._newest_preview.start(action, make, accept, failed)

    def _ended(self, error: Exception | None = None) -> None:
        self.stage = Stage.ENDED
        self.value.load()
        self.changed()
        if error is not None:
            self.report("apply", "Writing ended", error)

    def _fetch_response(self, async_id: str | None) -> None:
        for request in self._applied.requests if self._applied else []:
            if isinstance(request, DeviceRequest) and request.async_id == async_id and request.response is None:
                self.run(
                    request.done, lambda _: None, lambda error: self.report("response", "Reading a response", error)
                )


def _counts_text(counts: dict[Status, int], words: dict[Status, str]) -> str:
    phrases = [f"{counts[status]:,} {word}" for status, word in words.items() if counts[status]]
    return ", ".join(phrases) or "nothing to write"
