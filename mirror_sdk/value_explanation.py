"""Explanations of why a resource has its current value. They use the state, the directory and the rules.

This module sends no requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from statistics import median_low

from mirror_sdk._formatting import visible
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import CATEGORY_HINTS
from mirror_sdk.object_definitions import lookup
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values.display import display_value
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.device_requests import WaitingRequest
from mirror_sdk.wire.directory import Device, DeviceConnection, EndpointResource
from mirror_sdk.wire.model import JsonForm, write_timestamp
from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

_ORIGINS = {
    "read": "The device sent it in response to a read",
    "subscription": "The device sent it because the resource was subscribed",
    "auto_observation": "The device sent it by itself, because the resource is auto-observed",
}
_NOT_ACTIVE = {
    SubscriptionState.ASKED: "This application requested a subscription, but the device has not accepted it yet.",
    SubscriptionState.REFUSED: "This application requested a subscription, but the device rejected it. The service"
    " requests it again when the device next registers or updates its registration.",
    SubscriptionState.ENDED: "The subscription of this application ended when the device registered again or"
    " deregistered. A presubscription rule would also apply to later registrations.",
}
_LATER_CHANGES = {
    SubscriptionState.ASKED: "later changes arrive once the device accepts the requested subscription",
    SubscriptionState.REFUSED: "the service requests the subscription again when the device next registers or updates"
    " its registration",
}
_METHODS = {"GET": "A read", "PUT": "A write", "POST": "An execution"}
_UNITS = ((86400, "day", "days"), (3600, "hour", "h"), (60, "minute", "min"))
"""The units of time. Each has its length in seconds, its name in "3 hours ago", and its name in "every 3 h"."""
_FEWEST_PAUSES = 5
"""The minimum number of pauses. A light that was switched only a few times does not report at regular intervals."""
_SAME_CONTACT = timedelta(seconds=1)
"""Values that arrive within this time belong to one contact, because a device that wakes up may send several values."""
_LATE_FACTOR = 3
"""The factor after which a pause is too long. Devices report only changes, so twice the longest pause is normal."""


@dataclass(frozen=True, slots=True)
class ReportingInterval:
    """The usual pause between contacts with a device, which is the median of all pauses, and the longest pause."""

    usual: timedelta
    longest: timedelta

    def is_late(self, silence: timedelta) -> bool:
        """Return whether a silence is more than three times as long as the longest pause."""
        return silence > _LATE_FACTOR * self.longest


def reporting_interval(contacts: Iterable[datetime]) -> ReportingInterval | None:
    """Return the reporting interval of a device with these contacts, or ``None`` for fewer than five pauses."""
    pauses = [later - earlier for earlier, later in pairwise(sorted(contacts)) if later - earlier >= _SAME_CONTACT]
    return ReportingInterval(median_low(pauses), max(pauses)) if len(pauses) >= _FEWEST_PAUSES else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts that explain one resource. Facts that the key may not read or the service lacks are ``None``.

    Attributes:
        device: The entry of the device in the directory.
        mirrored: The device object.
        path: The resource path.
        announced: The resources that the device has now.
        subscription: The state of this application's subscription to the resource.
        rules: The presubscription rules of this application.
        waiting: The requests of this application to the device that have no response yet.
        contacts: The times at which values arrived that the device sent because of a subscription of this application.
        connection: How the device is connected.
    """

    device: Device
    mirrored: DeviceObject
    path: str
    announced: Sequence[EndpointResource]
    subscription: SubscriptionState | None
    rules: Sequence[PresubscriptionRule] | None
    waiting: Sequence[WaitingRequest] | None
    contacts: Sequence[datetime] | None
    connection: DeviceConnection | None

    @property
    def now(self) -> datetime:
        """The service's time when it sent the device object."""
        return self.mirrored.created_at

    @property
    def protocols(self) -> str:
        """The protocols of a real device as a phrase, or an empty string for a simulated device."""
        connection = self.connection
        return connection.way if connection is not None and connection.lwm2m_version is not None else ""

    @property
    def is_registered(self) -> bool:
        """Whether the device is registered, so that requests can be sent to it."""
        return self.device.state == "registered"

    @property
    def is_reachable(self) -> bool:
        """Whether the service knows that a request would reach the device now."""
        return self.connection is not None and self.connection.reachable

    @property
    def is_asleep(self) -> bool:
        """Whether the device is in queue mode and accepts no requests at the moment."""
        return self.device.queue_mode and not self.is_reachable

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the device is real, is not in queue mode and did not receive the last request."""
        return bool(self.protocols) and not self.device.queue_mode and not self.is_reachable

    @property
    def last_contact_at(self) -> datetime | None:
        """The time of the last known contact with the device."""
        # A deregistration is not a contact, because the registration may have expired.
        registered_at = self.mirrored.updated_at if self.is_registered else None
        known = (self.device.last_contact_at, registered_at, self.mirrored.last_reported_at)
        return max((*filter(None, known), *(self.contacts or ())), default=None)

    @property
    def interval(self) -> ReportingInterval | None:
        """The intervals at which the device reports to this application, or ``None`` if they are unknown."""
        return reporting_interval(self.contacts or ())

    @property
    def is_silent(self) -> bool | None:
        """Whether a registered device has been silent for much longer than usual, or ``None`` if unknown."""
        if self.interval is None or self.last_contact_at is None or not self.is_registered:
            return None
        return self.interval.is_late(self.now - self.last_contact_at)

    @property
    def resource_now(self) -> EndpointResource | None:
        """The resource in the device's current list, or ``None`` if the device no longer has it."""
        return next((one for one in self.announced if one.uri == self.path), None)

    @property
    def rule(self) -> PresubscriptionRule | None:
        """The first rule of this application that matches the resource, or ``None``."""
        device = self.device
        names = {
            "device_id": device.id,
            "endpoint_name": device.endpoint_name,
            "endpoint_type": device.endpoint_type or "",
        }
        matching = (rule for rule in self.rules or () if rule.matches_device(**names) and rule.matches_path(self.path))
        return next(matching, None)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(JsonForm):
    """An explanation, in sentences, of why a resource has its current value.

    Attributes:
        title: The name of the resource and of its device.
        why: The sentences that explain the value.
        refresh: The calls that would refresh the value.
    """

    title: str
    why: tuple[str, ...]
    refresh: tuple[str, ...]

    def __str__(self) -> str:
        lines = [self.title, *(f"  {line}" for line in self.why)]
        return "\n".join([*lines, "To refresh it:", *(f"  {line}" for line in self.refresh)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        why, refresh = ("".join(f"<li>{escape(line)}</li>" for line in lines) for lines in (self.why, self.refresh))
        return f"<p><b>{escape(self.title)}</b></p><ul>{why}</ul><p>To refresh it:</p><ul>{refresh}</ul>"


def explain(facts: Facts) -> Explanation:
    """Return an explanation of why a resource has its current value.

    Raises:
        UnknownResource: The device never had this resource. The message lists similar paths.
    """
    resource = facts.mirrored[facts.path]
    why = [
        *_of_reported(resource, facts),
        *_of_subscription(resource, facts),
        *_of_desired(resource, facts.now),
        *_of_waiting(facts),
        *_of_device(facts),
    ]
    # Names, units and values are strings from the device, so they may contain control characters.
    return Explanation(
        visible(f"{resource.label or facts.path} of {facts.device.endpoint_name} ({facts.path})"),
        tuple(map(visible, why)),
        tuple(map(visible, _of_refreshing(resource, facts))),
    )


def _of_reported(resource: Resource, facts: Facts) -> Iterator[str]:
    reported = resource.reported
    if reported is None:
        yield "The device has never reported it: no read has succeeded, and the device has not sent it by itself."
        return
    value = display_value(reported.value, resource.unit)
    yield f"The last reported value is {value}, received at {_when(reported.reported_at, facts.now)}."
    if reported.origin in _ORIGINS:
        yield f"{_ORIGINS[reported.origin]}{f', by {facts.protocols}' if facts.protocols else ''}."
    if reported.expires_at is not None:
        verb = "is" if reported.expires_at > facts.now else "was"
        yield f"According to the device, the value {verb} fresh until {write_timestamp(reported.expires_at)}."


def _of_subscription(resource: Resource, facts: Facts) -> Iterator[str]:
    state, rule, now = facts.subscription, facts.rule, facts.resource_now
    since = "" if resource.subscribed_at is None else f" since {write_timestamp(resource.subscribed_at)}"
    if state is SubscriptionState.ACTIVE:
        by = "" if rule is None else f", through the rule {rule.to_wire()}"
        yield f"This application is subscribed to it{since}{by}. The device should send each change."
        return
    is_rule_pending = state not in _NOT_ACTIVE and rule is not None and now is not None and now.obs
    if state in _NOT_ACTIVE:
        yield _NOT_ACTIVE[state]
    elif is_rule_pending and rule is not None:
        yield (
            f"The rule {rule.to_wire()} matches, but it takes effect when the device next registers or updates its"
            " registration."
        )
    if resource.subscribed and state is None:
        yield f"An application is subscribed to it{since}. This key has no permission to see which one."
    elif resource.subscribed:
        yield (
            f"Another application is subscribed to it{since}. The mirror has each change that the device sends, but"
            " this application does not receive it."
        )
    elif state not in _NOT_ACTIVE and not is_rule_pending:
        yield "No application is subscribed to it."


def _of_desired(resource: Resource, now: datetime) -> Iterator[str]:
    desired = resource.desired
    value = "" if desired is None else display_value(desired.value, resource.unit)
    if desired is None:
        yield "Nothing was ever written to it through this service."
    elif desired.status is DesiredStatus.PENDING:
        yield f"A write of {value} is pending, requested at {_when(desired.requested_at, now)}."
    elif desired.status is DesiredStatus.FAILURE:
        yield f"The last write, of {value}, failed at {_when(desired.desired_at, now)}: {_cause(desired)}."
        if desired.acknowledged_at is not None:
            at, by = _when(desired.acknowledged_at, now), visible(desired.acknowledged_by or "")
            yield f"The failure was acknowledged at {at} by {by}, so it no longer counts."
        reported = resource.reported if resource.is_reported_after_write else None
        if reported is not None and reported.value.python == desired.value.python:
            yield "The device has reported that value since: it accepted the write too late, or had the value already."
    else:
        yield f"The last write, of {value}, succeeded at {_when(desired.desired_at, now)}."
        yield _difference(resource, desired)


def _cause(desired: DesiredValue) -> str:
    if desired.category is None:
        return "only the application that requested it can see why"
    hint = CATEGORY_HINTS.get(desired.category)
    return desired.category if hint is None else f"{desired.category}, {hint}"


def _difference(resource: Resource, desired: DesiredValue) -> str:
    reported, is_since = resource.reported, resource.is_reported_after_write
    if reported is None:
        return "The device has reported nothing since."
    if reported.value.python != desired.value.python:
        if is_since:
            return "The device has reported another value since: it was changed there, or the device did not keep it."
        return unconfirmed_write(resource, desired, reported)
    if is_since:
        return "The device has reported it since."
    if is_since is None:
        return "The reported value may be older than that write, because their order is unknown."
    return "The reported value is older than that write: the device has reported nothing since."


def unconfirmed_write(resource: Resource, desired: DesiredValue, reported: ReportedValue) -> str:
    """Describe a successful write whose value differs from a report that is older, or may be older."""
    older = "may be older, because their order is unknown" if resource.is_reported_after_write is None else "is older"
    confirming = "Read it" if resource.subscribed else "Read it, or subscribe,"
    accepted, last = (display_value(each.value, resource.unit) for each in (desired, reported))
    return f"The device accepted {accepted}. The last report, {last}, {older}. {confirming} to confirm."


def _of_waiting(facts: Facts) -> Iterator[str]:
    for request in facts.waiting or ():
        if request.uri == facts.path:
            since, until = write_timestamp(request.placed_at), write_timestamp(request.expires_at)
            method = _METHODS.get(request.method, request.method)
            yield f"{method} of this application has been waiting since {since}. It expires at {until}."


def _of_device(facts: Facts) -> Iterator[str]:
    if facts.protocols and facts.connection is not None:
        address = facts.connection.address
        yield f"The device speaks {facts.protocols}{'' if address is None else f'; its messages come from {address}'}."
    if not facts.is_registered:
        yield "The device is not registered: no request can be sent to it now."
    elif facts.is_asleep:
        yield "The device sleeps: it accepts requests at its next contact."
    elif facts.device.queue_mode:
        yield "The device is awake, but will sleep again soon. Later requests wait for its next contact."
    elif facts.is_out_of_reach:
        yield "The device cannot be reached now: it accepts requests at its next contact."
    if facts.mirrored.updated_at is not None:
        yield f"Its last registration event was at {_when(facts.mirrored.updated_at, facts.now)}."
    if facts.last_contact_at is not None:
        yield _contact(facts, facts.last_contact_at)
    if facts.resource_now is None:
        yield "The device no longer has this resource. The mirror keeps its last value."


def _contact(facts: Facts, last_contact_at: datetime) -> str:
    seen, interval = f"was last seen at {_when(last_contact_at, facts.now)}", facts.interval
    if not facts.is_registered:
        return f"It {seen}."
    if interval is None:
        return f"It {seen}; its reporting interval is unknown."
    usually = f"It usually reports to this application every {_span(interval.usual)} and {seen}"
    if facts.is_silent:
        return f"{usually}: it seems cut off, unless nothing has changed since."
    if facts.now - last_contact_at > interval.usual:
        return f"{usually}: its longest silence before was {_span(interval.longest)}."
    return f"{usually}, as expected."


def _of_refreshing(resource: Resource, facts: Facts) -> Iterator[str]:
    now, definition = facts.resource_now, lookup(facts.path)
    if now is None:
        yield "not possible until the device has this resource again"
    elif definition is not None and "R" not in definition.access:
        yield f"not possible: {definition.label} cannot be read"
    else:
        yield f"client.read_value({facts.mirrored.device_id!r}, {facts.path!r}){_when_read(facts)}"
        yield _later_changes(resource, facts, is_observable=now.obs)


def _when_read(facts: Facts) -> str:
    if not facts.is_registered:
        return ", once the device has registered again"
    if facts.is_silent:
        return ", which waits for the next contact if the device is cut off"
    if facts.is_asleep or facts.is_out_of_reach:
        return ", which waits until the device next makes contact"
    return ""


def _later_changes(resource: Resource, facts: Facts, *, is_observable: bool) -> str:
    """Describe how this application receives later changes of the value."""
    state, rule = facts.subscription, facts.rule
    if state is SubscriptionState.ACTIVE:
        return _sent_changes(facts)
    if state in _LATER_CHANGES:
        return _LATER_CHANGES[state]
    if not is_observable:
        return "a subscription is not possible: the device does not allow observing this resource"
    is_auto_observed = resource.reported is not None and resource.reported.origin == "auto_observation"
    meanwhile = ""
    if resource.subscribed or is_auto_observed:
        meanwhile = "; meanwhile client.get_device shows the values that the device sends"
    if state is None:
        return f"a key with the scope subscribe can subscribe to it, to receive each later change{meanwhile}"
    if state is SubscriptionState.NONE and rule is not None and facts.is_registered:
        applied = f"client.subscriptions.rules.add([{rule.to_wire()}], apply_now=True)"
        return f"{applied}, to apply the rule now{meanwhile}"
    condition = "" if facts.is_registered else ", once the device has registered again"
    subscribed = f"client.subscribe({facts.mirrored.device_id!r}, {facts.path!r})"
    return f"{subscribed}, to receive each later change{condition}{meanwhile}"


def _sent_changes(facts: Facts) -> str:
    if facts.is_silent:
        return "later changes arrive by themselves once the device is in contact again"
    condition = "" if facts.is_silent is False else ", as long as it is in contact"
    return f"nothing needs to be done for later changes: the device sends them{condition}"


def _when(instant: datetime | None, now: datetime) -> str:
    """Return a time as text, followed by its age at the time of the service's response."""
    if instant is None:
        return "an unknown time"
    seconds = max(int((now - instant).total_seconds()), 0)
    for size, word, _ in _UNITS:
        if count := seconds // size:
            return f"{write_timestamp(instant)}, {count} {word}{'s' if count > 1 else ''} ago"
    return f"{write_timestamp(instant)}, {seconds} s ago"


def _span(pause: timedelta) -> str:
    """Format a pause in the largest time unit that fits into it at least twice, to limit the rounding error."""
    seconds = pause.total_seconds()
    return next((f"{seconds / size:.0f} {word}" for size, _, word in _UNITS if seconds >= 2 * size), f"{seconds:.0f} s")
