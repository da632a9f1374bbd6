"""The service that stores device events and reads the mirror. Source: specification 2, 3.2, 3.3; wire.md 1 and 6."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from mirror_sdk.wire.device_object import Origin
from mirror_server.clock import Clock
from mirror_server.core import messages
from mirror_server.core.errors import unknown_device
from mirror_server.core.messages import DE_REGISTRATIONS, REG_UPDATES, REGISTRATIONS, REGISTRATIONS_EXPIRED
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import NameInUse, NotRegistered, Observation, Registration
from mirror_server.notifications.log import NotificationLog
from mirror_server.service.commands import CommandService, reported_value
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store import devices, logs, maintenance, subscriptions
from mirror_server.store import resources as stored_resources
from mirror_server.store.change_listeners import Listeners, RegistrationChange, RegistrationKind
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource, ReceivedValue, ResourceRow
from mirror_server.store.session import OLDEST_CONTACT, Session, Subscribers

_MAX_BYTES = 64 * 1024 * 1024

Cached = TypeVar("Cached", bound=Sized)

_KINDS: Mapping[str, RegistrationKind] = {
    REGISTRATIONS: "registration",
    REG_UPDATES: "reg_update",
    DE_REGISTRATIONS: "deregistration",
    REGISTRATIONS_EXPIRED: "expired",
}
"""The kind of registration change that listeners receive, by the kind of log entry."""


class LruCache(Generic[Cached]):
    """A least-recently-used cache with a limit in bytes.

    Args:
        max_bytes: The maximum total size of the cached values.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Hashable, Cached] = OrderedDict()
        self._size_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Cached | None:
        """Return the cached value for a key, or ``None`` if there is no cached value."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, key: Hashable, encoded: Cached) -> None:
        """Store a value, and evict the least recently used values if the cache exceeds its limit."""
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._size_bytes += len(encoded) - (0 if replaced is None else len(replaced))
            self._entries[key] = encoded
            while self._size_bytes > self._max_bytes:
                self._size_bytes -= len(self._entries.popitem(last=False)[1])


class EncodedObject(NamedTuple):
    """The encoded device object of the route E1, and its entity tag, which depends only on the content."""

    content: bytes
    tag: str


Encode = Callable[[DeviceRow, Sequence[ResourceRow], str | None], bytes]
"""A function that encodes a device for an application.

The application is ``None`` for all applications without a failed write to the device.
"""


class DirectoryEntry(NamedTuple):
    """A device in the directory, with the members that extensions add."""

    device: DeviceRow
    members: dict[str, Any]


@dataclass(slots=True)
class _CachedObject:
    """The cached encoding of a device object, and the last point at which the encoding was confirmed to be current.

    Attributes:
        for_others: The object for all applications except those in ``for_issuers``.
        for_issuers: The object for each application that has a failed write. It includes the error category.
        revision: The revision of the device.
        version: The latest version of the database at which the device had this revision.
        as_of: The number of the mirror's last change at that version.
    """

    for_others: EncodedObject
    for_issuers: Mapping[str, EncodedObject]
    revision: int
    version: Hashable | None = None
    as_of: int | None = None

    def __len__(self) -> int:
        return sum(len(encoded.content) for encoded in (self.for_others, *self.for_issuers.values()))


class TooManyResources(Exception):
    """The device has more resources than the caller allows. The argument is the id of the device."""


class DeviceService:
    """The service that stores device events and reads the mirror.

    Device connections call :meth:`registered`, :meth:`registration_updated`, :meth:`deregistered`, :meth:`contact`,
    :meth:`observed` and :meth:`observation_ended`. Their futures complete when the change is on disk.

    Args:
        database: The database with the mirror.
        clock: The clock of the server.
        log: The log to which registration events are appended.
        listeners: The functions to call with registrations, reported values and deleted devices.
        commands: The service that fails the commands of a device that deregisters.
        subscriptions: The service that applies presubscription rules.
        contact: A function that is called with the id of a device that can be reached.
        expiry_due: A function that is called with the time at which a registration expires unless it is updated.

    Attributes:
        on_resumed: Functions that are called after an interruption and at each start, before any registration expires.
            Their arguments are the session and the time at which the interruption started.
        on_describe: Functions that return additional members of devices in the directory, by device id. They are
            called in the transaction that reads the devices.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        log: NotificationLog,
        listeners: Listeners,
        commands: CommandService,
        subscriptions: SubscriptionService,
        contact: Callable[[str], None],
        expiry_due: Callable[[Instant], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._log = log
        self._listeners = listeners
        self._commands = commands
        self._subscriptions = subscriptions
        self._contact = contact
        self.on_resumed: list[Callable[[Session, Instant], None]] = []
        self.on_describe: list[Callable[[Session, Sequence[DeviceRow]], Mapping[str, Mapping[str, Any]]]] = []
        self._interrupted_at: Instant | None = None
        self._expiry_due = expiry_due
        self._cache: LruCache[_CachedObject] = LruCache()
        self._last_change: tuple[Hashable, int] | None = None

    def device_object(
        self,
        app_id: str,
        device_id: str,
        encode: Encode,
        version: Hashable | None = None,
        *,
        most: int = stored_resources.NO_LIMIT - 1,
    ) -> EncodedObject:
        """Return the encoded object of a device with all its resources, in their state at one time.

        An unchanged device comes from the cache.

        Args:
            app_id: The application that receives the object. Only the application that submitted a write receives the
                error category of its failure; see specification 3.1 and 7.
            device_id: The id of the device.
            encode: The function that encodes the device.
            version: The version of the database, read after the request arrived.
            most: The maximum number of resources to read and encode.

        Raises:
            ApiError: No device has this id (404).
            TooManyResources: The device has more than ``most`` resources and is not in the cache.
        """
        cached = self._cache.get(device_id)
        if cached is None or version is None or cached.version != version:
            # Read before the device, so that later changes count as changes after ``as_of``.
            as_of = self._last_change_at(version)
            if cached is None or not self._is_unchanged(device_id, cached.as_of, as_of):
                cached_revision = devices.NO_REVISION if cached is None else cached.revision
                found = self._database.query(
                    lambda session: devices.object_of(
                        session, device_id, most=most + 1, cached_revision=cached_revision
                    )
                )
                if found is None:
                    raise unknown_device(device_id)
                if len(found[1]) > most:
                    raise TooManyResources(device_id)
                if cached is None or found[0].revision != cached_revision:
                    cached = _encode_for_all(encode, *found)
                    self._cache.put(device_id, cached)
            cached.version, cached.as_of = version, as_of
        return cached.for_issuers.get(app_id, cached.for_others)

    def _is_unchanged(self, device_id: str, since: int | None, until: int | None) -> bool:
        """Return whether this process knows that a device did not change after ``since`` and up to ``until``."""
        return since is not None and until is not None and self._database.changes.is_unchanged(device_id, since, until)

    def _last_change_at(self, version: Hashable | None) -> int | None:
        """Return the number of the mirror's last change, which is read once for each version of the database.

        Return ``None`` on a shared database, because this process does not know the changes by other processes.
        """
        if version is None or self._database.is_shared:
            return None
        cached = self._last_change
        if cached is None or cached[0] != version:
            cached = self._last_change = version, self._database.query(Session.last_revision)
        return cached[1]

    def described(self, device_id: str) -> DirectoryEntry:
        """Return a device of the directory, with the members that extensions add.

        Raises:
            ApiError: No device has this id (404).
        """
        with self._database.read() as session:
            return self.describe(session, [require_device(session, device_id)])[0]

    def device(self, device_id: str) -> DeviceRow:
        """Return a device of the directory.

        Raises:
            ApiError: No device has this id (404).
        """
        return self._database.query(lambda session: require_device(session, device_id))

    def announced(self, device_id: str, *, most: int = stored_resources.NO_LIMIT - 1) -> list[AnnouncedResource]:
        """Return the resources that a device currently has.

        Raises:
            ApiError: No device has this id (404).
            TooManyResources: The device has more than ``most`` resources.
        """
        with self._database.read() as session:
            require_device(session, device_id)
            found = stored_resources.announced(session, device_id, most=most + 1)
        if len(found) > most:
            raise TooManyResources(device_id)
        return found

    def page(
        self, conditions: Sequence[Condition], *, after: str | None, descending: bool, limit: int, count: bool
    ) -> tuple[list[DirectoryEntry], int | None]:
        """Return up to ``limit + 1`` devices, and the number of all matching devices if ``count`` is set.

        The extra device shows that there is another page.
        """
        with self._database.read() as session:
            rows = devices.page(session, conditions, after=after, descending=descending, limit=limit + 1)
            return self.describe(session, rows), devices.count(session, conditions) if count else None

    def describe(self, session: Session, rows: Sequence[DeviceRow]) -> list[DirectoryEntry]:
        """Return devices of the directory, with the members that extensions add."""
        added = [describe(session, rows) for describe in self.on_describe]
        return [
            DirectoryEntry(row, dict(chain(*(each.get(row.device_id, {}).items() for each in added)))) for row in rows
        ]

    def estimated_count(self) -> int:
        """Return an estimate of the number of devices, without counting them."""
        return self._database.query(devices.estimated_count)

    def scanned_count(self, conditions: Sequence[Condition]) -> int:
        """Return an estimate of the number of devices that are read for a page."""
        return self._database.query(partial(devices.scanned_count, conditions=conditions))

    def registered(self, registration: Registration) -> Future[str]:
        """Store a full registration. The result of the future is the device id.

        The future raises :class:`NameInUse` if a device of another backend has the endpoint name.
        """

        def work(session: Session) -> str:
            row, was_registered = self._row_of(session, registration)
            devices.put(session, row)
            subscriptions.reset_device(session, row.device_id)
            stored_resources.announce(session, row.device_id, registration.resources)
            self._publish_registration(session, row, REGISTRATIONS, state_change=not was_registered)
            session.after_commit(lambda: self._contact(row.device_id))
            return row.device_id

        return self._database.submit_durable(work)

    def registration_updated(
        self,
        device_id: str,
        resources: tuple[AnnouncedResource, ...] | None = None,
        *,
        lifetime_seconds: int | None = None,
        queue_mode: bool | None = None,
    ) -> Future[None]:
        """Store an update of a registration.

        With ``None``, the resources, the lifetime or the queue mode do not change.

        The future raises :class:`NotRegistered` if the registration has ended.
        """

        def work(session: Session) -> None:
            row = devices.find(session, device_id)
            if row is None or not row.registered:
                raise NotRegistered(device_id)
            now = self._clock.now()
            row = replace(
                row,
                lifetime_seconds=row.lifetime_seconds if lifetime_seconds is None else lifetime_seconds,
                queue_mode=row.queue_mode if queue_mode is None else int(queue_mode),
            )
            devices.put_registration(session, row, now)
            devices.record_contact(session, [device_id], now)
            if resources is not None:
                stored_resources.announce(session, device_id, resources)
            self._publish_registration(session, row, REG_UPDATES, state_change=False)
            session.after_commit(lambda: self._contact(device_id))

        return self._database.submit_durable(work, conflict_keys=(device_id, logs.EVERY))

    def deregistered(self, device_id: str) -> Future[None]:
        """Store that a device deregistered, and fail its commands."""

        def work(session: Session) -> None:
            row = devices.find(session, device_id)
            if row is not None:
                devices.record_contact(session, [device_id], self._clock.now())
                self._end_registration(session, row, DE_REGISTRATIONS)
                self._commands.cancel_all(session, device_id)

        return self._database.submit_durable(work)

    def contact(self, device_id: str) -> None:
        """Record that a device can be reached, and deliver its pending commands."""
        # The transaction may run later than the contact.
        now = self._clock.now()
        self._database.submit_durable(
            lambda session: devices.record_contact(session, [device_id], now), conflict_keys=(device_id,)
        )
        self._contact(device_id)

    def observed(self, observations: Sequence[Observation]) -> Future[None]:
        """Store values that devices sent without a command."""
        # Conflict keys are needed only if other processes use the database. They cost time, and values are frequent.
        conflict_keys = {logs.EVERY, *(each.device_id for each in observations)} if self._database.is_shared else None
        return self._database.enqueue(
            self._observe, items=observations, until_stored=True, by_leader=True, conflict_keys=conflict_keys
        )

    def observation_ended(self, device_id: str, path: str) -> Future[None]:
        """Store that a device ended the observation of a resource on its own initiative."""
        return self._database.submit_durable(
            lambda session: subscriptions.observation_ended(session, device_id, path), conflict_keys=(device_id,)
        )

    def interrupt(self) -> None:
        """Let no registration expire until :meth:`resume`, because updates of registrations cannot be stored."""
        if self._interrupted_at is None:
            self._interrupted_at = self._clock.now()

    def resume(self, session: Session) -> None:
        """Let registrations expire again, after an interruption or a start of the server.

        Extensions give devices time to update their registrations. At a start, the interruption counts from the newest
        stored time, because that is when a server last ran.
        """
        since = self._interrupted_at or maintenance.newest_instant(session, self._database.storages)
        session.after_commit(self.forget_interruption)
        for notify in self.on_resumed:
            notify(session, since or self._clock.now())

    def forget_interruption(self) -> None:
        """Let registrations expire again, without notifying extensions."""
        self._interrupted_at = None

    def expire_registrations(self, session: Session) -> bool:
        """End the registrations that were not updated in time. The commands of these devices stay pending.

        Returns:
            False if registrations could not expire because of an interruption. This call may be the first work after
            the interruption.
        """
        if self._interrupted_at is not None:
            return False
        for row in devices.with_expired_registration(session, self._clock.now()):
            self._end_registration(session, row, REGISTRATIONS_EXPIRED)
        return True

    def delete_silent_since(self, session: Session, instant: Instant) -> None:
        """Delete the devices whose last contact was before the given time, and fail their commands."""
        oldest = session.setting(OLDEST_CONTACT)
        if oldest is not None and instant <= int(oldest) <= self._clock.now():
            # Contacts are only replaced by newer ones, so this does not read all devices. A time in the future is of a
            # clock that was wrong.
            return
        # The devices are deleted last, because the async responses and the listeners need their rows.
        silent = devices.silent_since(session, instant)
        for device_id in silent:
            self._commands.cancel_all(session, device_id)
        if silent:
            for listener in self._listeners.devices_deleted:
                listener(session, silent)
        for device_id in silent:
            devices.delete(session, device_id)
        contact = devices.oldest_contact(session)
        if contact is not None:
            session.put_setting(OLDEST_CONTACT, str(contact))

    def _observe(self, session: Session, observations: Sequence[Observation]) -> None:
        now = self._clock.now()
        events = list(_in_order(observations, subscriptions.subscribers(session, [each[:2] for each in observations])))
        self._subscriptions.notify(session, events)
        values = [
            (_observed_value(each, at, now, subscribers), each.changed_at, each.is_published)
            for each, at, subscribers in events
        ]
        self._listeners.report(session, values, contact_at=now)

    def _row_of(self, session: Session, registration: Registration) -> tuple[DeviceRow, bool]:
        """Return the row of the device after the registration, and whether the device was registered before."""
        existing = devices.find_by_endpoint_name(session, registration.endpoint_name)
        if existing and existing.backend != registration.backend:
            raise NameInUse(registration.endpoint_name)
        now = self._clock.now()
        row = DeviceRow(
            device_id=existing.device_id if existing else registration.device_id or uuid.uuid4().hex,
            endpoint_name=registration.endpoint_name,
            endpoint_type=registration.endpoint_type,
            registered=1,
            queue_mode=int(registration.queue_mode),
            lifetime_seconds=registration.lifetime_seconds,
            created_at=now,
            updated_at=now,
            last_contact_at=now,
            registration_expires_at=after_seconds(now, registration.lifetime_seconds),
            backend=registration.backend,
        )
        return row, bool(existing and existing.registered)

    def _publish_registration(self, session: Session, row: DeviceRow, kind: str, *, state_change: bool) -> None:
        """Apply the presubscription rules and notify the applications, after a registration or its update.

        A full registration ends single subscriptions. The log entry of each application lists the subscriptions that
        the application lost.
        """
        # First, because a subscription that a rule restores is not reported as ended.
        self._subscriptions.presubscribe(session, row.device_id)
        now = self._clock.now()
        ended = subscriptions.note_ended(session, row.device_id, now) if kind == REGISTRATIONS else {}
        event = messages.registration(
            device_id=row.device_id,
            endpoint_name=row.endpoint_name,
            endpoint_type=row.endpoint_type,
            queue_mode=bool(row.queue_mode),
            resources=[
                (resource.path, resource.resource_type, resource.content_type, resource.observable)
                for resource in stored_resources.announced(session, row.device_id)
            ],
            at=now,
        )
        own = {app_id: {"ended-subscriptions": paths} for app_id, paths in ended.items()}
        self._log.append_for_each(session, kind, row.device_id, event, own)
        self._notify_listeners(session, row, kind, now, state_change=state_change)
        session.after_commit(lambda: self._expiry_due(after_seconds(now, row.lifetime_seconds)))

    def _end_registration(self, session: Session, row: DeviceRow, kind: str) -> None:
        now = self._clock.now()
        device_id = row.device_id
        devices.put_registration(session, replace(row, registered=0), now)
        subscriptions.reset_device(session, device_id)
        event = messages.deregistration(device_id=device_id, endpoint_name=row.endpoint_name, at=now)
        self._log.append_for_each(session, kind, device_id, event)
        self._notify_listeners(session, row, kind, now, state_change=bool(row.registered))

    def _notify_listeners(
        self, session: Session, row: DeviceRow, kind: str, at: Instant, *, state_change: bool
    ) -> None:
        if self._listeners.registration_changed:
            revision = session.note_change(())
            batch = [RegistrationChange(revision, _KINDS[kind], row, at, state_change)]
            for listener in self._listeners.registration_changed:
                listener(session, batch)


def _in_order(
    observations: Iterable[Observation], subscribed: Mapping[tuple[str, str], Subscribers]
) -> Iterator[tuple[Observation, Instant, Subscribers]]:
    """Yield the observations of known devices. The times of the observations of one resource never decrease."""
    for each in observations:
        subscribers = subscribed.get(each[:2])
        if subscribers is not None:
            changed_at, last_at = each.changed_at, subscribers.changed_at
            if last_at is not None and last_at > changed_at:
                changed_at = last_at
            subscribers.changed_at = changed_at
            yield each, changed_at, subscribers


def _observed_value(
    observation: Observation, changed_at: Instant, now: Instant, subscribers: Subscribers
) -> ReceivedValue:
    # If the resource is not auto-observed, the device sent the value because of a subscription, which may have
    # ended.
    is_unsolicited = observation.is_unsolicited or subscribers.auto_observed
    origin: Origin = "auto_observation" if is_unsolicited and not subscribers.app_ids else "subscription"
    return reported_value(observation.device_id, observation.path, observation.content, now, origin, changed_at)


def _encode_for_all(encode: Encode, device: DeviceRow, resources: Sequence[ResourceRow]) -> _CachedObject:
    """Encode a device for all applications, and separately for each application that has a failed write.

    Only the objects of these applications include the error category.
    """

    def encoded(app_id: str | None) -> EncodedObject:
        content = encode(device, resources, app_id)
        return EncodedObject(content, hashlib.blake2b(content, digest_size=16).hexdigest())

    # If the submitter of a failed write is unknown, no application receives the error category.
    issuers = {resource.desired_app_id for resource in resources if resource.desired_category is not None} - {None}
    for_issuers = {str(app_id): encoded(app_id) for app_id in issuers}
    return _CachedObject(encoded(None), for_issuers, device.revision)


def require_device(session: Session, device_id: str) -> DeviceRow:
    """Return the device with this id.

    Raises:
        ApiError: No device has this id (404).
    """
    row = devices.find(session, device_id)
    if row is None:
        raise unknown_device(device_id)
    return row
