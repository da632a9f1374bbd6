"""The writes of a plan as they are shown, before, while and after they are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from mirror_sdk._visible import shown_names
from mirror_sdk.device_request import PlacedRequest, UnplacedRequest
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.object_table import lookup
from mirror_sdk.plan import Check, Decision, Plan
from mirror_sdk.plan.checks import NO_EARLIER, PlannedWrite
from mirror_sdk.plan.report import span_text
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.wording import MAX_VALUE_SHOWN, value_text
from mirror_sdk.wire.model import write_timestamp

Request = PlacedRequest | UnplacedRequest


class WriteState(StrEnum):
    """How a write stands: what is not sent, what is to be sent, what was sent.

    ``UNSENT`` is one that was to be sent when sending ended; of an ``UNKNOWN`` one nobody knows whether it was taken.
    ``ASLEEP`` is one that was left for a device that sleeps.
    """

    REFUSED = "refused"
    SKIPPED = "skipped"
    PLANNED = "planned"
    QUEUED = "queued"
    PENDING = "pending"
    ASLEEP = "asleep"
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    UNSENT = "unsent"


_STATES = {
    RequestStatus.QUEUED: WriteState.QUEUED,
    RequestStatus.PENDING: WriteState.PENDING,
    RequestStatus.SUCCESS: WriteState.SUCCESS,
    RequestStatus.FAILURE: WriteState.FAILURE,
    RequestStatus.UNKNOWN: WriteState.UNKNOWN,
}
_ORDER = (Decision.REFUSE, Decision.SKIP, Decision.WRITE)
_NO_VALUE_YET = "no value yet"


@dataclass(frozen=True, slots=True)
class WriteRow:
    """One write; texts may hold anything a device says.

    Attributes:
        device_id: The device.
        device: Its name.
        before: What it had when the plan was made.
        wanted: What is to be written.
        waits: For how long it waits for its device at most; empty where nothing is sent.
        undo: Whether it can be undone, yes or no; empty where nothing is sent.
        state: How it stands.
        reason: Why, where there is more to say.
    """

    device_id: str
    device: str
    before: str
    wanted: str
    waits: str
    undo: str
    state: WriteState
    reason: str


def write_rows(
    plan: Plan, *, is_begun: bool, is_over: bool, with_offline: bool, expiry_seconds: int | None
) -> list[WriteRow]:
    """All writes of a plan: what is refused, what is skipped, what is written.

    Args:
        plan: The plan.
        is_begun: Whether it is or was being written.
        is_over: Whether that has ended.
        with_offline: Whether devices that are not registered are written to as well.
        expiry_seconds: For how long each write waits; ``None`` for as long as the plan says.
    """
    requests = {request.async_id: request for request in plan.requests} if is_begun else {}
    ordered = sorted(plan.planned, key=lambda one: _ORDER.index(decision(one, with_offline)))
    names = shown_names({one.want.device_id: one.endpoint_name or one.want.device_id for one in ordered})
    rows = [
        _row(one, names[one.want.device_id], requests.get(one.async_id), is_over=is_over, with_offline=with_offline)
        for one in ordered
    ]
    if expiry_seconds is None:
        return rows
    return [replace(row, waits=span_text(expiry_seconds)) if row.waits else row for row in rows]


def decision(planned: PlannedWrite, with_offline: bool) -> Decision:
    """What is done about a write, where devices that are not registered may be written to as well."""
    is_offline = planned.finding.check is Check.OFFLINE
    return Decision.WRITE if is_offline and with_offline else planned.finding.decision


def _row(planned: PlannedWrite, name: str, request: Request | None, *, is_over: bool, with_offline: bool) -> WriteRow:
    definition = lookup(planned.want.path)
    unit = planned.unit or (definition.unit if definition else "")
    is_sent = decision(planned, with_offline) is Decision.WRITE
    match decision(planned, with_offline):
        case Decision.REFUSE:
            state, reason = WriteState.REFUSED, planned.finding.reason
        case Decision.SKIP:
            state, reason = WriteState.SKIPPED, _reason(planned)
        case Decision.WRITE:
            state, reason = _progress(planned, request, is_over)
    return WriteRow(
        device_id=planned.want.device_id,
        device=name,
        before=value_text(planned.before, unit) or _NO_VALUE_YET,
        wanted=_wanted(planned, unit),
        waits=span_text(planned.expiry_seconds) if is_sent else "",
        undo=("yes" if planned.undoable else "no") if is_sent else "",
        state=state,
        reason=reason,
    )


def _progress(planned: PlannedWrite, request: Request | None, is_over: bool) -> tuple[WriteState, str]:
    if request is None:
        return WriteState.PLANNED, _reason(planned)
    state, reason = _STATES[request_status(request)], ""
    match state:
        case WriteState.QUEUED if is_over:
            state = WriteState.UNSENT
        case WriteState.PENDING if planned.sleeps:
            state, reason = WriteState.ASLEEP, _next_contact(request)
        case WriteState.PENDING:
            reason = "no answer yet" if is_over else _reason(planned)
        case WriteState.FAILURE:
            reason = _failure(request)
        case WriteState.UNKNOWN:
            reason = "whether it was taken is not known; a new preview shows what there is"
    return state, reason


def _next_contact(request: Request) -> str:
    until = request.expires_at if isinstance(request, PlacedRequest) else None
    return "takes it at its next contact" + ("" if until is None else f", by {write_timestamp(until)} at the latest")


def _failure(request: Request) -> str:
    if isinstance(request, UnplacedRequest):
        return f"{request.refusal}: the service refused it"
    failure = request.read_failure(request.answer) if request.answer else None
    return f"{failure.category}: {failure.hint}" if failure else ""


def _reason(planned: PlannedWrite) -> str:
    reason = planned.finding.reason
    match planned.finding.check:
        case Check.OFFLINE:
            # What the plan says here names an argument of its own.
            return "the device is not registered"
        case Check.ALREADY_SO:
            return f"it has this value, {reason}"
    return reason


def _wanted(planned: PlannedWrite, unit: str) -> str:
    if planned.wanted.kind is not ValueKind.NONE:
        return value_text(planned.wanted, unit)
    value = planned.want.value
    if value is NO_EARLIER:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{str(value)[:MAX_VALUE_SHOWN]} {unit if is_number else ''}".rstrip()
