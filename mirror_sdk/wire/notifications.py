"""The notification message: what a long poll and a callback carry. Source: specification 6; wire.md 5."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, WithJsonSchema

from mirror_sdk.wire.model import Payload, WireModel


class AsyncResponse(WireModel):
    """The outcome of a device request, matched by ``id``, its async-id; ``error`` is an open set of categories."""

    id: str
    status: int
    error: str | None = None
    payload: Payload = b""
    ct: str | None = None
    max_age: Annotated[int, Field(alias="max-age")] = 0
    uid: str | None = None
    timestamp: int | None = None


class Notification(WireModel):
    """An observation event; ``timestamp`` is the device's time of the change, in whole milliseconds."""

    ep: str
    path: str
    ct: str | None = None
    payload: Payload = b""
    max_age: Annotated[int, Field(alias="max-age")] = 0
    uid: str | None = None
    timestamp: int | None = None
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None


class RegisteredResource(WireModel):
    """A resource as a device announces it."""

    path: str
    rt: str | None = None
    ct: str | None = None
    obs: bool = False


class RegistrationEvent(WireModel):
    """A device registered or updated its registration.

    ``ended_subscriptions`` are the paths of the application's own single subscriptions that a full registration ended.
    """

    ep: str
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    ept: str | None = None
    q: bool = False
    uid: str | None = None
    timestamp: int | None = None
    resources: list[RegisteredResource] = []
    ended_subscriptions: Annotated[list[str], Field(alias="ended-subscriptions")] = []


# Only a webhook that asked for them gets objects.
_Gone = Annotated[
    str,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"ep": {"type": "string"}}, "required": ["ep"]},
            ]
        }
    ),
]


class NotificationMessage(WireModel):
    """One message; each list is there only when it has entries."""

    async_responses: Annotated[list[AsyncResponse], Field(alias="async-responses")] = []
    notifications: list[Notification] = []
    registrations: list[RegistrationEvent] = []
    reg_updates: Annotated[list[RegistrationEvent], Field(alias="reg-updates")] = []
    de_registrations: Annotated[list[_Gone], Field(alias="de-registrations")] = []
    registrations_expired: Annotated[list[_Gone], Field(alias="registrations-expired")] = []
