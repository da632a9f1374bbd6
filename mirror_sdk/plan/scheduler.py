"""The scheduling of the writes of a plan, and the storage of their requests and responses.

This module never waits and does no I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mirror_sdk._formatting import visible
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk.errors import (
    UNCERTAIN_CATEGORIES,
    BadRequest,
    Conflict,
    ConnectionFailed,
    InvalidValue,
    LimitExceeded,
    MirrorError,
    NotFound,
    PreconditionFailed,
    ServerError,
)
from mirror_sdk.frames.requests import RequestStatus, request_status
from mirror_sdk.plan.checks import Check, PlannedWrite, changed_since, current_value
from mirror_sdk.plan.requested_writes import EarlierWrite, RequestedWrite
from mirror_sdk.resource import Resource
from mirror_sdk.values.value import same
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.notifications import AsyncResponse

_REJECTED = (BadRequest, Conflict, NotFound)
_DEVICE_SPECIFIC = (*_REJECTED, ConnectionFailed, LimitExceeded, ServerError)
_REMEMBERED = timedelta(days=1)
"""The time for which the service remembers an async-id after the response."""
_STATUSES = {DesiredStatus.SUCCESS: 200, DesiredStatus.FAILURE: 400}
"""The status codes to use if the mirror only knows whether a write succeeded, but has no response."""
_CANARY_FAILED = {
    RequestStatus.FAILURE: "failed",
    RequestStatus.PENDING: "has no response yet",
    RequestStatus.UNKNOWN: "may not have been accepted by the service",
}
"""The phrases for a canary that stops a plan, by the status of the canary."""
_ENDED = frozenset({RequestStatus.SUCCESS, RequestStatus.FAILURE})


class ScheduledWrite:
    """One write and its result.

    ``is_conflict`` is true if the service rejected the write because another client wrote first.
    """

    def __init__(self, planned: PlannedWrite, accepted: AcceptedRequest | None = None) -> None:
        self.planned: PlannedWrite = planned
        self.is_conflict: bool = False
        self.request: AcceptedRequest | UnacceptedRequest = accepted or self._unaccepted()

    @property
    def status(self) -> RequestStatus:
        """The status of the request."""
        return request_status(self.request)

    @property
    def may_have_acted(self) -> bool:
        """Whether the device may have accepted the write."""
        if self.status is RequestStatus.FAILURE:
            # A device that rejected the write did not change. A device that did not respond may have changed.
            response = self.request.response if isinstance(self.request, AcceptedRequest) else None
            return response is not None and response.error in UNCERTAIN_CATEGORIES
        return self.status is not RequestStatus.QUEUED

    @property
    def undo(self) -> RequestedWrite:
        """The write that undoes this one. It is valid only if this write is the last change of its resource."""
        accepted_at = self.request.accepted_at if isinstance(self.request, AcceptedRequest) else None
        undoes = EarlierWrite(self.planned.requested, self.planned.before, accepted_at)
        return self.planned.undo._replace(undoes=undoes)

    def is_settled_by(self, read_at: datetime, resources: Mapping[str, Resource]) -> bool:
        """Return whether a write was sent earlier and, according to the state of the mirror, must not be sent again.

        One day after the response, the service removes the async-id, and the log removes the response. The mirror still
        has the outcome until the next write to the resource.
        """
        planned, request, resource = self.planned, self.request, resources.get(self.planned.path)
        if not isinstance(request, AcceptedRequest) or request.accepted_at is None:
            return False
        desired = resource and resource.desired
        # The time at which the service accepted the write identifies it, because a later write may have the same value.
        if not desired or desired.requested_at != request.accepted_at or not same(desired.value, planned.requested):
            # As long as the service remembers the async-id, it is harmless to send the write again. The service then
            # repeats the response.
            return read_at - request.accepted_at >= _REMEMBERED
        if desired.status is None or desired.status not in _STATUSES:
            return False
        error = desired.category or "UNKNOWN" if desired.status is DesiredStatus.FAILURE else None
        ended_at = desired.status_updated_at and round(desired.status_updated_at.timestamp() * 1000)
        response = AsyncResponse(id=request.async_id, status=_STATUSES[desired.status], error=error, timestamp=ended_at)
        self.request = replace(request, _awaited_response=AwaitedResponse(request.async_id, response))
        return True

    def record_conflict(self, error: PreconditionFailed, issued_at: datetime) -> None:
        """Record that the service rejected the write because the desired value is no longer the expected one."""
        resource = error.resource
        current = current_value(resource) if resource else self.planned.before
        self.planned = replace(self.planned, before=current, **changed_since(resource)._asdict())
        self.is_conflict = True
        self.request = replace(
            self._unaccepted(),
            issued_at=issued_at,
            rejection_reason=error.reason or error.type,
            rejection_message=error.message,
            found=resource.desired.value if resource and resource.desired else None,
        )

    def _unaccepted(self) -> UnacceptedRequest:
        return UnacceptedRequest(
            async_id=self.planned.async_id,
            device_id=self.planned.device_id,
            path=self.planned.path,
            method="PUT",
            requested_value=self.planned.requested,
        )

    def record_rejection(self, error: MirrorError, issued_at: datetime) -> None:
        """Record that the service rejected the write, or that it is unknown whether the service accepted it.

        Raises:
            MirrorError: ``error`` itself, if every other write would fail in the same way.
        """
        raise_unless_device_specific(error)
        if isinstance(self.request, AcceptedRequest) and not isinstance(error, _REJECTED):
            # An earlier attempt was accepted, so the outcome of this attempt does not matter.
            return
        self.request = replace(
            self._unaccepted(),
            issued_at=issued_at,
            rejection_reason=error.reason or error.type if isinstance(error, _REJECTED) else None,
            rejection_message=error.message if isinstance(error, _REJECTED) else None,
            is_unknown=not isinstance(error, _REJECTED),
        )


def raise_unless_device_specific(error: MirrorError) -> None:
    """Raise the error again, unless it concerns only one device.

    Raises:
        MirrorError: The argument ``error``.
    """
    if not isinstance(error, _DEVICE_SPECIFIC):
        raise error


class WriteScheduler:
    """The writes of a plan that may be sent, in the order in which they are sent.

    The order is: canaries, devices that are awake, devices that sleep.

    Attributes:
        entries: The writes that may be sent, in the order of the plan.
        stopped_because: The reason why sending ended before all writes were sent; ``None`` if it did not end early.
    """

    def __init__(self, planned: Sequence[PlannedWrite], accepted: Mapping[str, AcceptedRequest]) -> None:
        self.entries: list[ScheduledWrite] = [
            ScheduledWrite(one, accepted.get(one.async_id)) for one in planned if one.may_be_sent
        ]
        self.stopped_because: str | None = None
        self._todo: deque[ScheduledWrite] = deque()
        self._canaries: list[ScheduledWrite] = []
        self._in_flight: list[ScheduledWrite] = []
        self._max_failures: int | None = None
        self._failures = 0

    def count(self) -> Counter[RequestStatus]:
        """Return the number of writes by status."""
        return Counter(entry.status for entry in self.entries)

    def start(self, *, canary: int, max_failures: int | None, include_offline: bool) -> int:
        """Schedule the writes that have not ended yet, and return how many there are.

        A write that succeeded earlier counts as a canary.

        Raises:
            InvalidValue: No device is awake for a canary. In this case, nothing has changed.
        """
        todo = [
            entry
            for entry in self.entries
            if entry.status not in _ENDED and (include_offline or entry.planned.check is not Check.OFFLINE)
        ]
        lacking = max(0, canary - self.count()[RequestStatus.SUCCESS])
        canaries = [entry for entry in todo if entry.planned.is_awake][:lacking]
        # Pending writes were sent earlier, and only their responses are missing.
        unsent = sum(entry.status is not RequestStatus.PENDING for entry in todo)
        if unsent > lacking and lacking and not canaries:
            raise InvalidValue(
                f"canary={canary}: none of the {unsent} writes to send is for a device that is awake, so none can be"
                " tried first; canary=0 sends them all"
            )
        self._canaries = canaries
        # Sorting is stable, so the writes within each of the three groups stay in the order of the plan.
        self._todo = deque(sorted(todo, key=lambda entry: (entry not in canaries, entry.planned.sleeps)))
        self._in_flight = []
        self._max_failures = max_failures
        self._failures = 0
        self.stopped_because = None
        return len(todo)

    def next(self) -> ScheduledWrite | None:
        """Return the next write to send.

        The result is ``None`` if there is no such write, or if it has to wait for others.
        """
        if self.stopped_because is not None or not self._todo:
            return None
        unsent = self._todo[0]
        if any(self._comes_before(entry, unsent) for entry in self._in_flight):
            return None
        self._in_flight.append(self._todo.popleft())
        return unsent

    def _comes_before(self, entry: ScheduledWrite, unsent: ScheduledWrite) -> bool:
        """Return whether one write has to end before another is sent.

        A write to a sleeping device cannot be canceled, so the results of awake devices are awaited first.
        """
        is_canary = entry in self._canaries and unsent not in self._canaries
        return is_canary or (unsent.planned.sleeps and not entry.planned.sleeps)

    def asleep(self) -> list[ScheduledWrite]:
        """Return the pending writes to sleeping devices."""
        return [entry for entry in self.entries if entry.planned.sleeps and entry.status is RequestStatus.PENDING]

    def settle(self, entry: ScheduledWrite) -> None:
        """Record that a write has ended, or that the plan no longer waits for it."""
        self._in_flight.remove(entry)
        if entry.is_conflict:
            # A conflict does not show whether a write of this kind succeeds, so it does not count as a canary.
            self._replace_canary(entry)
            return
        if entry in self._canaries and entry.status is not RequestStatus.SUCCESS:
            self.stop(f"the canary write to {_name(entry)} {_CANARY_FAILED.get(entry.status, 'was not sent')}")
            return
        # An unknown result counts as a failure, so that problems of the service stop the plan.
        self._failures += entry.status in {RequestStatus.FAILURE, RequestStatus.UNKNOWN}
        if self._max_failures is not None and self._failures > self._max_failures:
            failed = "1 write" if self._failures == 1 else f"{self._failures} writes"
            self.stop(f"{failed} failed, and max_failures is {self._max_failures}")

    def _replace_canary(self, entry: ScheduledWrite) -> None:
        """Choose another canary to replace a write that was not sent at all."""
        if entry not in self._canaries:
            return
        self._canaries.remove(entry)
        # The other canary must be a device that is awake, because other devices may respond only after days.
        unsent = next((one for one in self._todo if one.planned.is_awake and one not in self._canaries), None)
        if unsent is not None:
            self._todo.remove(unsent)
            self._todo.appendleft(unsent)
            self._canaries.append(unsent)
        elif self._todo and not self._canaries and not self.count()[RequestStatus.SUCCESS]:
            self.stop(
                f"the canary write to {_name(entry)} was rejected because someone else wrote first, and no other awake"
                " device can be the canary; apply again with canary=0, or when another device is awake"
            )

    def stop(self, reason: str) -> None:
        """Stop sending writes. If this is called again, the first reason is kept."""
        # If there are no writes left to send, nothing was stopped.
        if self._todo and self.stopped_because is None:
            self.stopped_because = reason


def _name(entry: ScheduledWrite) -> str:
    return f"{entry.planned.path} of {visible(entry.planned.endpoint_name or '')}"
