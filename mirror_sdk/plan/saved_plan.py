"""Saved plans, which another process can continue with the same async-ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mirror_sdk._file_version import file_fault
from mirror_sdk._protocol.accepted_request import AcceptedRequest, UnacceptedRequest
from mirror_sdk._protocol.operations import of_resource
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk.errors import InvalidValue
from mirror_sdk.plan.checks import Check, Decision, PlannedWrite
from mirror_sdk.values import NO_VALUE, Value, decode
from mirror_sdk.wire import routes
from mirror_sdk.wire.device_object import Revision
from mirror_sdk.wire.device_requests import ASYNC_ID_PATTERN, ExpirySeconds
from mirror_sdk.wire.model import Payload, Timestamp
from mirror_sdk.wire.notifications import AsyncResponse

_VERSION: Final = 3
_CONVERTED = frozenset({"requested", "before", "request"})
"""The members of a saved write that must be converted to become attributes of a planned write."""


class _Saved(BaseModel):
    # An unknown member may change the meaning of the other members, and so the values to send. It is therefore an
    # error.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", populate_by_name=True)


class _SavedValue(_Saved):
    payload: Payload
    content_type: str | None


class _SavedRequest(_Saved):
    """The saved form of a request.

    It consists of the time at which the service accepted the write, and the response, if any.
    """

    accepted_at: Timestamp
    expires_at: Timestamp | None
    expiry_seconds: int | None
    status: int | None
    error: str | None
    responded_at: int | None = Field(alias="answered_at")


class _SavedWrite(_Saved):
    async_id: Annotated[str, Field(pattern=ASYNC_ID_PATTERN)]
    device_id: str
    path: str
    content_type: str | None
    requested: _SavedValue | None = Field(alias="wanted")
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
    def _check_sendable(self) -> Self:
        """Check a write that may be sent. A rejected write may have any path and value."""
        if self.decision is not Decision.REFUSE:
            of_resource(routes.SUBSCRIPTION, self.device_id, self.path)
            if self.requested is None:
                raise ValueError("wanted is missing, so the write has no value")
        return self


def _check_unique_ids(writes: list[_SavedWrite]) -> list[_SavedWrite]:
    async_id, count = Counter(write.async_id for write in writes).most_common(1)[0] if writes else ("", 0)
    if count > 1:
        raise ValueError(f"async_id {async_id!r} occurs twice, so one of the writes would never be sent")
    return writes


class SavedPlan(_Saved):
    """The content of the file of a saved plan."""

    version: Literal[3]
    server: str
    writes: Annotated[list[_SavedWrite], AfterValidator(_check_unique_ids)]


def save(
    path: str | PathLike[str],
    server: str,
    planned: Sequence[PlannedWrite],
    requests: Iterable[AcceptedRequest | UnacceptedRequest],
) -> None:
    """Save a plan and its requests in a file. If saving fails, an existing file does not change.

    Raises:
        OSError: The file cannot be written.
    """
    target = Path(path)
    unfinished = target.with_name(f"{target.name}.unfinished")
    accepted = {one.async_id: _saved_request(one) for one in requests if isinstance(one, AcceptedRequest)}
    writes = [_to_saved(one, accepted.get(one.async_id)) for one in planned]
    saved = SavedPlan(version=_VERSION, server=server, writes=writes)
    unfinished.write_text(saved.model_dump_json(indent=1, by_alias=True), encoding="utf-8")
    # The file is replaced only now, so that a full disk does not destroy an earlier file.
    unfinished.replace(target)


def load(path: str | PathLike[str], server: str) -> tuple[list[PlannedWrite], dict[str, AcceptedRequest]]:
    """Return the writes of a saved plan, and the requests that were sent, by async-id.

    Raises:
        OSError: The file cannot be read.
        InvalidValue: The file does not contain a valid plan, or the plan is for another server.
    """
    content = Path(path).read_bytes()
    try:
        saved = SavedPlan.model_validate_json(content)
    except ValidationError as error:
        fault = file_fault(content, error, _VERSION)
        raise InvalidValue(f"{path} contains no valid plan ({fault}); plan again, and save it") from error
    if saved.server != server:
        raise InvalidValue(f"{path} is a plan for {saved.server}, not for {server}; use a client of that server")
    planned = [_from_saved(one) for one in saved.writes]
    sent = zip(planned, (one.request for one in saved.writes), strict=True)
    return planned, {one.async_id: _request(one, request) for one, request in sent if request is not None}


def _saved_request(request: AcceptedRequest) -> _SavedRequest | None:
    """Return a request in its saved form.

    The result is ``None`` if the time at which the service accepted the request is unknown, because this time
    identifies the request later.
    """
    response = request.response
    if request.accepted_at is None:
        return None
    return _SavedRequest(
        accepted_at=request.accepted_at,
        expires_at=request.expires_at,
        expiry_seconds=request.expiry_seconds,
        status=response and response.status,
        error=response and response.error,
        responded_at=response and response.timestamp,
    )


def _request(planned: PlannedWrite, saved: _SavedRequest) -> AcceptedRequest:
    response = None
    if saved.status is not None:
        response = AsyncResponse(
            id=planned.async_id, status=saved.status, error=saved.error, timestamp=saved.responded_at
        )
    # The file does not contain a time of the client's clock, because another machine may have saved it.
    return AcceptedRequest(
        async_id=planned.async_id,
        device_id=planned.device_id,
        path=planned.path,
        method="PUT",
        issued_at=saved.accepted_at,
        expiry_seconds=saved.expiry_seconds,
        accepted_at=saved.accepted_at,
        expires_at=saved.expires_at,
        requested_value=planned.requested,
        _awaited_response=AwaitedResponse(planned.async_id, response),
    )


def _to_saved(planned: PlannedWrite, request: _SavedRequest | None) -> _SavedWrite:
    members = {name: getattr(planned, name) for name in _SavedWrite.model_fields if name not in _CONVERTED}
    requested, before = _saved_value(planned.requested), _saved_value(planned.before)
    return _SavedWrite(**members, requested=requested, before=before, request=request)


def _from_saved(saved: _SavedWrite) -> PlannedWrite:
    members: Any = {name: member for name, member in saved if name not in _CONVERTED}
    requested, before = _value(saved.requested, saved.path), _value(saved.before, saved.path)
    return PlannedWrite(**members, value=requested.python, requested=requested, before=before)


def _saved_value(value: Value) -> _SavedValue | None:
    return None if value.raw is None else _SavedValue(payload=value.raw, content_type=value.content_type)


def _value(saved: _SavedValue | None, path: str) -> Value:
    return NO_VALUE if saved is None else decode(saved.payload, saved.content_type, path)
