"""The writes of a plan as they are shown, before, while and after they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mirror_sdk._visible import shown_names
from mirror_sdk.device_request import PlacedRequest, UnplacedRequest
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.object_table import lookup
from mirror_sdk.plan import Check, Decision, Plan
from mirror_sdk.plan.checks import NO_EARLIER, PlannedWrite
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.wording import MAX_VALUE_SHOWN, value_text

Request = PlacedRequest | UnplacedRequest


class WriteState(StrEnum):
    """How a write stands: what is not sent, what is to be sent, what was sent.

    ``UNSENT`` is one that was to be sent when sending ended; of an ``UNKNOWN`` one nobody knows whether it was taken.
    """

    REFUSED = "refused"
    SKIPPED = "skipped"
    PLANNED = "planned"
    QUEUED = "queued"
    PENDING = "pending"
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
        state: How it stands.
        reason: Why, where there is more to say.
    """

    device_id: str
    device: str
    before: str
    wanted: str
    state: WriteState
    reason: str


def write_rows(plan: Plan, *, is_begun: bool, is_over: bool, with_offline: bool) -> list[WriteRow]:
    """All writes of a plan: what is refused, what is skipped, what is written.

    Args:
        plan: The plan.
        is_begun: Whether it is or was being written.
        is_over: Whether that has ended.
        with_offline: Whether devices that are not registered are written to as well.
    """
    requests = {request.async_id: request for request in plan.requests} if is_begun else {}
    ordered = sorted(plan.planned, key=lambda one: _ORDER.index(_decision(one, with_offline)))
    names = shown_names({one.want.device_id: one.endpoint_name or one.want.device_id for one in ordered})
    return [
        _row(one, names[one.want.device_id], requests.get(one.async_id), is_over=is_over, with_offline=with_offline)
        for one in ordered
    ]


def _decision(planned: PlannedWrite, with_offline: bool) -> Decision:
    is_offline = planned.finding.check is Check.OFFLINE
    return Decision.WRITE if is_offline and with_offline else planned.finding.decision


def _row(planned: PlannedWrite, name: str, request: Request | None, *, is_over: bool, with_offline: bool) -> WriteRow:
    definition = lookup(planned.want.path)
    unit = planned.unit or (definition.unit if definition else "")
    match _decision(planned, with_offline):
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
        state=state,
        reason=reason,
    )


def _progress(planned: PlannedWrite, request: Request | None, is_over: bool) -> tuple[WriteState, str]:
    if request is None:
        return WriteState.PLANNED, _reason(planned)
    state = _STATES[request_status(request)]
    match state:
        case WriteState.QUEUED:
            return (WriteState.UNSENT, "") if is_over else (state, "")
        case WriteState.PENDING:
            return state, "no answer yet" if is_over else _reason(planned)
        case WriteState.FAILURE:
            return state, _failure(request)
        case WriteState.UNKNOWN:
            return state, "whether it was taken is not known; a new preview shows what there is"
    return state, ""


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
