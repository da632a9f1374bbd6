"""The rows of a grid with the writes of a plan, before, during and after the writes are sent."""

from __future__ import annotations

from mirror_sdk._formatting import display_names, utc_text, visible
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.object_definitions import lookup
from mirror_sdk.plan import Check, Decision, Plan
from mirror_sdk.plan.checks import PlannedWrite
from mirror_sdk.plan.report import span_text
from mirror_sdk.plan.undo import NO_EARLIER
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.formatting import MAX_VALUE_LENGTH, format_value
from mirror_sdk.widgets.models.model import Row
from mirror_sdk.widgets.models.status import Status

WRITE_STATUSES = (
    Status.TO_WRITE,
    Status.QUEUED,
    Status.PENDING,
    Status.ASLEEP,
    Status.SUCCESS,
    Status.FAILED,
    Status.UNKNOWN,
    Status.UNSENT,
    Status.SKIPPED,
    Status.REJECTED,
)
"""The statuses of a write: first before it is sent, then after it was sent, then if it is not sent at all."""
_STATUSES = {
    RequestStatus.QUEUED: Status.QUEUED,
    RequestStatus.PENDING: Status.PENDING,
    RequestStatus.SUCCESS: Status.SUCCESS,
    RequestStatus.FAILURE: Status.FAILED,
    RequestStatus.UNKNOWN: Status.UNKNOWN,
}
_ORDER = (Decision.WRITE, Decision.SKIP, Decision.REFUSE)


def write_rows(
    plan: Plan, *, canary: int, is_started: bool, is_over: bool, include_offline: bool, expiry_seconds: int | None
) -> list[tuple[Status, Row]]:
    """Return all writes of a plan with their statuses.

    The writes to send come first, then the skipped and rejected ones.

    A row has ``key`` (the async-id), ``device``, ``status``, ``before``, ``requested``, ``waits`` (how long the write
    may wait for its device), ``undo`` and ``reason``. Strings come from devices and may contain any characters.

    Args:
        plan: The plan.
        canary: The number of devices that are written first.
        is_started: Whether sending has started.
        is_over: Whether sending has ended.
        include_offline: Whether devices that are not registered are written as well.
        expiry_seconds: The time for which each write may wait, in seconds. ``None`` uses the times in the plan.
    """
    requests = {request.async_id: request for request in plan.requests} if is_started else {}
    # Awake devices come first, because the first devices are the canary.
    ordered = sorted(plan.planned, key=lambda one: (_ORDER.index(decision(one, include_offline)), not one.is_awake))
    names = display_names({one.device_id: one.endpoint_name or one.device_id for one in ordered})
    rows: list[tuple[Status, Row]] = []
    for number, planned in enumerate(ordered):
        decided = decision(planned, include_offline)
        is_sent = decided is Decision.WRITE
        status, reason = _status(planned, decided, requests.get(planned.async_id), is_over=is_over)
        if number < canary and status in {Status.TO_WRITE, Status.QUEUED}:
            reason = "; ".join(filter(None, ("goes first", reason)))
        definition = lookup(planned.path)
        unit = planned.unit or (definition.unit if definition else "")
        row = {
            "key": planned.async_id,
            "device": names[planned.device_id],
            "status": status.text,
            "before": format_value(planned.before, unit) or "no value yet",
            "requested": _requested_text(planned, unit),
            "waits": span_text(expiry_seconds or planned.expiry_seconds) if is_sent else "",
            "undo": ("yes" if planned.undoable else "no") if is_sent else "",
            "reason": reason,
            "tones": {"status": status.tone.value},
            "hints": {"device": planned.device_id, "status": status.meaning},
        }
        rows.append((status, row))
    return rows


def _status(
    planned: PlannedWrite, decided: Decision, request: AcceptedRequest | UnacceptedRequest | None, *, is_over: bool
) -> tuple[Status, str]:
    if decided is Decision.REFUSE:
        return Status.REJECTED, planned.reason
    if decided is Decision.SKIP:
        return Status.SKIPPED, _reason(planned)
    if request is None:
        return Status.TO_WRITE, _reason(planned)
    status, reason = _STATUSES[request_status(request)], ""
    match status:
        case Status.QUEUED if is_over:
            status = Status.UNSENT
        case Status.PENDING if planned.sleeps:
            status, reason = Status.ASLEEP, _next_contact(request)
        case Status.PENDING:
            reason = "no response yet" if is_over else _reason(planned)
        case Status.FAILED:
            reason = _failure(request)
        case Status.UNKNOWN:
            reason = "the service may not have accepted the write; a new preview shows the current value"
    return status, reason


def decision(planned: PlannedWrite, include_offline: bool) -> Decision:
    """Return the decision about a write.

    ``include_offline`` changes the decision for devices that are not registered.
    """
    is_offline = planned.check is Check.OFFLINE
    return Decision.WRITE if is_offline and include_offline else planned.decision


def _next_contact(request: AcceptedRequest | UnacceptedRequest) -> str:
    until = request.expires_at if isinstance(request, AcceptedRequest) else None
    return "receives it at its next contact" + ("" if until is None else f", by {utc_text(until)} at the latest")


def _failure(request: AcceptedRequest | UnacceptedRequest) -> str:
    if isinstance(request, UnacceptedRequest):
        return f"{request.rejection_reason}: the service rejected it"
    failure = request.read_failure(request.response) if request.response else None
    return f"{failure.category}: {failure.hint}" if failure else ""


def _reason(planned: PlannedWrite) -> str:
    reason = planned.reason
    match planned.check:
        case Check.OFFLINE:
            # The reason in the plan mentions an argument of apply(), which does not apply to the panel.
            return "the device is not registered"
        case Check.ALREADY_SO:
            return f"it has this value, {reason}"
    return reason


def _requested_text(planned: PlannedWrite, unit: str) -> str:
    value = planned.value
    if planned.requested.kind is not ValueKind.NONE or value is NO_EARLIER:
        return format_value(planned.requested, unit)
    # An invalid value is displayed as the user entered it.
    return visible(str(value)[:MAX_VALUE_LENGTH])
