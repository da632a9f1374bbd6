"""Conditional writes, which have an ``If-Match`` with the revision of the desired value. Source: wire.md 2."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from flask import request

from mirror_sdk.wire import device_requests as wire
from mirror_sdk.wire.device_requests import ANY_REVISION, DESIRED_CHANGED, NEVER_WRITTEN
from mirror_server.core.errors import ApiError
from mirror_server.hooks import Handling, extends
from mirror_server.service.commands import CommandSubmission
from mirror_server.store import resources
from mirror_server.store.commands import CommandContext
from mirror_server.store.resources import ResourceRow
from mirror_server.store.session import Session
from mirror_server.views import serialize
from mirror_server.views.description import TEXT, ResponseSpec, header, json_of

_Revision = int | Literal["*"]
"""The expected revision of a desired value. 0 if the value was never written, and ``*`` for any revision."""

_REVISION = re.compile(r'(?:W/)?"([0-9]{1,19})"|([0-9]{1,19})', re.ASCII)

IF_MATCH = header(
    "If-Match",
    "The `revision` of the desired value that you read, `0` if there was none, or `*` for any. If the revision has"
    " changed since then, by another write or because the last one has ended, nothing is queued and the response is"
    " 412. Quotes are optional. Only for a write of one resource. A repeated async-id gets the first response again.",
    TEXT | {"pattern": r'^(?:\*|[0-9]{1,19}|(?:W/)?"[0-9]{1,19}")$'},
)
CHANGED = ResponseSpec(
    412,
    "The desired value has changed since the revision in `If-Match`; nothing was queued.",
    json_of(wire.DesiredChanged, "written by another application since", "never written"),
)


class ConditionalWrites:
    """The hook that evaluates ``If-Match`` of writes."""

    @extends
    def device_request(self, submission: CommandSubmission) -> Handling | None:
        """Return the check of the header, which runs in the transaction that queues the write."""
        text = request.headers.get("If-Match")
        if text is None:
            return None
        if not submission.request.is_write:
            raise ApiError.of_field("If-Match", "only supported for writing a value; remove the header")
        check = partial(check_revision, app_id=submission.app_id, expected=_read(text.strip()))
        return Handling(check=check, is_conditional=True)


def _read(text: str) -> _Revision:
    if text == ANY_REVISION:
        return "*"
    match = _REVISION.fullmatch(text)
    if match is None:
        message = 'not a revision; send that of the desired value, like "482113", or "0" if it was never written, or *'
        raise ApiError.of_field("If-Match", message)
    return int(match[1] or match[2])


def check_revision(session: Session, context: CommandContext, *, app_id: str, expected: _Revision) -> None:
    """Reject a write if the desired value does not have the expected revision.

    Raises:
        ApiError: The revision differs (412), or the path is an object instance (400).
    """
    resource = resources.find(session, context.device_id, context.path)
    if resource is None:
        message = (
            f"{context.path} is an object instance, and each of its resources has its own revision; write one of them"
        )
        raise ApiError.of_field("If-Match", message)
    if resource.desired_status is None:
        is_as_expected = expected == NEVER_WRITTEN
    else:
        is_as_expected = expected in (ANY_REVISION, resource.desired_revision)
    if not is_as_expected:
        message = (
            f"{desired_revision_of(resource)}, but the write expected {_describe(expected)}; nothing was queued."
            " Read the resource again, and write with its current revision if you still want to"
        )
        raise ApiError(
            412,
            f"If-Match: {message}",
            reason=DESIRED_CHANGED,
            fields=[("If-Match", message)],
            more={"resource": serialize.resource(resource, app_id)},
        )


def desired_revision_of(resource: ResourceRow) -> str:
    """Return a clause for a message that describes the revision of a desired value."""
    if resource.desired_status is None:
        return f"{resource.path} was never written"
    return f"the desired value of {resource.path} has revision {resource.desired_revision}"


def _describe(expected: _Revision) -> str:
    if expected == ANY_REVISION:
        return "an existing value"
    return "a value that was never written" if expected == NEVER_WRITTEN else f"revision {expected}"
