"""Why a value is what it is, in words, out of what the mirror, the directory and the application's rules tell.

Nothing in here asks anybody. Source: specification 2.1, 2.2, 3.1 to 3.3; wire.md 1 to 3 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from itertools import pairwise
from statistics import median_low

from mirror_sdk._visible import visible
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import CATEGORY_HINTS
from mirror_sdk.object_table import lookup
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.device_requests import WaitingRequest
from mirror_sdk.wire.directory import Device, DeviceConnection, EndpointResource
from mirror_sdk.wire.model import JsonForm, write_timestamp
from mirror_sdk.wire.subscriptions import PresubscriptionRule, SubscriptionState

_ORIGINS = {
    "read": "a read brought it",
    "subscription": "the device sent it, because the resource was subscribed",
    "auto_observation": "the device sent it by itself: it is auto-observed",
}
_UNMET = {
    SubscriptionState.ASKED: "This application asked for a subscription, which the device has not accepted yet.",
    SubscriptionState.REFUSED: "This application asked for a subscription, which the device refused; it is asked again"
    " when it next registers or updates its registration.",
    SubscriptionState.ENDED: "This application had subscribed it, which ended with the device's registration; a"
    " presubscription rule would hold for the next one too.",
}
_OR_UPDATES = " or updates its registration"
_COMING = {
    SubscriptionState.ASKED: "later changes come when the device has accepted the subscription that was asked for",
    SubscriptionState.REFUSED: "the subscription is asked for again when the device next registers or updates its"
    " registration",
}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_FEWEST_PAUSES = 5
"""A light that was switched a few times has no rhythm."""
_ONE_CONTACT = timedelta(seconds=1)
"""What comes within it is of one contact: a device that wakes up sends several values."""
_LATE_BY = 3
"""A device is heard when a value changes, and a value may well stay twice as long as ever before."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The pauses between the contacts that are known: the usual one, their median, and the longest one."""

    usual: timedelta
    longest: timedelta

    def is_late(self, silence: timedelta) -> bool:
        """Whether a silence is three times as long as any pause that is known."""
        return silence > _LATE_BY * self.longest


def rhythm_of(contacts: Iterable[datetime]) -> Rhythm | None:
    """The rhythm of a device that was heard at these instants; ``None`` before there are five pauses between them."""
    pauses = [later - earlier for earlier, later in pairwise(sorted(contacts)) if later - earlier >= _ONE_CONTACT]
    if len(pauses) < _FEWEST_PAUSES:
        return None
    return Rhythm(median_low(pauses), max(pauses))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one resource; what may not be asked, or is not told by this service, is ``None``.

    Attributes:
        device: The device as the directory lists it.
        mirrored: The device object.
        path: The resource path.
        announced: The resources the device has now.
        subscription: What became of this application's subscription of the resource.
        rules: The presubscription rules of this application.
        waiting: The requests of this application for the device that have no answer yet.
        contacts: When values came that the device sent because of a subscription of this application.
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
    def way(self) -> str:
        """The protocols by which values of a real device come, in words; empty for a simulated one."""
        connection = self.connection
        return connection.way if connection is not None and connection.lwm2m_version is not None else ""

    @property
    def is_registered(self) -> bool:
        """Whether the device can be asked at all."""
        return self.device.state == "registered"

    @property
    def is_asleep(self) -> bool:
        """Whether a device in queue mode takes no requests now; it does while it is awake, where that is known."""
        return self.device.queue_mode and not (self.connection is not None and self.connection.reachable)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether the last request did not get through to a real device that is always awake."""
        connection = self.connection if self.way and not self.device.queue_mode else None
        return connection is not None and not connection.reachable

    @property
    def last_contact_at(self) -> datetime | None:
        """When the device was last heard, as far as anything tells; a service may tell parts of it only."""
        # A registration may have ended by itself, because nothing was heard of the device.
        registered_at = self.mirrored.updated_at if self.is_registered else None
        told = (self.device.last_contact_at, registered_at, self.mirrored.last_reported_at)
        return max((*filter(None, told), *(self.contacts or ())), default=None)

    @property
    def is_silent(self) -> bool | None:
        """Whether a registered device has been silent for much longer than its rhythm has it; ``None`` if unknown."""
        rhythm, last_contact_at = rhythm_of(self.contacts or ()), self.last_contact_at
        if rhythm is None or last_contact_at is None or not self.is_registered:
            return None
        return rhythm.is_late(self.mirrored.created_at - last_contact_at)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(JsonForm):
    """Why a value is what it is, and what would refresh it: sentences, in ``why`` and ``refresh``."""

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
    """The explanation of one resource.

    Raises:
        UnknownResource: The device never introduced the resource; the message lists close paths.
    """
    resource = facts.mirrored[facts.path]
    now = facts.mirrored.created_at
    name = resource.label or facts.path
    why = (
        *_of_reported(resource, facts.way, now),
        *_of_subscription(resource, facts),
        *_of_desired(resource, now),
        *_of_waiting(facts),
        *_of_device(facts, now),
    )
    # Names, units and values are texts of the device.
    return Explanation(
        visible(f"{name} of {facts.device.endpoint_name} ({facts.path})"),
        tuple(map(visible, why)),
        tuple(map(visible, _refreshing(resource, facts))),
    )


def _of_reported(resource: Resource, way: str, now: datetime) -> list[str]:
    reported = resource.reported
    if reported is None:
        return ["Nothing was ever reported: it was never read with success, and the device never sent it."]
    unit = f" {resource.unit}" if resource.unit else ""
    lines = [f"The last reported value is {reported.value}{unit}, received at {_when(reported.reported_at, now)}."]
    if reported.origin in _ORIGINS:
        how = f"by {way}" if way else "so"
        lines.append(f"It came {how}: {_ORIGINS[reported.origin]}.")
    lines += _of_freshness(reported, now)
    return lines


def _of_freshness(reported: ReportedValue, now: datetime) -> list[str]:
    if reported.expires_at is None:
        return []
    if reported.expires_at > now:
        return [f"The device said that it holds until {write_timestamp(reported.expires_at)}."]
    return [f"The device said that it holds until {write_timestamp(reported.expires_at)}, which is over."]


def _of_subscription(resource: Resource, facts: Facts) -> list[str]:
    rule, state, announced = _rule_for(facts), facts.subscription, _announced(facts)
    since = "" if resource.subscribed_at is None else f" since {write_timestamp(resource.subscribed_at)}"
    if state is SubscriptionState.ACTIVE:
        by = "" if rule is None else f", through the rule {rule.to_wire()}"
        return [f"It is subscribed{since}, by this application{by}: the device is to send each change."]
    lines = [_UNMET[state]] if state in _UNMET else []
    if not lines and rule is not None and announced is not None and announced.obs:
        lines.append(
            f"The rule {rule.to_wire()} matches, but it takes effect when the device next registers{_OR_UPDATES}."
        )
    if resource.subscribed and state is None:
        lines.append(f"It is subscribed{since}, by some application; this key may not ask by which.")
    elif resource.subscribed:
        lines.append(
            f"It is subscribed{since}, by another application: the mirror has each change the device sends, but this"
            " application is told of none."
        )
    return lines or ["Nobody is subscribed to it."]


def _of_desired(resource: Resource, now: datetime) -> list[str]:
    desired = resource.desired
    if desired is None:
        return ["Nothing was ever written to it through this service."]
    match desired.status:
        case DesiredStatus.PENDING:
            return [f"A write of {desired.value} is under way, asked for at {_when(desired.requested_at, now)}."]
        case DesiredStatus.FAILURE:
            failed = f"The last write, of {desired.value}, failed at {_when(desired.desired_at, now)}"
            acknowledged = _of_acknowledgement(desired, now)
            return [f"{failed}: {_because(desired)}.", *acknowledged, *_of_late_success(resource, desired)]
    written = f"The last write, of {desired.value}, succeeded at {_when(desired.desired_at, now)}."
    return [written, *_of_difference(resource, desired)]


def _because(desired: DesiredValue) -> str:
    if desired.category is None:
        return "why is told only to the application that placed it"
    hint = CATEGORY_HINTS.get(desired.category)
    return desired.category if hint is None else f"{desired.category}, {hint}"


def _of_acknowledgement(desired: DesiredValue, now: datetime) -> list[str]:
    if desired.acknowledged_at is None:
        return []
    by = visible(desired.acknowledged_by or "")
    return [f"It was acknowledged at {_when(desired.acknowledged_at, now)} by {by}, and does not count as failed."]


def _of_late_success(resource: Resource, desired: DesiredValue) -> list[str]:
    if not resource.is_reported_since or resource.reported is None:
        return []
    if resource.reported.value.python != desired.value.python:
        return []
    return ["The device has reported that value since: it took the write too late to be told of, or had it already."]


def _of_difference(resource: Resource, desired: DesiredValue) -> list[str]:
    reported, is_since = resource.reported, resource.is_reported_since
    if reported is None:
        return ["The device has reported nothing since."]
    if reported.value.python != desired.value.python:
        if is_since:
            return ["The device has reported another value since: it was changed at the device, or not kept."]
        return [of_unconfirmed(resource, desired, reported)]
    if is_since:
        return ["The device has reported it since."]
    if is_since is None:
        return ["The reported value may be older than that write, which their times do not tell."]
    return ["The reported value is older than that write: the device has reported nothing since."]


def of_unconfirmed(resource: Resource, desired: DesiredValue, reported: ReportedValue) -> str:
    """What to say of a write that succeeded, and of another value that was reported before, as far as is known."""
    older = "may be older, which their times do not tell" if resource.is_reported_since is None else "is older"
    confirming = "read it" if resource.subscribed else "read it, or subscribe,"
    return f"The device took {desired.value}; the last report, {reported.value}, {older}: {confirming} to confirm."


def _of_waiting(facts: Facts) -> list[str]:
    words = {"GET": "A read", "PUT": "A write", "POST": "An execution"}
    return [
        f"{words.get(request.method, request.method)} of this application waits since"
        f" {write_timestamp(request.placed_at)}, until {write_timestamp(request.expires_at)} at most."
        for request in facts.waiting or ()
        if request.uri == facts.path
    ]


def _of_device(facts: Facts, now: datetime) -> list[str]:
    lines = _of_connection(facts)
    if not facts.is_registered:
        lines.append("The device is not registered: it cannot be asked now.")
    elif facts.is_asleep:
        lines.append("The device sleeps: it takes requests when it next makes contact.")
    elif facts.device.queue_mode:
        lines.append("The device is awake, and will sleep again soon: then requests wait for its next contact.")
    elif facts.is_out_of_reach:
        lines.append("The device cannot be reached now: it takes requests when it next makes contact.")
    last_event = facts.mirrored.updated_at
    if last_event is not None:
        lines.append(f"Its last registration event was at {_when(last_event, now)}.")
    lines += _of_contact(facts, now)
    if _announced(facts) is None:
        lines.append("The device does not have this resource any more; the mirror keeps its last value.")
    return lines


def _of_connection(facts: Facts) -> list[str]:
    if not facts.way or facts.connection is None:
        return []
    address = facts.connection.address
    place = "" if address is None else f"; its messages come from {address}"
    return [f"The device speaks {facts.way}{place}."]


def _of_contact(facts: Facts, now: datetime) -> list[str]:
    if facts.last_contact_at is None:
        return []
    heard = f"was last heard at {_when(facts.last_contact_at, now)}"
    rhythm = rhythm_of(facts.contacts or ())
    if not facts.is_registered:
        return [f"It {heard}."]
    if rhythm is None:
        return [f"It {heard}; its rhythm is not known."]
    usually = f"It usually reports to this application every {_span(rhythm.usual)} and {heard}"
    if facts.is_silent:
        return [f"{usually}: it seems cut off, unless nothing has changed since."]
    if now - facts.last_contact_at > rhythm.usual:
        return [f"{usually}: its longest silence before was {_span(rhythm.longest)}."]
    return [f"{usually}, as was to be expected."]


def _refreshing(resource: Resource, facts: Facts) -> list[str]:
    announced = _announced(facts)
    if announced is None:
        return ["nothing, before the device introduces the resource again"]
    definition = lookup(facts.path)
    if definition is not None and "R" not in definition.access:
        return [f"nothing: {definition.label} cannot be read"]
    return [_reading(facts), _later_changes(resource, facts, announced)]


def _reading(facts: Facts) -> str:
    read = f"client.read_value({facts.mirrored.device_id!r}, {facts.path!r})"
    if not facts.is_registered:
        return f"{read}, once the device has registered again"
    if facts.is_silent:
        return f"{read}, which tells whether the device is cut off: then it waits for the next contact"
    if facts.is_asleep or facts.is_out_of_reach:
        return f"{read}, which waits until the device next makes contact"
    return read


def _later_changes(resource: Resource, facts: Facts, announced: EndpointResource) -> str:
    """What brings later changes to this application, or has brought them about already."""
    state, rule = facts.subscription, _rule_for(facts)
    if state is SubscriptionState.ACTIVE:
        return _sent_changes(facts)
    if state in _COMING:
        return _COMING[state]
    if not announced.obs:
        return "a subscription is not possible: the device does not let this resource be observed"
    by_itself = resource.subscribed or (
        resource.reported is not None and resource.reported.origin == "auto_observation"
    )
    meanwhile = "; the mirror has what the device sends meanwhile, as client.get_device shows" if by_itself else ""
    if state is None:
        return f"a key with the scope subscribe can subscribe it, to have each later change{meanwhile}"
    if state is SubscriptionState.NONE and rule is not None and facts.is_registered:
        applied = f"client.subscriptions.rules.add([{rule.to_wire()}], apply_now=True)"
        return f"{applied}, to have the rule take effect now{meanwhile}"
    away = "" if facts.is_registered else ", once the device has registered again"
    subscribed = f"client.subscribe({facts.mirrored.device_id!r}, {facts.path!r})"
    return f"{subscribed}, to have each later change{away}{meanwhile}"


def _sent_changes(facts: Facts) -> str:
    if facts.is_silent:
        return "later changes come by themselves once the device is heard again, and not before"
    known = "" if facts.is_silent is False else ", as long as it is in contact"
    return f"nothing needs to be done for later changes: the device sends them{known}"


def _announced(facts: Facts) -> EndpointResource | None:
    return next((one for one in facts.announced if one.uri == facts.path), None)


def _rule_for(facts: Facts) -> PresubscriptionRule | None:
    device = facts.device
    for rule in facts.rules or ():
        is_of_device = rule.matches_device(
            device_id=device.id, endpoint_name=device.endpoint_name, endpoint_type=device.endpoint_type or ""
        )
        if is_of_device and rule.matches_path(facts.path):
            return rule
    return None


def _when(instant: datetime | None, now: datetime) -> str:
    """An instant, and how long before the answer of the service it was."""
    if instant is None:
        return "a time that is not known"
    seconds = int((now - instant).total_seconds())
    for size, word in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{write_timestamp(instant)}, {count} {word}{'s' if count > 1 else ''} ago"
    return f"{write_timestamp(instant)}, {max(seconds, 0)} s ago"


def _span(pause: timedelta) -> str:
    """A pause in the unit that suits it; two of a unit are told in it, so that little is rounded away."""
    seconds = pause.total_seconds()
    for size, word in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"
