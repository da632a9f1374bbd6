"""``If-Match`` with a write: nothing is queued where its writer saw another desired value. Source: wire.md 2."""

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
"""The revision of a desired value that a writer saw: 0 for none yet, ``*`` for any."""

_REVISION = re.compile(r'(?:W/)?"([0-9]{1,19})"|([0-9]{1,19})', re.ASCII)

IF_MATCH = header(
    "If-Match",
    "The `revision` of the desired value that the writer saw, `0` where there was none, or `*` for any: if it is"
    " another by now, because of another write or because the last one has ended, nothing is queued and the answer is"
    " 412. Quotes around it are optional. Only with a write of one resource. A repeated async-id is answered as the"
    " first time.",
    TEXT | {"pattern": r'^(?:\*|[0-9]{1,19}|(?:W/)?"[0-9]{1,19}")$'},
)
CHANGED = ResponseSpec(
    412,
    "The desired value is not the one of `If-Match` any more; nothing was queued.",
    json_of(wire.DesiredChanged, "written by another application since", "never written"),
)


class ConditionalWrites:
    """Checks ``If-Match``."""

    @extends
    def device_request(self, submission: CommandSubmission) -> Handling | None:
        """Have a write with the header checked in the transaction that queues it."""
        text = request.headers.get("If-Match")
        if text is None:
            return None
        if not submission.request.is_write:
            raise ApiError.of_field("If-Match", "it goes with the write of a value alone; leave it out")
        check = partial(check_revision, app_id=submission.app_id, seen=_read(text.strip()))
        return Handling(check=check, is_conditional=True)


def _read(text: str) -> _Revision:
    if text == ANY_REVISION:
        return "*"
    found = _REVISION.fullmatch(text)
    if found is None:
        told = 'it is no revision; write that of the desired value, like "482113", or "0" for one never written, or *'
        raise ApiError.of_field("If-Match", told)
    return int(found[1] or found[2])


def check_revision(session: Session, context: CommandContext, *, app_id: str, seen: _Revision) -> None:
    """Refuse a write whose writer saw another desired value than there is now."""
    resource = resources.find(session, context.device_id, context.path)
    if resource is None:
        told = (
            f"{context.path} is an object instance, and each of its resources has a revision of its own; write one of"
            " them"
        )
        raise ApiError.of_field("If-Match", told)
    if resource.desired_status is None:
        is_as_seen = seen == NEVER_WRITTEN
    else:
        is_as_seen = seen in (ANY_REVISION, resource.desired_revision)
    if not is_as_seen:
        told = (
            f"{desired_revision_of(resource)}, and the write was for {_told_seen(seen)}; nothing was queued."
            " Look at the resource as it is now, and write with its revision if the write is still wanted"
        )
        raise ApiError(
            412,
            f"If-Match: {told}",
            reason=DESIRED_CHANGED,
            fields=[("If-Match", told)],
            more={"resource": serialize.resource(resource, app_id)},
        )


def desired_revision_of(resource: ResourceRow) -> str:
    """The revision of a desired value, in words."""
    if resource.desired_status is None:
        return f"{resource.path} was never written"
    return f"the desired value of {resource.path} is of revision {resource.desired_revision}"


def _told_seen(seen: _Revision) -> str:
    if seen == ANY_REVISION:
        return "one that was"
    return "one that never was" if seen == NEVER_WRITTEN else f"revision {seen}"
