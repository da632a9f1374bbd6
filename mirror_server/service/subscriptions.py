"""Presubscription rules and subscriptions. Source: specification 3.2, 3.3; wire.md 3."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import orjson

from mirror_sdk.wire.subscriptions import RULES_CHANGED, SubscriptionState
from mirror_server.clock import Clock
from mirror_server.core import messages
from mirror_server.core.errors import ApiError, unknown_device
from mirror_server.core.messages import NOTIFICATIONS
from mirror_server.core.rules import RuleIndex
from mirror_server.core.timestamps import Instant
from mirror_server.devices.dispatch import Job
from mirror_server.devices.interface import Content, DeviceResponse, Observation, Observe, Outcome
from mirror_server.notifications.log import NotificationLog
from mirror_server.service.commands import reported_value
from mirror_server.store import devices, resources, subscriptions
from mirror_server.store.change_listeners import Listeners
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import AGAIN, WAITING, Session, Subscribers

T = TypeVar("T")

_STATES = {
    "pending": SubscriptionState.ASKED,
    "active": SubscriptionState.ACTIVE,
    "rejected": SubscriptionState.REFUSED,
    "ended": SubscriptionState.ENDED,
    None: SubscriptionState.NONE,
}


class SubscriptionService:
    """Changes rules and subscriptions, and stores the responses of devices to subscribe commands.

    Args:
        database: The database that has the subscriptions.
        clock: Domain time.
        log: Gets the observation events.
        listeners: Called with initial values.
    """

    def __init__(self, database: Database, clock: Clock, log: NotificationLog, listeners: Listeners) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._listeners = listeners
        self._indexes: dict[str, tuple[str, RuleIndex]] = {}

    def rules(self, app_id: str) -> tuple[str, str]:
        """Return the application's presubscription rules as JSON, as they were put, and their tag for ``ETag``."""
        return _tagged(self._database.query(lambda session: subscriptions.rules(session, app_id)))

    def put_rules(
        self,
        app_id: str,
        text: str,
        *,
        matches_tag: Callable[[str], bool] | None = None,
        then: Callable[[Session, str], T] | None = None,
    ) -> Future[T | None]:
        """Replace the application's rules; the future is done when they are on disk.

        Subscriptions of the previous rules continue until the device registers again.

        Args:
            app_id: The application.
            text: The new rules as JSON.
            matches_tag: Whether the request's ``If-Match`` has a tag. If it does not have the tag of the current
                rules, the future raises an ApiError (412).
            then: Called with the application in the same transaction. The future has its result.
        """

        def work(session: Session) -> T | None:
            _require_tag(session, app_id, matches_tag)
            subscriptions.put_rules(session, app_id, text)
            return None if then is None else then(session, app_id)

        return self._database.submit(work)

    def presubscribe(self, session: Session, device_id: str) -> None:
        """Subscribe applications to the resources of a device that their rules match, and retry rejected subscriptions.

        Source: specification 3.3; wire.md 3.
        """
        subscriptions.retry_rejected(session, device_id)
        rules = subscriptions.all_rules(session)
        device = devices.find(session, device_id)
        if not rules or device is None:
            return
        paths = [resource.path for resource in resources.announced(session, device_id) if resource.observable]
        for app_id, text in rules.items():
            positions = self.matching(app_id, text, device, paths)
            subscriptions.add_presubscribed(session, app_id, device_id, positions)

    def matching(self, app_id: str, text: str, device: DeviceRow, paths: Iterable[str]) -> dict[str, int]:
        """Return the resources of a device that a rule of the application matches. The index of the rules is cached.

        Args:
            app_id: The application.
            text: Its rules, as they are stored.
            device: The device.
            paths: Its observable resources.

        Returns:
            The position of the first rule that matches, by path.
        """
        # The text is read from the database each time, so that changes by other processes are noticed.
        indexed_text, index = self._indexes.get(app_id, ("", None))
        if index is None or indexed_text != text:
            index = RuleIndex(orjson.loads(text))
            self._indexes[app_id] = text, index
        return index.positions(
            paths,
            device_id=device.device_id,
            endpoint_name=device.endpoint_name,
            endpoint_type=device.endpoint_type,
        )

    def subscribe(self, app_id: str, device_id: str, path: str) -> Future[None]:
        """Subscribe an application to one resource.

        The future raises an ApiError: 404 unknown device, 400 if the device is not registered, has no such resource,
        or does not allow to observe it.
        """

        def work(session: Session) -> None:
            _check_observable(session, device_id, path)
            subscriptions.put_single(session, app_id, device_id, path)
            # Sent again even if the device did not respond to an earlier subscribe command.
            session.publish(AGAIN, device_id)

        return self._database.submit(work)

    def unsubscribe(self, app_id: str, device_id: str, path: str | None = None) -> Future[None]:
        """End the application's subscription of one resource, or without a path all of a device, if there are any."""

        def work(session: Session) -> None:
            subscriptions.delete(session, app_id, device_id, path)
            subscriptions.clear_ended(session, device_id)
            session.publish(WAITING, device_id)

        return self._database.submit(work)

    def paths(self, app_id: str, device_id: str) -> list[str]:
        """Return the resources of a device that the application is subscribed to."""
        return self._database.query(lambda session: subscriptions.paths(session, app_id, device_id))

    def state(self, app_id: str, device_id: str, path: str) -> SubscriptionState:
        """Return the state of the application's subscription of a resource."""
        return _STATES[self._database.query(lambda session: subscriptions.state(session, app_id, device_id, path))]

    def finish(self, session: Session, job: Job, response: DeviceResponse | None) -> None:
        """Store the response of a device to a command that starts or ends an observation.

        Without a response of the device nothing is stored, and the command is sent again. A response may come late,
        after a second command or the end of the subscription.
        """
        if response is None or not response.outcome.is_from_device:
            return
        devices.record_contact(session, [job.device_id], self._clock.now())
        path = job.command.path
        if not isinstance(job.command, Observe):
            subscriptions.forgotten(session, job.device_id, path)
        elif response.outcome is not Outcome.DONE:
            subscriptions.rejected(session, job.device_id, path)
        else:
            self._store_accepted(session, job.device_id, path, response)

    def _store_accepted(self, session: Session, device_id: str, path: str, response: DeviceResponse) -> None:
        """Send the initial value to the applications that waited for it.

        If it is a change, the applications that were subscribed before get it too. Without a value in the response,
        the reported value of the mirror is the initial one.
        """
        device = devices.find(session, device_id)
        if device is None:
            return
        now = self._clock.now()
        waiting = subscriptions.accepted(session, device_id, path, now)
        stored = resources.stored_value(session, device_id, path)
        if response.content is None:
            event, app_ids = _observation_of(device_id, path, stored), waiting
        else:
            # The time of a resource never decreases.
            changed_at = max(response.responded_at or now, stored.changed_at or 0)
            value = reported_value(device_id, path, response.content, now, "subscription", changed_at)
            self._listeners.report(session, [(value, response.responded_at or now, False)])
            app_ids = (
                subscriptions.subscribed_applications(session, device_id, path)
                if _is_change(stored, response)
                else waiting
            )
            event = Observation(device_id, path, response.content, changed_at)
        if event is not None:
            subscribers = Subscribers(device.endpoint_name, app_ids, auto_observed=False, changed_at=event.changed_at)
            self.notify(session, [(event, event.changed_at, subscribers)])

    def notify(self, session: Session, observed: Iterable[tuple[Observation, Instant, Subscribers]]) -> None:
        """Append observation events to the logs of the subscribers. Each event has its observation and its time."""
        self._log.append(session, NOTIFICATIONS, _entries(observed))


def _tagged(rules: str | None) -> tuple[str, str]:
    text = rules or "[]"
    return text, hashlib.sha256(text.encode()).hexdigest()[:32]


def _require_tag(session: Session, app_id: str, matches_tag: Callable[[str], bool] | None) -> None:
    if matches_tag is None or matches_tag(_tagged(subscriptions.rules(session, app_id))[1]):
        return
    message = (
        "the rules of this key have changed since this ETag; GET /v2/subscriptions returns the current rules and their"
        " ETag: change those rules, and send them with that ETag"
    )
    raise ApiError(412, f"If-Match: {message}", reason=RULES_CHANGED, fields=[("If-Match", message)])


def _entries(observed: Iterable[tuple[Observation, Instant, Subscribers]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for observation, changed_at, subscribers in observed:
        if not subscribers.app_ids:
            continue
        content = observation.content
        event = messages.notification(
            device_id=observation.device_id,
            endpoint_name=subscribers.endpoint_name,
            path=observation.path,
            payload=content.payload,
            content_type=content.content_type,
            max_age_seconds=content.max_age_seconds,
            changed_at=changed_at,
        )
        for app_id in subscribers.app_ids:
            yield app_id, observation.device_id, event


def _observation_of(device_id: str, path: str, stored: resources.StoredValue) -> Observation | None:
    """Return the reported value of the mirror, with its own time and freshness, or ``None`` if there is none."""
    value, content_type, origin, reported_at, expires_at, changed_at = stored
    if value is None or content_type is None or reported_at is None:
        return None
    max_age_seconds = None if expires_at is None else (expires_at - reported_at) // 1000
    # A value that was read had no observation event.
    at = max(reported_at, changed_at or 0) if origin == "read" or changed_at is None else changed_at
    return Observation(device_id, path, Content(value, content_type, max_age_seconds), at)


def _is_change(stored: resources.StoredValue, response: DeviceResponse) -> bool:
    """Whether an initial value is a change without an observation event. A read may have stored the value before."""
    if response.content is None or response.content.payload != stored.value:
        return True
    if stored.origin != "read" or stored.changed_at is None or response.responded_at is None:
        return False
    return response.responded_at > stored.changed_at


def _check_observable(session: Session, device_id: str, path: str) -> None:
    device = devices.find(session, device_id)
    if device is None:
        raise unknown_device(device_id)
    if not device.registered:
        message = "the device is not registered; a presubscription rule subscribes to it as soon as it registers"
        raise ApiError(400, message, reason="DEVICE_NOT_REGISTERED")
    observable = {resource.path: resource.observable for resource in resources.announced(session, device_id)}
    if path not in observable:
        message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists its resources"
        raise ApiError.of_field("path", message, reason="RESOURCE_NOT_FOUND")
    if not observable[path]:
        message = f"{path} cannot be observed; read it with a device request instead"
        raise ApiError.of_field("path", message, reason="NOT_OBSERVABLE")
