"""The notification message: what a long poll and a callback carry. Source: specification 6; wire.md 5."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mirror_sdk.wire.model import Payload, WireModel


class AsyncResponse(WireModel):
    """The outcome of a device request, matched by ``id``, its async-id; ``error`` is an open set of categories.

    Only with its number in the log, ``seq``, it names the device and the resource path of the request.

    Attributes:
        status: 200 when the device did it, else 400 or above.
        payload: The value that was read, in JSON as base64; empty when there is none.
        ct: The content type of the payload.
        max_age: For how many seconds the value is fresh; 0 when the device does not say.
        uid: The identity of this entry, the same when it is sent again; only with ``after``, or when it was asked for.
        timestamp: When the request ended, in milliseconds since 1970; only with ``after``, or when it was asked for.
        ep: The device's id; only with ``seq``; an extension.
        original_ep: The name the device registers with; only with ``seq``; an extension.
        path: The resource path that the request was about; only with ``seq``; an extension.
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
    """An observation event; ``timestamp`` is the device's time of the change, in whole milliseconds.

    Attributes:
        ep: The device's id.
        path: The resource path.
        ct: The content type of the payload.
        payload: The value, in JSON as base64; empty when there is none.
        max_age: For how many seconds the value is fresh; 0 when the device does not say.
        uid: The identity of this entry, the same when it is sent again; only with ``after``, or when it was asked for.
        original_ep: The name the device registers with. A webhook has it of an observation only when it asked for it.
        seq: The number of this entry in the notification log; only with ``after``, or when it was asked for; an
            extension.
    """

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
    """A resource as a device announces it.

    Attributes:
        path: The resource path.
        rt: Its resource type.
        ct: Its content type.
        obs: Whether it can be subscribed.
    """

    path: str
    rt: str | None = None
    ct: str | None = None
    obs: bool = False


class RegistrationEvent(WireModel):
    """A device registered or updated its registration.

    ``ended_subscriptions`` are the paths of the application's own single subscriptions that a full registration ended.

    Attributes:
        ep: The device's id.
        original_ep: The name the device registers with.
        ept: The type the device registers with.
        q: Whether the device is in queue mode.
        uid: The identity of this entry, the same when it is sent again; only with ``after``, or when it was asked for.
        timestamp: When it happened, in milliseconds since 1970.
        seq: The number of this entry in the notification log; only with ``after``, or when it was asked for; an
            extension.
        resources: What the device has.
        ended_subscriptions: The paths this application had subscribed by themselves, which this registration ended;
            absent where there are none; an extension.
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
    """A device that deregistered or whose registration expired, as an object; all but ``ep`` only with ``seq``.

    Attributes:
        original_ep: The name the device registers with; only with ``seq``; an extension.
        uid: The identity of this entry, the same when it is sent again; only with ``seq``; an extension.
        timestamp: When it happened, in milliseconds since 1970; only with ``seq``; an extension.
    """

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
    """One message; each list is there only when it has entries.

    Attributes:
        async_responses: Outcomes of the application's device requests.
        notifications: What subscribed resources sent.
        registrations: Devices that registered.
        reg_updates: Devices that updated their registration.
        de_registrations: Devices that deregistered: their ids, or objects with ``after`` and for a webhook that asked
            for these.
        registrations_expired: Devices whose registration expired: as in ``de-registrations``.
    """

    async_responses: Annotated[list[AsyncResponse], Field(alias="async-responses")] = []
    notifications: list[Notification] = []
    registrations: list[RegistrationEvent] = []
    reg_updates: Annotated[list[RegistrationEvent], Field(alias="reg-updates")] = []
    de_registrations: Annotated[list[_Gone], Field(alias="de-registrations")] = []
    registrations_expired: Annotated[list[_Gone], Field(alias="registrations-expired")] = []
