"""A plan in a file, so that it can be taken up in another process under the same async-ids."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from mirror_sdk._exchange import first_fault
from mirror_sdk._operations import of_resource
from mirror_sdk.errors import ValueRefused
from mirror_sdk.plan.checks import CONNECTED_EXPIRY_SECONDS, Check, Decision, Finding, PlannedWrite
from mirror_sdk.plan.wanted import Want
from mirror_sdk.values import NO_VALUE, Value, decode
from mirror_sdk.wire import routes
from mirror_sdk.wire.device_requests import ASYNC_ID_PATTERN, ExpirySeconds
from mirror_sdk.wire.model import Payload


class _Saved(BaseModel):
    # What this version does not know may mean that something else is to be sent.
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


class _SavedValue(_Saved):
    payload: Payload
    content_type: str | None


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
    # Not in files of the first version.
    sleeps: bool = False
    expiry_seconds: ExpirySeconds = CONNECTED_EXPIRY_SECONDS

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

    version: Literal[1, 2]
    server: str
    writes: Annotated[list[_SavedWrite], AfterValidator(_each_once)]


def save(path: str | PathLike[str], server: str, planned: Sequence[PlannedWrite]) -> None:
    """Write a plan into a file, as a whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    target = Path(path)
    unfinished = target.with_name(f"{target.name}.unfinished")
    saved = SavedPlan(version=2, server=server, writes=[_to_saved(one) for one in planned])
    unfinished.write_text(saved.model_dump_json(indent=1), encoding="utf-8")
    unfinished.replace(target)


def load(path: str | PathLike[str], server: str) -> list[PlannedWrite]:
    """The writes of a plan out of a file.

    Raises:
        OSError: The file cannot be read.
        ValueRefused: It holds no plan that can be sent as it stands, or one for another server; the message names the
            member.
    """
    try:
        saved = SavedPlan.model_validate_json(Path(path).read_bytes())
    except ValidationError as error:
        raise ValueRefused(f"{path} holds no plan ({first_fault(error)}); plan.save() writes one") from error
    if saved.server != server:
        raise ValueRefused(f"{path} is a plan for {saved.server}, not for {server}; load it with a client of that")
    return [_from_saved(one) for one in saved.writes]


def _to_saved(planned: PlannedWrite) -> _SavedWrite:
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
    )


def _from_saved(saved: _SavedWrite) -> PlannedWrite:
    wanted = _value(saved.wanted, saved.path)
    return PlannedWrite(
        async_id=saved.async_id,
        want=Want(saved.device_id, saved.path, wanted.python, saved.content_type),
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
