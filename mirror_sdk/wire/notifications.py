"""The notification message, the body of a long poll and of a callback. Source: specification 6; wire.md 5."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from mirror_sdk.wire.model import Payload, WireModel


class AsyncResponse(WireModel):
    """The outcome of a device request, matched by ``id``, its async-id; ``error`` is an open set of categories.

    It has the device and the resource path of the request only with its number in the log, ``seq``.

    Attributes:
        status: 200 if the device did it, else 400 or above.
        payload: The value that was read, in JSON as base64; empty if there is none.
        ct: The content type of the payload.
        max_age: For how many seconds the value is fresh; 0 if the device does not send it.
        uid: The identity of this entry, the same if it is sent again; only with ``after``, or if it was requested.
        timestamp: When the request ended, in milliseconds since 1970; only with ``after``, or if it was requested.
        ep: The device's id; only with ``seq``; an extension.
        original_ep: The name the device registers with; only with ``seq``; an extension.
        path: The resource path of the request; only with ``seq``; an extension.
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
        payload: The value, in JSON as base64; empty if there is none.
        max_age: For how many seconds the value is fresh; 0 if the device does not send it.
        uid: The identity of this entry, the same if it is sent again; only with ``after``, or if it was requested.
        original_ep: The name the device registers with. A webhook has it in an observation only if it was requested.
        seq: The number of this entry in the notification log; only with ``after``, or if it was requested; an
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
    """A resource in the registration of a device.

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

    Attributes:
        ep: The device's id.
        original_ep: The name the device registers with.
        ept: The type the device registers with.
        q: Whether the device is in queue mode.
        uid: The identity of this entry, the same if it is sent again; only with ``after``, or if it was requested.
        timestamp: When it happened, in milliseconds since 1970.
        seq: The number of this entry in the notification log; only with ``after``, or if it was requested; an
            extension.
        resources: The resources of the device.
        ended_subscriptions: The paths of the application's single subscriptions that this registration ended; absent if
            there are none; an extension.
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


class DeregisteredDevice(WireModel):
    """A device that deregistered or whose registration expired, as an object; all but ``ep`` only with ``seq``.

    Attributes:
        original_ep: The name the device registers with; only with ``seq``; an extension.
        uid: The identity of this entry, the same if it is sent again; only with ``seq``; an extension.
        timestamp: When it happened, in milliseconds since 1970; only with ``seq``; an extension.
    """

    ep: str
    original_ep: Annotated[str | None, Field(alias="original-ep")] = None
    uid: str | None = None
    timestamp: int | None = None
    seq: int | None = None


_Deregistered = Annotated[
    Annotated[str, Tag("id")] | Annotated[DeregisteredDevice, Tag("DeregisteredDevice")],
    Discriminator(lambda content: "id" if isinstance(content, str) else "DeregisteredDevice"),
]


class NotificationMessage(WireModel):
    """One message; each list is there only if it has entries.

    Attributes:
        async_responses: Outcomes of the application's device requests.
        notifications: Values of subscribed resources.
        registrations: Devices that registered.
        reg_updates: Devices that updated their registration.
        de_registrations: Devices that deregistered: their ids, or objects with ``after`` and for a webhook that
            requested these.
        registrations_expired: Devices whose registration expired: as in ``de-registrations``.
    """

    async_responses: Annotated[list[AsyncResponse], Field(alias="async-responses")] = []
    notifications: list[Notification] = []
    registrations: list[RegistrationEvent] = []
    reg_updates: Annotated[list[RegistrationEvent], Field(alias="reg-updates")] = []
    de_registrations: Annotated[list[_Deregistered], Field(alias="de-registrations")] = []
    registrations_expired: Annotated[list[_Deregistered], Field(alias="registrations-expired")] = []
