"""A plan in a file, so that it can be taken up in another process under the same async-ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mirror_sdk._file_version import file_fault
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest
from mirror_sdk._protocol.inbox import Expectation
from mirror_sdk._protocol.operations import of_resource
from mirror_sdk.errors import InvalidValue
from mirror_sdk.plan.checks import Check, Decision, Finding, PlannedWrite
from mirror_sdk.plan.wanted import Want
from mirror_sdk.values import NO_VALUE, Value, decode
from mirror_sdk.wire import routes
from mirror_sdk.wire.device_object import Revision
from mirror_sdk.wire.device_requests import ASYNC_ID_PATTERN, ExpirySeconds
from mirror_sdk.wire.model import Payload, Timestamp
from mirror_sdk.wire.notifications import AsyncResponse

_VERSION: Final = 3


class _Saved(BaseModel):
    # What this version does not know may mean that something else is to be sent.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class _SavedValue(_Saved):
    payload: Payload
    content_type: str | None


class _SavedRequest(_Saved):
    """That the service accepted it, by its clock; and the answer, where it has come."""

    accepted_at: Timestamp
    expires_at: Timestamp | None
    expiry_seconds: int | None
    status: int | None
    error: str | None
    answered_at: int | None


class _SavedWrite(_Saved):
    async_id: Annotated[str, Field(pattern=ASYNC_ID_PATTERN)]
    device_id: str
    path: str
    content_type: str | None
    wanted: _SavedValue | None
    before: _SavedValue | None
    endpoint_name: str | None
    unit: str | None
    decision: Decision
    check: Check
    reason: str
    sleeps: bool
    expiry_seconds: ExpirySeconds
    request: _SavedRequest | None
    if_match: Revision | None

    @model_validator(mode="after")
    def _can_be_sent(self) -> Self:
        """What was refused may be anything, and is never sent."""
        if self.decision is not Decision.REFUSE:
            of_resource(routes.SUBSCRIPTION, self.device_id, self.path)
            if self.wanted is None:
                raise ValueError("wanted: a write without a value")
        return self


def _each_once(writes: list[_SavedWrite]) -> list[_SavedWrite]:
    seen: set[str] = set()
    for write in writes:
        if write.async_id in seen:
            raise ValueError(f"async_id {write.async_id!r} stands at two writes, of which one would never be sent")
        seen.add(write.async_id)
    return writes


class SavedPlan(_Saved):
    """What stands in the file."""

    version: Literal[3]
    server: str
    writes: Annotated[list[_SavedWrite], AfterValidator(_each_once)]


def save(
    path: str | PathLike[str],
    server: str,
    planned: Sequence[PlannedWrite],
    requests: Iterable[AcceptedRequest | UnacceptedRequest],
) -> None:
    """Write a plan into a file, with what was sent of it, as a whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    target = Path(path)
    unfinished = target.with_name(f"{target.name}.unfinished")
    placed = {one.async_id: _saved_request(one) for one in requests if isinstance(one, AcceptedRequest)}
    writes = [_to_saved(one, placed.get(one.async_id)) for one in planned]
    saved = SavedPlan(version=_VERSION, server=server, writes=writes)
    unfinished.write_text(saved.model_dump_json(indent=1), encoding="utf-8")
    unfinished.replace(target)


def load(path: str | PathLike[str], server: str) -> tuple[list[PlannedWrite], dict[str, AcceptedRequest]]:
    """The writes of a plan out of a file, and what was sent of them, by async-id.

    Raises:
        OSError: The file cannot be read.
        InvalidValue: It holds no plan that can be sent as it stands, or one for another server; the message names the
            member.
    """
    content = Path(path).read_bytes()
    try:
        saved = SavedPlan.model_validate_json(content)
    except ValidationError as error:
        fault = file_fault(content, error, _VERSION)
        raise InvalidValue(f"{path} holds no plan that can be loaded ({fault}); plan again, and save it") from error
    if saved.server != server:
        raise InvalidValue(f"{path} is a plan for {saved.server}, not for {server}; load it with a client of that")
    planned = [_from_saved(one) for one in saved.writes]
    sent = zip(planned, (one.request for one in saved.writes), strict=True)
    return planned, {one.async_id: _request(one, request) for one, request in sent if request is not None}


def _saved_request(request: AcceptedRequest) -> _SavedRequest | None:
    """What was sent; ``None`` where the service does not tell when, without which it cannot be known again."""
    answer = request.answer
    if request.accepted_at is None:
        return None
    return _SavedRequest(
        accepted_at=request.accepted_at,
        expires_at=request.expires_at,
        expiry_seconds=request.expiry_seconds,
        status=answer and answer.status,
        error=answer and answer.error,
        answered_at=answer and answer.timestamp,
    )


def _request(planned: PlannedWrite, saved: _SavedRequest) -> AcceptedRequest:
    answer = None
    if saved.status is not None:
        answer = AsyncResponse(id=planned.async_id, status=saved.status, error=saved.error, timestamp=saved.answered_at)
    return AcceptedRequest(
        async_id=planned.async_id,
        device_id=planned.want.device_id,
        path=planned.want.path,
        method="PUT",
        issued_at=saved.accepted_at,
        expiry_seconds=saved.expiry_seconds,
        accepted_at=saved.accepted_at,
        expires_at=saved.expires_at,
        asked=planned.wanted,
        _expectation=Expectation(planned.async_id, answer),
    )


def _to_saved(planned: PlannedWrite, request: _SavedRequest | None) -> _SavedWrite:
    return _SavedWrite(
        async_id=planned.async_id,
        device_id=planned.want.device_id,
        path=planned.want.path,
        content_type=planned.want.content_type,
        wanted=_saved_value(planned.wanted),
        before=_saved_value(planned.before),
        endpoint_name=planned.endpoint_name,
        unit=planned.unit,
        decision=planned.finding.decision,
        check=planned.finding.check,
        reason=planned.finding.reason,
        sleeps=planned.sleeps,
        expiry_seconds=planned.expiry_seconds,
        request=request,
        if_match=planned.want.if_match,
    )


def _from_saved(saved: _SavedWrite) -> PlannedWrite:
    wanted = _value(saved.wanted, saved.path)
    return PlannedWrite(
        async_id=saved.async_id,
        want=Want(saved.device_id, saved.path, wanted.python, saved.content_type, saved.if_match),
        wanted=wanted,
        before=_value(saved.before, saved.path),
        endpoint_name=saved.endpoint_name,
        unit=saved.unit,
        finding=Finding(saved.decision, saved.check, saved.reason),
        sleeps=saved.sleeps,
        expiry_seconds=saved.expiry_seconds,
    )


def _saved_value(value: Value) -> _SavedValue | None:
    return None if value.raw is None else _SavedValue(payload=value.raw, content_type=value.content_type)


def _value(saved: _SavedValue | None, path: str) -> Value:
    return NO_VALUE if saved is None else decode(saved.payload, saved.content_type, path)
