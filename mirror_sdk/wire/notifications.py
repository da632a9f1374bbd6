"""The notification message: what a long poll and a callback carry. Source: specification 6; wire.md 5."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mirror_sdk.wire.model import Payload, WireModel


class AsyncResponse(WireModel):
    """The outcome of a device request, matched by ``id``, its async-id; ``error`` is an open set of categories.

    Only with its number in the log, ``seq``, it names the device and the resource path of the request.
    """

    id: str
    status: int
    error: str | None = None
    payload: Payload = b""
    ct: str | None = None
    max_age: Annotated[int, Field(alias="max-age")] = 0
    uid: str | None = None
    timestamp: int | None = None
    seq: int | None = None
    ep: str | None = None
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    path: str | None = None


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
    seq: int | None = None


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
    seq: int | None = None
    resources: list[RegisteredResource] = []
    ended_subscriptions: Annotated[list[str], Field(alias="ended-subscriptions")] = []


class DeviceGone(WireModel):
    """A device that deregistered or whose registration expired, as an object; all but ``ep`` only with ``seq``."""

    ep: str
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    uid: str | None = None
    timestamp: int | None = None
    seq: int | None = None


_Gone = Annotated[
    Annotated[str, Tag("id")] | Annotated[DeviceGone, Tag("DeviceGone")],
    Discriminator(lambda content: "id" if isinstance(content, str) else "DeviceGone"),
]


class NotificationMessage(WireModel):
    """One message; each list is there only when it has entries."""

    async_responses: Annotated[list[AsyncResponse], Field(alias="async-responses")] = []
    notifications: list[Notification] = []
    registrations: list[RegistrationEvent] = []
    reg_updates: Annotated[list[RegistrationEvent], Field(alias="reg-updates")] = []
    de_registrations: Annotated[list[_Gone], Field(alias="de-registrations")] = []
    registrations_expired: Annotated[list[_Gone], Field(alias="registrations-expired")] = []
