"""The writes of a plan as they are shown, before, while and after they are sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror_sdk._protocol.placed_request import PlacedRequest, UnplacedRequest
from mirror_sdk._visible import shown_names, visible
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.object_table import lookup
from mirror_sdk.plan import Check, Decision, Plan
from mirror_sdk.plan.checks import NO_EARLIER, PlannedWrite
from mirror_sdk.plan.report import span_text
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.marks import Mark
from mirror_sdk.widgets.models.wording import MAX_VALUE_SHOWN, value_text
from mirror_sdk.wire.model import write_timestamp

Request = PlacedRequest | UnplacedRequest


WRITE_MARKS = (
    Mark.TO_WRITE,
    Mark.QUEUED,
    Mark.PENDING,
    Mark.ASLEEP,
    Mark.SUCCESS,
    Mark.FAILED,
    Mark.UNKNOWN,
    Mark.UNSENT,
    Mark.SKIPPED,
    Mark.REFUSED,
)
"""How a write may stand: what is to be sent, what was sent, what is not."""
_STATES = {
    RequestStatus.QUEUED: Mark.QUEUED,
    RequestStatus.PENDING: Mark.PENDING,
    RequestStatus.SUCCESS: Mark.SUCCESS,
    RequestStatus.FAILURE: Mark.FAILED,
    RequestStatus.UNKNOWN: Mark.UNKNOWN,
}
_ORDER = (Decision.WRITE, Decision.SKIP, Decision.REFUSE)
_NO_VALUE_YET = "no value yet"


@dataclass(frozen=True, slots=True)
class WriteRow:
    """One write; texts may hold anything a device says.

    Attributes:
        async_id: Its identity.
        device_id: The device.
        device: Its name.
        before: What it had when the plan was made.
        wanted: What is to be written.
        waits: For how long it waits for its device at most; empty where nothing is sent.
        undo: Whether it can be undone, yes or no; empty where nothing is sent.
        mark: How it stands.
        reason: Why, where there is more to say.
    """

    async_id: str
    device_id: str
    device: str
    before: str
    wanted: str
    waits: str
    undo: str
    mark: Mark
    reason: str


def write_rows(
    plan: Plan, *, canary: int, is_begun: bool, is_over: bool, with_offline: bool, expiry_seconds: int | None
) -> list[WriteRow]:
    """All writes of a plan: what is written, in the order in which it is sent, what is skipped, what is refused.

    Args:
        plan: The plan.
        canary: How many are written before the others.
        is_begun: Whether it is or was being written.
        is_over: Whether that has ended.
        with_offline: Whether devices that are not registered are written to as well.
        expiry_seconds: For how long each write waits; ``None`` for as long as the plan says.
    """
    requests = {request.async_id: request for request in plan.requests} if is_begun else {}
    ordered = sorted(plan.planned, key=lambda one: (_ORDER.index(decision(one, with_offline)), not one.is_awake))
    names = shown_names({one.device_id: one.endpoint_name or one.device_id for one in ordered})
    rows = []
    for number, one in enumerate(ordered):
        request = requests.get(one.async_id)
        row = _row(one, names[one.device_id], request, is_over=is_over, with_offline=with_offline)
        if number < canary and row.mark in {Mark.TO_WRITE, Mark.QUEUED}:
            row = replace(row, reason="; ".join(filter(None, ("goes first", row.reason))))
        if expiry_seconds is not None and row.waits:
            row = replace(row, waits=span_text(expiry_seconds))
        rows.append(row)
    return rows


def decision(planned: PlannedWrite, with_offline: bool) -> Decision:
    """What is done about a write, where devices that are not registered may be written to as well."""
    is_offline = planned.check is Check.OFFLINE
    return Decision.WRITE if is_offline and with_offline else planned.decision


def _row(planned: PlannedWrite, name: str, request: Request | None, *, is_over: bool, with_offline: bool) -> WriteRow:
    definition = lookup(planned.path)
    unit = planned.unit or (definition.unit if definition else "")
    is_sent = decision(planned, with_offline) is Decision.WRITE
    match decision(planned, with_offline):
        case Decision.REFUSE:
            mark, reason = Mark.REFUSED, planned.reason
        case Decision.SKIP:
            mark, reason = Mark.SKIPPED, _reason(planned)
        case Decision.WRITE:
            mark, reason = _progress(planned, request, is_over)
    return WriteRow(
        async_id=planned.async_id,
        device_id=planned.device_id,
        device=name,
        before=value_text(planned.before, unit) or _NO_VALUE_YET,
        wanted=_wanted(planned, unit),
        waits=span_text(planned.expiry_seconds) if is_sent else "",
        undo=("yes" if planned.undoable else "no") if is_sent else "",
        mark=mark,
        reason=reason,
    )


def _progress(planned: PlannedWrite, request: Request | None, is_over: bool) -> tuple[Mark, str]:
    if request is None:
        return Mark.TO_WRITE, _reason(planned)
    mark, reason = _STATES[request_status(request)], ""
    match mark:
        case Mark.QUEUED if is_over:
            mark = Mark.UNSENT
        case Mark.PENDING if planned.sleeps:
            mark, reason = Mark.ASLEEP, _next_contact(request)
        case Mark.PENDING:
            reason = "no answer yet" if is_over else _reason(planned)
        case Mark.FAILED:
            reason = _failure(request)
        case Mark.UNKNOWN:
            reason = "whether it was taken is not known; a new preview shows what there is"
    return mark, reason


def _next_contact(request: Request) -> str:
    until = request.expires_at if isinstance(request, PlacedRequest) else None
    return "takes it at its next contact" + ("" if until is None else f", by {write_timestamp(until)} at the latest")


def _failure(request: Request) -> str:
    if isinstance(request, UnplacedRequest):
        return f"{request.refusal}: the service refused it"
    failure = request.read_failure(request.answer) if request.answer else None
    return f"{failure.category}: {failure.hint}" if failure else ""


def _reason(planned: PlannedWrite) -> str:
    reason = planned.reason
    match planned.check:
        case Check.OFFLINE:
            # What the plan says here names an argument of its own.
            return "the device is not registered"
        case Check.ALREADY_SO:
            return f"it has this value, {reason}"
    return reason


def _wanted(planned: PlannedWrite, unit: str) -> str:
    if planned.wanted.kind is not ValueKind.NONE:
        return value_text(planned.wanted, unit)
    value = planned.value
    if value is NO_EARLIER:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{visible(str(value)[:MAX_VALUE_SHOWN])} {visible(unit) if is_number else ''}".rstrip()
