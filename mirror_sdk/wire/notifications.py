"""The notification message, which is the body of a long poll and of a callback. Source: specification 6; wire.md 5."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mirror_sdk.wire.model import Payload, WireModel


class AsyncResponse(WireModel):
    """The result of a device request. ``id`` is the async-id of the request.

    ``error`` is the cause of a failure. New causes may be added. The device and the resource path are present only
    together with ``seq``, which is the number of the entry in the log.

    Attributes:
        status: 200 if the request succeeded, or 400 or more if it failed.
        payload: The value that was read, or empty. In JSON, it is base64.
        ct: The content type of the payload.
        max_age: How many seconds the value stays fresh, or 0 if the device does not send this time.
        uid: A unique id of this entry, which stays the same if the server sends the entry again. Present in a poll with
            ``after``, or if the channel requested it.
        timestamp: The time at which the request ended, in milliseconds since 1970. Present in a poll with ``after``, or
            if the channel requested it.
        logged_at: The time at which the service added this entry to the log, in milliseconds since 1970. Present
            together with ``seq``. An extension of the specification.
        ep: The id of the device. An extension of the specification.
        original_ep: The name with which the device registers. An extension of the specification.
        path: The resource path of the request. An extension of the specification.
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
    logged_at: Annotated[int | None, Field(alias="logged-at")] = None
    ep: str | None = None
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    path: str | None = None


class Notification(WireModel):
    """A value that a device reported. ``timestamp`` is the time of the change by the device's clock, in ms since 1970.

    Attributes:
        ep: The id of the device.
        path: The resource path.
        ct: The content type of the payload.
        payload: The value, or empty. In JSON, it is base64.
        max_age: How many seconds the value stays fresh, or 0 if the device does not send this time.
        uid: A unique id of this entry, which stays the same if the server sends the entry again. Present in a poll with
            ``after``, or if the channel requested it.
        original_ep: The name with which the device registers. A webhook receives it only if its registration requested
            it.
        seq: The number of this entry in the notification log. Present in a poll with ``after``, or if the channel
            requested it. An extension of the specification.
        logged_at: The time at which the service added this entry to the log, in milliseconds since 1970. Present
            together with ``seq``. An extension of the specification.
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
    logged_at: Annotated[int | None, Field(alias="logged-at")] = None


class RegisteredResource(WireModel):
    """A resource in the registration of a device.

    Attributes:
        path: The resource path.
        rt: The resource type.
        ct: The content type of the resource.
        obs: Whether applications can subscribe to the resource.
    """

    path: str
    rt: str | None = None
    ct: str | None = None
    obs: bool = False


class RegistrationEvent(WireModel):
    """A device registered or updated its registration.

    Attributes:
        ep: The id of the device.
        original_ep: The name with which the device registers.
        ept: The type with which the device registers.
        q: Whether the device is in queue mode.
        uid: A unique id of this entry, which stays the same if the server sends the entry again. Present in a poll with
            ``after``, or if the channel requested it.
        timestamp: The time of the event, in milliseconds since 1970.
        seq: The number of this entry in the notification log. Present in a poll with ``after``, or if the channel
            requested it. An extension of the specification.
        logged_at: The time at which the service added this entry to the log, in milliseconds since 1970. Present
            together with ``seq``. An extension of the specification.
        resources: The resources of the device.
        ended_subscriptions: The paths of the application's single subscriptions that this registration ended. Absent if
            there are no such paths. An extension of the specification.
    """

    ep: str
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    ept: str | None = None
    q: bool = False
    uid: str | None = None
    timestamp: int | None = None
    seq: int | None = None
    logged_at: Annotated[int | None, Field(alias="logged-at")] = None
    resources: list[RegisteredResource] = []
    ended_subscriptions: Annotated[list[str], Field(alias="ended-subscriptions")] = []


class DeregisteredDevice(WireModel):
    """A device that deregistered or whose registration expired, as an object.

    All members except ``ep`` are present only together with ``seq``.

    Attributes:
        original_ep: The name with which the device registers. An extension of the specification.
        uid: A unique id of this entry, which stays the same if the server sends the entry again. An extension of the
            specification.
        timestamp: The time of the event, in milliseconds since 1970. An extension of the specification.
        logged_at: The time at which the service added this entry to the log, in milliseconds since 1970. Present
            together with ``seq``. An extension of the specification.
    """

    ep: str
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    uid: str | None = None
    timestamp: int | None = None
    seq: int | None = None
    logged_at: Annotated[int | None, Field(alias="logged-at")] = None


_Deregistered = Annotated[
    Annotated[str, Tag("id")] | Annotated[DeregisteredDevice, Tag("DeregisteredDevice")],
    Discriminator(lambda content: "id" if isinstance(content, str) else "DeregisteredDevice"),
]


class NotificationMessage(WireModel):
    """One notification message. It contains only lists that have entries.

    Attributes:
        async_responses: The results of the application's device requests.
        notifications: The values of subscribed resources.
        registrations: The devices that registered.
        reg_updates: The devices that updated their registration.
        de_registrations: The devices that deregistered, as ids. A poll with ``after`` returns objects, and a webhook
            can request objects.
        registrations_expired: The devices whose registration expired, in the same form.
    """

    async_responses: Annotated[list[AsyncResponse], Field(alias="async-responses")] = []
    notifications: list[Notification] = []
    registrations: list[RegistrationEvent] = []
    reg_updates: Annotated[list[RegistrationEvent], Field(alias="reg-updates")] = []
    de_registrations: Annotated[list[_Deregistered], Field(alias="de-registrations")] = []
    registrations_expired: Annotated[list[_Deregistered], Field(alias="registrations-expired")] = []
