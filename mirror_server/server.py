"""The server, which builds the core on a database, loads the extensions, and starts and stops both."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from mirror_server.clock import Clock, ManualClock, SystemClock, wall_time
from mirror_server.config import Settings
from mirror_server.core.timestamps import Instant, after_seconds, to_datetime
from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.dispatch import Dispatcher, Job
from mirror_server.devices.interface import DeviceResponse
from mirror_server.hooks import Extensions, Measurement
from mirror_server.notifications.channels import Channels, PlainPolls
from mirror_server.notifications.log import NotificationLog
from mirror_server.notifications.webhooks import Webhooks
from mirror_server.service.commands import CommandService
from mirror_server.service.devices import DeviceService
from mirror_server.service.housekeeping import Housekeeping
from mirror_server.service.slow_reads import Slots, SlowReadPool
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store import logs, maintenance
from mirror_server.store.change_listeners import Listeners
from mirror_server.store.database import Database, location_of
from mirror_server.store.session import AGAIN, CLOCK, EXPIRY, EXTENSIONS, LOG, MANUAL_CLOCK, WAITING, Session

T = TypeVar("T")
Measure = Callable[[], Iterable[Measurement]]

_log = logging.getLogger(__name__)

_CLOCKS_DIFFER_SECONDS = 60
_MANUAL_CLOCK_BEGINS_AT: Instant = 1_767_600_000_000
"""The time of a manual clock in a new database: 2026-01-05T08:00:00Z, a Monday morning."""


class Coordinator:
    """The coordinator of the processes that serve one database.

    In the core only one process serves a database, and this process is the leader. If a type of database supports
    several processes, its location names another coordinator class. Methods of that class may be hooks.

    Args:
        services: The server. Only its database, its settings and its extensions exist at this time.

    Attributes:
        forward: A function that returns the leader's response to the current request, or ``None`` if this process is
            the leader. Its arguments are the WSGI environment and whether the request is a poll. The attribute is
            ``None`` if no other process can be the leader.

    Raises:
        DatabaseError: A process that is incompatible with this one serves the database.
    """

    forward: Callable[..., Any] | None = None

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader, as far as it knows. The leader serves the devices and the channels."""
        return True

    def join(self) -> None:
        """Join the other processes. The server calls this method after its parts have been built."""

    def start(self) -> None:
        """Make this process the leader, unless another process is the leader.

        Raises:
            DatabaseError: The database does not respond.
        """
        self._services.become_leader()

    def respond_with(self, app: Any) -> None:
        """Use a WSGI app to respond to requests that other processes forward while this process is the leader."""

    def is_alive(self, process_id: str) -> bool:  # noqa: ARG002 - there is no other
        """Return whether another process still runs."""
        return False

    def stop(self) -> None:
        """Leave the group of processes. No other process becomes the leader before :meth:`close`."""

    def close(self) -> None:
        """Allow another process to become the leader."""


class Services:
    """All parts of one server on one database.

    Args:
        settings: The settings of the server.

    Attributes:
        settings: The settings of the server. ``settings.of(ItsSettings)`` returns the settings of an extension.
        extensions: The loaded extensions. ``extensions.hook`` calls their hooks.
        database: The database. Its methods ``query`` and ``read`` read, ``submit`` and ``write`` change data.
        clock: The clock of the server, with the methods ``now`` and ``call_at``. It may be a manual clock.
        devices: The service that stores registrations and reported values, and reads device objects.
        commands: The service that accepts requests to devices and stores their responses.
        subscriptions: The service for subscriptions and presubscription rules.
        log: The notification logs of all applications.
        channels: The types of notification channels.
        polls: The open plain polls and their positions.
        webhooks: The sender of notifications to webhooks.
        backends: The device backends. An extension adds one with ``backends.add``.
        dispatcher: The dispatcher, which sends pending commands to devices.
        coordinator: The coordinator of the processes that serve the database.
        slow_reads: The pool of threads for slow reads of views.
        download_slots: The slots that limit how many snapshots and histories are sent at the same time.
        gauges: Functions that return the metrics of the web server.
        accepts_upgrades: Whether some process that serves this database might accept protocols other than HTTP.
        device_request_hooks: The implementations of the hook :func:`mirror_server.hooks.device_request`.

    Raises:
        DatabaseError: The database cannot be used.
        CannotServe: An extension is missing, or it does not work with these settings.
    """

    def __init__(self, settings: Settings) -> None:
        self.extensions = Extensions(settings.without)
        self.extensions.check(settings)
        self.settings = settings
        self.accepts_upgrades = True
        self.backends = DeviceBackends()
        self._parts: list[object] = []
        self.extensions.hook.check_settings(settings=settings)
        with ExitStack() as undo:
            location = location_of(settings.database_url)
            # Before the database is opened, because opening it may upgrade its schema.
            self._stop_serving = location.begin_serving()
            undo.callback(self._stop_serving)
            self.database = Database(settings.database_url, self.extensions.storages)
            undo.callback(self.database.close)
            kind = Coordinator if location.coordinator is None else pkgutil.resolve_name(location.coordinator)
            self.coordinator: Coordinator = kind(self)
            undo.pop_all()
        self.clock = _clock(settings, self.database)
        self.log = NotificationLog(
            self.database,
            self.clock,
            max_bytes=settings.keep_log_bytes,
            is_shared=self.database.is_shared,
            is_leader=self.is_leader,
        )
        self.channels = Channels(self.database)
        self.polls = PlainPolls(self.database, self.log, self.channels, is_alive=self.coordinator.is_alive)
        self.webhooks = Webhooks(self.database, self.clock, self.log, self.channels, settings.callback_networks)
        self.dispatcher = Dispatcher(
            database=self.database,
            clock=self.clock,
            backends=self.backends,
            finish=self._finish,
            answer_timeout_seconds=settings.answer_timeout_seconds,
        )
        self._listeners = Listeners()
        self.commands = CommandService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            listeners=self._listeners,
            in_flight=self.dispatcher.in_flight,
            split_instance=self.backends.split_instance,
        )
        self.subscriptions = SubscriptionService(self.database, self.clock, self.log, self._listeners)
        self.devices = DeviceService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            listeners=self._listeners,
            commands=self.commands,
            subscriptions=self.subscriptions,
            contact=self.dispatcher.contact,
            expiry_due=lambda at: self._housekeeping.registrations.at_latest(at),  # noqa: PLW0108 - made below
        )
        self._probe: Future[None] | None = None
        self.download_slots = Slots.of_downloads(settings.poll_share)
        self.slow_reads = SlowReadPool(settings.poll_share)
        self._housekeeping = Housekeeping(
            database=self.database,
            clock=self.clock,
            command_service=self.commands,
            device_service=self.devices,
            keep_log_seconds=settings.keep_log_seconds,
            every_hour=lambda now: self.extensions.hook.every_hour(now=now),
        )
        self.coordinator.join()
        self.database.interrupted, self.database.resumed = self._interrupted, self._resumed
        self.gauges: list[Measure] = []
        try:
            self._build_extensions()
            self._handle_signals()
        # The parts have already started threads.
        except BaseException:
            self.close()
            raise

    def _build_extensions(self) -> None:
        self._parts.append(self.coordinator)
        # pluggy returns the results in reverse order of registration.
        for built in reversed(self.extensions.hook.build(services=self)):
            self._parts += built
        for part in self._parts:
            self.extensions.add(part)
        for hook in ("values_reported", "write_finished", "registration_changed", "devices_deleted"):
            getattr(self._listeners, hook).extend(self.extensions.implementations(hook))
        self.devices.on_resumed.extend(self.extensions.implementations("resumed"))
        self.devices.on_describe.extend(self.extensions.implementations("describe_devices"))
        self.log.on_responses.extend(self.extensions.implementations("responses_added"))
        self.device_request_hooks = self.extensions.implementations("device_request")

    def measurements(self) -> list[Iterable[Measurement]]:
        """Return the current metrics of the web server and of all extensions."""
        return [*(measure() for measure in self.gauges), *self.extensions.hook.measurements()]

    def announcements(self, url: str, key: str | None) -> list[str]:
        """Return the lines that a serving command prints for the extensions."""
        return list(chain(*self.extensions.hook.announcements(services=self, url=url, key=key)))

    def part(self, kind: type[T]) -> T:
        """Return the object of a class that an extension built for this server.

        Raises:
            LookupError: No extension built an object of this class.
        """
        for part in self._parts:
            if isinstance(part, kind):
                return part
        raise LookupError(f"no extension built a {kind.__name__}")

    def start(self) -> None:
        """Start the server. It becomes the leader unless another process is the leader.

        Raises:
            DatabaseError: The database does not respond.
        """
        _log.info("extensions: %s", ", ".join(self.extensions.names) or "none")
        for name, reason in self.extensions.left_out.items():
            _log.info("the extension %s is not loaded: %s", name, reason)
        self.coordinator.start()
        self.database.settle()
        self.extensions.hook.started()

    def become_leader(self) -> None:
        """Become the leader: run overdue work, connect the devices, and deliver pending commands and notifications."""
        # Another process may have been the leader since an interruption.
        self.devices.forget_interruption()
        # First, because later writes change the newest stored time, which shows when a server last ran.
        self.database.submit_durable(self.devices.resume)
        self.database.submit_durable(maintenance.forget_newest_contact)
        # Wall time, because a manual clock starts at the same instant in each new database.
        self.database.submit_durable(partial(maintenance.initialize_revisions, at=wall_time()))
        self.extensions.hook.lead()
        self.database.submit_durable(self._store_own_settings)
        # Before devices receive commands, because their new attempts would look interrupted.
        self.database.submit_durable(self.commands.end_interrupted)
        self._housekeeping.start()
        self.extensions.hook.connect_devices()
        self.dispatcher.wake_all()
        self.webhooks.start()

    def _store_own_settings(self, session: Session) -> None:
        """Store which extensions and which clock the leader uses."""
        session.put_setting(EXTENSIONS, " ".join(self.extensions.names))
        session.put_setting(CLOCK, "manual" if self.clock.is_manual else "system")
        if self.clock.is_manual:
            # Stored now, because the clock may never be advanced, and commands of mirror-server read this setting.
            session.put_setting(MANUAL_CLOCK, str(self.clock.now()))

    def pause_leading(self) -> None:
        """Do not start new work of the leader until the processes have determined which of them is the leader."""
        self._interrupted()
        self.webhooks.stop()

    def resume_leading(self) -> None:
        """Continue as the leader after confirming that no other process became the leader in between."""
        self._resumed()
        self.webhooks.start()

    def stop_leading(self) -> None:
        """Discard all work in flight, because another process has become the leader."""
        self.extensions.hook.disconnect_devices()
        self.extensions.hook.resign()
        self._housekeeping.stop()
        self.dispatcher.forget()
        self.webhooks.stop()
        self.polls.forget()
        # The new leader needs the read positions.
        self.log.store_read()

    def resync(self) -> None:
        """Check everything that other processes signal, because this process may have missed some signals."""
        self.log.wake_all()
        self.extensions.hook.resync()
        if self.is_leader():
            self.dispatcher.wake_all()
            self._housekeeping.expire_commands()

    def close(self) -> None:
        """Stop the server.

        Accepted requests are stored on disk, and pending work continues at the next start.
        """
        # First, so that no timer starts new work.
        self.clock.close()
        self.coordinator.stop()
        self.webhooks.close()
        self.slow_reads.close()
        for hook in ("disconnect_devices", "resign", "stop"):
            getattr(self.extensions.hook, hook)()
        self.log.store_read()
        self.database.submit_durable(maintenance.store_newest_contact)
        self.coordinator.close()
        self.database.close()
        # Last, because releasing the lock on the file ends SQLite's own locks too.
        self._stop_serving()

    def _interrupted(self) -> None:
        """Prevent registrations from expiring while nothing can be stored.

        In the meantime, devices cannot renew their registrations.
        """
        self.devices.interrupt()
        self.extensions.hook.interrupted()

    def _resumed(self) -> None:
        """Let registrations expire again, after devices have had time to renew them."""

        def work(session: Session) -> None:
            self.devices.resume(session)
            session.after_commit(self._housekeeping.expire_registrations)

        self.database.submit_durable(work)

    def probe(self) -> Future[None]:
        """Write a test record to check the disk, and return a future that raises the error of the write.

        Concurrent calls share one write, because requests without a key can trigger it.
        """
        if self._probe is None or self._probe.done():
            self._probe = self.database.submit(Session.probe)
        return self._probe

    def is_leader(self) -> bool:
        """Return whether this process is the leader, which serves the devices and the channels."""
        return self.coordinator.is_leader

    def _handle_signals(self) -> None:
        on = self.database.on
        on(LOG, self.log.wake)
        on(AGAIN, self.dispatcher.contact)
        on(EXPIRY, self._commands_expire)
        # Last, after the signals of extensions that release held commands.
        on(WAITING, self.dispatcher.wake)

    def _commands_expire(self, *instants: str) -> None:
        if self.is_leader():
            self._housekeeping.commands.at_latest(min(map(int, instants)))

    def _finish(self, job: Job, response: DeviceResponse | None) -> Future[None]:
        conflict_keys = (job.device_id, logs.EVERY)
        if job.request is not None:
            return self.database.enqueue(
                self.commands.finish,
                items=[(job.request, response)],
                until_stored=True,
                by_leader=True,
                conflict_keys=conflict_keys,
            )
        return self.database.submit_durable(
            lambda session: self.subscriptions.finish(session, job, response), conflict_keys=conflict_keys
        )


def _clock(settings: Settings, database: Database) -> Clock:
    with database.read() as session:
        stored = session.setting(MANUAL_CLOCK)
        newest = maintenance.newest_instant(session, database.storages)
    if settings.manual_clock:
        # The database may have been served with the wall clock before, and time must not go back.
        return ManualClock(max(int(stored or _MANUAL_CLOCK_BEGINS_AT), newest or 0))
    clock = SystemClock(newest_stored_at=newest)
    if newest is not None and newest > after_seconds(clock.now(), _CLOCKS_DIFFER_SECONDS):
        _log.warning(
            "the newest time in the database, %s, is in the future. The system clock is slow, or the clock was fast"
            " when that time was stored. See 'mirror-server help clocks'",
            to_datetime(newest).isoformat(timespec="seconds"),
        )
    return clock
