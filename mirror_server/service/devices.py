"""What devices do, and what the mirror shows of them. Source: specification 2, 3.2, 3.3; wire.md 1 and 6."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from mirror_sdk.wire.device_object import Origin
from mirror_server.clock import Clock
from mirror_server.core import messages
from mirror_server.core.errors import unknown_device
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.core.messages import DE_REGISTRATIONS, REG_UPDATES, REGISTRATIONS, REGISTRATIONS_EXPIRED
from mirror_server.devices.link import NameTaken, NotRegistered, Observation, Registration
from mirror_server.notifications.log import NotificationLog
from mirror_server.service.commands import CommandService, reported_value
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store import devices, logs, maintenance, subscriptions
from mirror_server.store import resources as stored_resources
from mirror_server.store.changes import Listeners, RegistrationChange, RegistrationKind
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.resources import AnnouncedResource, ReceivedValue, ResourceRow
from mirror_server.store.session import Session, Subscribers

_MOST_BYTES = 64 * 1024 * 1024

Cached = TypeVar("Cached", bound=Sized)

_KINDS: Mapping[str, RegistrationKind] = {
    REGISTRATIONS: "registration",
    REG_UPDATES: "reg_update",
    DE_REGISTRATIONS: "deregistration",
    REGISTRATIONS_EXPIRED: "expired",
}
"""What the listeners call it."""


class LruCache(Generic[Cached]):
    """A cache with a bound in bytes; what was not used for the longest time goes first.

    Args:
        most_bytes: How much is held.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._held: OrderedDict[Hashable, Cached] = OrderedDict()
        self._held_bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Cached | None:
        """What is held under the key."""
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Hashable, encoded: Cached) -> None:
        """Hold it."""
        with self._lock:
            replaced = self._held.pop(key, None)
            self._held_bytes += len(encoded) - (0 if replaced is None else len(replaced))
            self._held[key] = encoded
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= len(self._held.popitem(last=False)[1])


class EncodedObject(NamedTuple):
    """What E1 tells of a device, encoded, and a tag of it: two of the same content have the same tag."""

    content: bytes
    tag: str


Encode = Callable[[DeviceRow, Sequence[ResourceRow], str | None], bytes]
"""Encodes a device as it is told to an application, ``None`` for one that placed no write there that failed."""


class DirectoryEntry(NamedTuple):
    """A device of the directory, and what extensions tell of it."""

    device: DeviceRow
    members: dict[str, Any]


@dataclass(slots=True)
class _CachedObject:
    """A device object as applications get it, and when it was known to be current.

    Attributes:
        for_others: The object for all applications but those of ``for_issuers``.
        for_issuers: The object for each application whose write failed, with the reason.
        revision: The revision of the device.
        version: The version of the database at which this was the device's newest revision.
        as_of: The number of the mirror's last change at that time.
    """

    for_others: EncodedObject
    for_issuers: Mapping[str, EncodedObject]
    revision: int
    version: Hashable | None = None
    as_of: int | None = None

    def __len__(self) -> int:
        return sum(len(encoded.content) for encoded in (self.for_others, *self.for_issuers.values()))


class TooManyResources(Exception):
    """A device has more resources than are to be read now; its id is the argument."""


class DeviceService:
    """Stores what devices do, and reads the mirror.

    Device connections call :meth:`registered`, :meth:`registration_updated`, :meth:`deregistered`, :meth:`contact`,
    :meth:`observed` and :meth:`observation_ended`. A future of these is done when the change is on disk.

    Args:
        database: Where the mirror is.
        clock: Domain time.
        log: Where registration events go.
        listeners: Called with registrations, reported values and deleted devices.
        commands: Ends the commands of a device that leaves.
        subscriptions: Applies presubscription rules.
        contact: Called with the id of a device that can be reached.
        expiry_due: Called with the instant at which a registration ends unless it is updated.

    Attributes:
        on_resumed: Called in a transaction when devices can again, at each start too, with the instant since when they
            could not; before any registration ends.
        on_describe: Called in the transaction that reads devices of the directory, for more members of them, by id.
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
        """A device and all its resources, as of one instant, encoded; what has not changed since is not encoded again.

        Args:
            app_id: The application it is told to. Why a write failed is told to the one that placed it, and to no
                other; see specification 3.1 and 7.
            device_id: The device.
            encode: Encodes it.
            version: That of the database, asked for since the request came.
            most: How many resources are read and encoded at most.

        Raises:
            ApiError: There is no such device (404).
            TooManyResources: It has more, which would have to be read and encoded.
        """
        cached = self._cache.get(device_id)
        if cached is None or version is None or cached.version != version:
            # Before the device is read, so that later changes count as changes since.
            as_of = self._last_change_at(version)
            if cached is None or not self._is_unchanged(device_id, cached.as_of, as_of):
                known_revision = devices.NO_REVISION if cached is None else cached.revision
                found = self._database.query(
                    lambda session: devices.object_of(session, device_id, most=most + 1, known_revision=known_revision)
                )
                if found is None:
                    raise unknown_device(device_id)
                if len(found[1]) > most:
                    raise TooManyResources(device_id)
                if cached is None or found[0].revision != known_revision:
                    cached = _encode_for_all(encode, *found)
                    self._cache.put(device_id, cached)
            cached.version, cached.as_of = version, as_of
        return cached.for_issuers.get(app_id, cached.for_others)

    def _is_unchanged(self, device_id: str, since: int | None, until: int | None) -> bool:
        """Whether a device did not change after one change up to another, as far as this process knows."""
        return since is not None and until is not None and self._database.changes.is_unchanged(device_id, since, until)

    def _last_change_at(self, version: Hashable | None) -> int | None:
        """Return the number of the mirror's last change, read once for each version of the database.

        ``None`` where other processes change devices too, whose changes this one does not know.
        """
        if version is None or self._database.is_shared:
            return None
        seen = self._last_change
        if seen is None or seen[0] != version:
            seen = self._last_change = version, self._database.query(Session.last_revision)
        return seen[1]

    def described(self, device_id: str) -> DirectoryEntry:
        """A device of the directory, with what extensions tell of it.

        Raises:
            ApiError: There is no such device (404).
        """
        with self._database.read() as session:
            return self.describe(session, [require_device(session, device_id)])[0]

    def device(self, device_id: str) -> DeviceRow:
        """A device of the directory.

        Raises:
            ApiError: There is no such device (404).
        """
        return self._database.query(lambda session: require_device(session, device_id))

    def announced(self, device_id: str, *, most: int = stored_resources.NO_LIMIT - 1) -> list[AnnouncedResource]:
        """The resources a device has now.

        Raises:
            ApiError: There is no such device (404).
            TooManyResources: It has more than ``most``.
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
        """Up to ``limit + 1`` devices of the directory (one more tells that there is more), and their number."""
        with self._database.read() as session:
            rows = devices.page(session, conditions, after=after, descending=descending, limit=limit + 1)
            return self.describe(session, rows), devices.count(session, conditions) if count else None

    def describe(self, session: Session, rows: Sequence[DeviceRow]) -> list[DirectoryEntry]:
        """Devices of the directory, with what extensions tell of them."""
        told = [describe(session, rows) for describe in self.on_describe]
        return [
            DirectoryEntry(row, dict(chain(*(each.get(row.device_id, {}).items() for each in told)))) for row in rows
        ]

    def estimated_count(self) -> int:
        """Return about how many devices the directory has, an estimate that takes no time."""
        return self._database.query(devices.estimated_count)

    def registered(self, registration: Registration) -> Future[str]:
        """A device made a full registration; the future has its device id.

        The future raises :class:`NameTaken` where a device of another backend has the name.
        """

        def work(session: Session) -> str:
            row, was_registered = self._row_of(session, registration)
            devices.put(session, row)
            subscriptions.reset_device(session, row.device_id)
            stored_resources.announce(session, row.device_id, registration.resources)
            self._announced(session, row, REGISTRATIONS, state_change=not was_registered)
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
        """A device updated its registration; what is ``None`` stays: its structure, lifetime and queue mode.

        The future raises :class:`NotRegistered` for a device whose registration ended.
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
            self._announced(session, row, REG_UPDATES, state_change=False)
            session.after_commit(lambda: self._contact(device_id))

        return self._database.submit_durable(work, conflict_keys=(device_id, logs.EVERY))

    def deregistered(self, device_id: str) -> Future[None]:
        """A device left."""

        def work(session: Session) -> None:
            row = devices.find(session, device_id)
            if row is not None:
                devices.record_contact(session, [device_id], self._clock.now())
                self._end_registration(session, row, DE_REGISTRATIONS)
                self._commands.cancel_all(session, device_id)

        return self._database.submit_durable(work)

    def contact(self, device_id: str) -> None:
        """A device can be reached from now on: what waits for it is delivered."""
        now = self._clock.now()
        self._database.submit_durable(
            lambda session: devices.record_contact(session, [device_id], now), conflict_keys=(device_id,)
        )
        self._contact(device_id)

    def observed(self, observations: Sequence[Observation]) -> Future[None]:
        """Values came from devices without a command."""
        # Where nobody else writes it is alone in any case, and thousands come in a second.
        conflict_keys = {logs.EVERY, *(each.device_id for each in observations)} if self._database.is_shared else None
        return self._database.enqueue(
            self._observe, items=observations, until_stored=True, by_leader=True, conflict_keys=conflict_keys
        )

    def observation_ended(self, device_id: str, path: str) -> Future[None]:
        """A device ended the observation of a resource by itself."""
        return self._database.submit_durable(
            lambda session: subscriptions.observation_ended(session, device_id, path), conflict_keys=(device_id,)
        )

    def interrupt(self) -> None:
        """Nothing can be stored, so devices cannot update their registrations: end none until :meth:`resume`."""
        if self._interrupted_at is None:
            self._interrupted_at = self._clock.now()

    def resume(self, session: Session) -> None:
        """Storing works again after an interruption or a start: registrations end in time again.

        Extensions give devices the time to update theirs. Before a start, the server last ran when it last stored
        something.
        """
        since = self._interrupted_at or maintenance.newest_instant(session, self._database.storages)
        session.after_commit(self.forget_interruption)
        for tell in self.on_resumed:
            tell(session, since or self._clock.now())

    def forget_interruption(self) -> None:
        """End registrations in time again."""
        self._interrupted_at = None

    def expire_registrations(self, session: Session) -> bool:
        """End the registrations that were not updated in time; commands go on waiting.

        Returns:
            False during an interruption, which this may be the first work after: nothing ends then.
        """
        if self._interrupted_at is not None:
            return False
        for row in devices.with_expired_registration(session, self._clock.now()):
            self._end_registration(session, row, REGISTRATIONS_EXPIRED)
        return True

    def delete_silent_since(self, session: Session, instant: Instant) -> None:
        """Delete the devices whose last connection was before the instant; what waits for them ends first."""
        silent = devices.silent_since(session, instant)
        for device_id in silent:
            self._commands.cancel_all(session, device_id)
        if silent:
            for listener in self._listeners.devices_deleted:
                listener(session, silent)
        for device_id in silent:
            devices.delete(session, device_id)

    def _observe(self, session: Session, observations: Sequence[Observation]) -> None:
        now = self._clock.now()
        told = list(_in_order(observations, subscriptions.subscribers(session, [each[:2] for each in observations])))
        self._subscriptions.notify(session, told)
        values = [
            (_observed_value(each, at, now, subscribers), each.changed_at, each.is_published)
            for each, at, subscribers in told
        ]
        self._listeners.report(session, values, contact_at=now)

    def _row_of(self, session: Session, registration: Registration) -> tuple[DeviceRow, bool]:
        """The device as it is from now on, and whether it was registered before."""
        known = devices.find_by_endpoint_name(session, registration.endpoint_name)
        if known and known.backend != registration.backend:
            raise NameTaken(registration.endpoint_name)
        now = self._clock.now()
        row = DeviceRow(
            device_id=known.device_id if known else registration.device_id or uuid.uuid4().hex,
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
        return row, bool(known and known.registered)

    def _announced(self, session: Session, row: DeviceRow, kind: str, *, state_change: bool) -> None:
        """What a registration and its update have in common: rules are checked, and applications are told.

        A full registration ends single subscriptions, of which each application hears in its own entry.
        """
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
        self._tell_listeners(session, row, kind, now, state_change=state_change)
        session.after_commit(lambda: self._expiry_due(after_seconds(now, row.lifetime_seconds)))

    def _end_registration(self, session: Session, row: DeviceRow, kind: str) -> None:
        now = self._clock.now()
        device_id = row.device_id
        devices.put_registration(session, replace(row, registered=0), now)
        subscriptions.reset_device(session, device_id)
        event = messages.leaving(device_id=device_id, endpoint_name=row.endpoint_name, at=now)
        self._log.append_for_each(session, kind, device_id, event)
        self._tell_listeners(session, row, kind, now, state_change=bool(row.registered))

    def _tell_listeners(self, session: Session, row: DeviceRow, kind: str, at: Instant, *, state_change: bool) -> None:
        if self._listeners.registration_changed:
            revision = session.note_change(())
            batch = [RegistrationChange(revision, _KINDS[kind], row, at, state_change)]
            for listener in self._listeners.registration_changed:
                listener(session, batch)


def _in_order(
    observations: Iterable[Observation], subscribed: Mapping[tuple[str, str], Subscribers]
) -> Iterator[tuple[Observation, Instant, Subscribers]]:
    """What came from devices that are known; no time told of a resource is before the one that was told last."""
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
    # What is not auto-observed was sent because of a subscription, be it one that has ended meanwhile.
    is_unsolicited = observation.is_unsolicited or subscribers.auto_observed
    origin: Origin = "auto_observation" if is_unsolicited and not subscribers.app_ids else "subscription"
    return reported_value(observation.device_id, observation.path, observation.content, now, origin, changed_at)


def _encode_for_all(encode: Encode, device: DeviceRow, resources: Sequence[ResourceRow]) -> _CachedObject:
    """Encode a device once, and once more for each application that gets the reason why its own write failed."""

    def encoded(app_id: str | None) -> EncodedObject:
        content = encode(device, resources, app_id)
        return EncodedObject(content, hashlib.blake2b(content, digest_size=16).hexdigest())

    issuers = {resource.desired_app_id for resource in resources if resource.desired_category is not None} - {None}
    for_issuers = {str(app_id): encoded(app_id) for app_id in issuers}
    return _CachedObject(encoded(None), for_issuers, device.revision)


def require_device(session: Session, device_id: str) -> DeviceRow:
    """The device with this id.

    Raises:
        ApiError: There is none (404).
    """
    row = devices.find(session, device_id)
    if row is None:
        raise unknown_device(device_id)
    return row
