"""Puts the parts of a server together."""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import TypeVar

from mirror_server.clock import Clock, ManualClock, SystemClock, wall_time
from mirror_server.config import Settings
from mirror_server.coordinator import Coordinator
from mirror_server.core.commands import Command
from mirror_server.core.instants import Instant, after_seconds, to_datetime
from mirror_server.devices.backends import DeviceBackends
from mirror_server.devices.dispatch import Dispatcher, Job
from mirror_server.devices.link import Answer
from mirror_server.hooks import Extensions, Measurement
from mirror_server.notifications.channels import Channels
from mirror_server.notifications.log import NotificationLog
from mirror_server.notifications.outbound import AddressPolicy
from mirror_server.notifications.polls import PlainPolls
from mirror_server.notifications.webhooks import Webhooks
from mirror_server.service.commands import CommandService
from mirror_server.service.devices import DeviceService
from mirror_server.service.housekeeping import Housekeeping
from mirror_server.service.long_reads import LongReads
from mirror_server.service.readiness import Readiness
from mirror_server.service.slots import Slots
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.store import logs, maintenance
from mirror_server.store.changes import Listeners
from mirror_server.store.database import Database, location_of
from mirror_server.store.session import AGAIN, EXPIRY, EXTENSIONS, LOG, MANUAL_CLOCK, WAITING, Session

T = TypeVar("T")
Measure = Callable[[], Iterable[Measurement]]

_log = logging.getLogger(__name__)

_CLOCKS_DIFFER_SECONDS = 60
_MANUAL_CLOCK_BEGINS_AT: Instant = 1_767_600_000_000
"""2026-01-05T08:00:00Z, a Monday morning: where a manual clock stands in a new database."""


class Services:
    """All parts of one server, on one database.

    Args:
        settings: What the operator set.

    Attributes:
        gauges: Measure what serves the app.
        takes_upgrades: Whether some process that serves this database may take other protocols than HTTP.
        backends: The kinds of device connections there are.
        dispatcher: Sends devices what waits for them.
        device_request_hooks: See :func:`mirror_server.hooks.device_request`.

    Raises:
        DatabaseError: The database cannot be used.
        CannotServe: An extension is missing, or not possible as the settings say.
    """

    def __init__(self, settings: Settings) -> None:
        self.extensions = Extensions(settings.without)
        self.extensions.check(settings)
        self.settings = settings
        self.takes_upgrades = True
        self.backends = DeviceBackends()
        self._parts: list[object] = []
        self.extensions.hook.check_settings(settings=settings)
        with ExitStack() as undo:
            location = location_of(settings.database_url)
            self._let_others_serve = location.begin_serving()
            undo.callback(self._let_others_serve)
            self.database = Database(settings.database_url, self.extensions.storages)
            undo.callback(self.database.close)
            in_common = self.extensions.hook.in_common(settings=settings)
            self.coordinator = _coordinator(location.coordinator, settings, self.database, in_common)
            undo.pop_all()
        self.clock = _clock(settings, self.database)
        self._listeners = Listeners()
        self.log = self._make_log()
        self.channels = Channels(self.database)
        self.polls = PlainPolls(self.database, self.log, self.channels, is_alive=self.coordinator.is_alive)
        policy = AddressPolicy(settings.callback_networks)
        self.webhooks = Webhooks(self.database, self.clock, self.log, self.channels, policy)
        self.commands = self._make_commands()
        self.subscriptions = SubscriptionService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            listeners=self._listeners,
        )
        self.devices = self._make_devices()
        self.readiness = Readiness(self.database)
        self.download_slots = Slots.of_downloads(settings.poll_share)
        self.long_reads = LongReads(settings.poll_share)
        self._housekeeping = self._make_housekeeping()
        self.dispatcher = self._make_dispatcher()
        self.coordinator.join(self, self.clock)
        self.database.on_interruption(self._interrupted, self._resumed)
        self.gauges: list[Measure] = []
        try:
            self._build_extensions()
            self._handle_signals()
        except BaseException:
            self.close()
            raise

    def _build_extensions(self) -> None:
        self._parts.append(self.coordinator)
        for built in reversed(self.extensions.hook.build(services=self)):
            self._parts += built
        for part in self._parts:
            self.extensions.add(part)
        for hook in ("values_reported", "write_finished", "registration_changed", "devices_deleted"):
            getattr(self._listeners, hook).extend(self.extensions.collected(hook))
        self.devices.on_resumed.extend(self.extensions.collected("resumed"))
        self.devices.on_described.extend(self.extensions.collected("describe_devices"))
        self.log.on_responses.extend(self.extensions.collected("responses_added"))
        self.device_request_hooks = self.extensions.collected("device_request")

    def measurements(self) -> list[Iterable[Measurement]]:
        """Metrics as they are now: of who serves, and of extensions."""
        return [*(measure() for measure in self.gauges), *self.extensions.hook.measurements()]

    def announcements(self, url: str, key: str | None) -> list[str]:
        """What a command that serves prints of extensions."""
        return list(chain(*self.extensions.hook.announcements(services=self, url=url, key=key)))

    def part(self, kind: type[T]) -> T:
        """What an extension built for this server, by its class.

        Raises:
            LookupError: None did.
        """
        for part in self._parts:
            if isinstance(part, kind):
                return part
        raise LookupError(f"no extension built a {kind.__name__}")

    def start(self) -> None:
        """Begin, and lead unless another process does.

        Raises:
            DatabaseError: The database does not answer any more.
        """
        _log.info("extensions: %s", ", ".join(self.extensions.names) or "none")
        for name, why in self.extensions.left_out.items():
            _log.info("without the extension %s: %s", name, why)
        self.coordinator.start()
        self.database.settle()
        self.extensions.hook.started()

    def begin_to_lead(self) -> None:
        """Look after what became due meanwhile, bring up the devices, deliver what waits."""
        # Another process may have led since an interruption.
        self.devices.forget_interruption()
        # First, while what is stored tells when a service was there last.
        self.database.insist(self.devices.begin)
        # A manual clock begins at the same instant in each new database.
        self.database.insist(partial(maintenance.begin_counting, at=wall_time()))
        self.extensions.hook.lead()
        names = " ".join(self.extensions.names)
        self.database.insist(partial(Session.put_setting, name=EXTENSIONS, value=names))
        self.database.insist(self.commands.end_interrupted)
        self._housekeeping.start()
        self.extensions.hook.connect_devices()
        self.dispatcher.wake_all()
        self.webhooks.start()

    def pause_leading(self) -> None:
        """See :class:`mirror_server.coordinator.Participant`."""
        self._interrupted()
        self.webhooks.stop()

    def go_on_leading(self) -> None:
        """See :class:`mirror_server.coordinator.Participant`."""
        self._resumed()
        self.webhooks.start()

    def stop_leading(self) -> None:
        """See :class:`mirror_server.coordinator.Participant`."""
        self.extensions.hook.disconnect_devices()
        self.extensions.hook.resign()
        self._housekeeping.stop()
        self.dispatcher.forget()
        self.webhooks.stop()
        self.polls.forget()
        # Whoever leads now has to know.
        self.log.store_read()

    def catch_up(self) -> None:
        """See :class:`mirror_server.coordinator.Participant`."""
        self.log.wake_all()
        self.extensions.hook.caught_up()
        if self.is_leader():
            self.dispatcher.wake_all()
            self._housekeeping.look_at_commands()

    def close(self) -> None:
        """Stop; what was accepted is on disk, and what waits goes on at the next start."""
        self.clock.close()
        self.coordinator.stop()
        self.webhooks.close()
        self.long_reads.close()
        for hook in ("disconnect_devices", "resign", "stop"):
            getattr(self.extensions.hook, hook)()
        self.log.store_read()
        self.coordinator.close()
        self.database.close()
        self._let_others_serve()

    def _interrupted(self) -> None:
        """Nothing can be stored: end no registration, for no device can update its own."""
        self.devices.interrupt()
        self.extensions.hook.interrupted()

    def _resumed(self) -> None:
        """Storing works again: leave devices the time to update their registrations."""

        def work(session: Session) -> None:
            self.devices.resume(session)
            session.after_commit(self._housekeeping.look_at_registrations)

        self.database.insist(work)

    def is_leader(self) -> bool:
        """Whether this process leads: it holds the devices and channels. Of several on one database, one does."""
        return self.coordinator.is_leader

    def clock_advanced(self) -> None:
        """Do what a manual clock gives no sign of by itself."""
        self.extensions.hook.clock_advanced()

    def wake_all(self) -> None:
        """Send what waits for devices that can be reached."""
        self.dispatcher.wake_all()

    def _contact(self, device_id: str) -> None:
        self.dispatcher.contact(device_id)

    def _handle_signals(self) -> None:
        on = self.database.on
        on(LOG, self.log.wake)
        on(AGAIN, self.dispatcher.contact)
        on(EXPIRY, self._commands_expire)
        # Last, behind those of extensions that say what a device may be sent.
        on(WAITING, self.dispatcher.wake)

    def _commands_expire(self, *instants: str) -> None:
        if self.is_leader():
            self._housekeeping.commands.at_latest(min(map(int, instants)))

    def _under_way(self) -> set[int]:
        return self.dispatcher.under_way()

    def _every_hour(self, now: Instant) -> None:
        self.extensions.hook.every_hour(now=now)

    def _registration_expires(self, instant: Instant) -> None:
        self._housekeeping.registrations.at_latest(instant)

    def _finish(self, job: Job, answer: Answer | None) -> Future[None]:
        touched = (job.device_id, logs.EVERY)
        if job.command is not None:
            return self.database.insist_together(self.commands.finish, [(job.command, answer)], touched=touched)
        return self.database.insist(lambda session: self.subscriptions.finish(session, job, answer), touched=touched)

    def _begin_attempt(self, command: Command) -> Future[bool]:
        return self.database.insist(
            lambda session: self.commands.begin_attempt(session, command), touched=(command.device_id,)
        )

    def _make_log(self) -> NotificationLog:
        return NotificationLog(
            self.database,
            self.clock,
            most_bytes=self.settings.keep_log_bytes,
            is_shared=self.database.is_shared,
            is_leader=self.is_leader,
        )

    def _make_commands(self) -> CommandService:
        return CommandService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            listeners=self._listeners,
            under_way=self._under_way,
            parts_of=self.backends.parts_of,
        )

    def _make_devices(self) -> DeviceService:
        return DeviceService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            listeners=self._listeners,
            commands=self.commands,
            subscriptions=self.subscriptions,
            contact=self._contact,
            expiry_due=self._registration_expires,
        )

    def _make_housekeeping(self) -> Housekeeping:
        return Housekeeping(
            database=self.database,
            clock=self.clock,
            expire_commands=self.commands.expire,
            expire_registrations=self.devices.expire_registrations,
            delete_devices=self.devices.delete_silent_since,
            keep_log_seconds=self.settings.keep_log_seconds,
            every_hour=self._every_hour,
        )

    def _make_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            database=self.database,
            clock=self.clock,
            backends=self.backends,
            begin_attempt=self._begin_attempt,
            finish=self._finish,
            answer_timeout_seconds=self.settings.answer_timeout_seconds,
        )


def _coordinator(name: str | None, settings: Settings, database: Database, in_common: Sequence[str]) -> Coordinator:
    """How this process takes part where several may serve the database."""
    if name is None:
        return Coordinator()
    kind: Callable[[Settings, Database, Sequence[str]], Coordinator] = pkgutil.resolve_name(name)
    return kind(settings, database, in_common)


def _warn_of_later(newest: Instant | None, now: Instant) -> None:
    """Tell the operator that what is stored is later than the present."""
    if newest is not None and newest > after_seconds(now, _CLOCKS_DIFFER_SECONDS):
        _log.warning(
            "the database has things that happened at %s, which is yet to come: the clock of the system is behind, or"
            " it or a manual one was ahead; 'mirror-server help operate' tells what that means",
            to_datetime(newest).isoformat(timespec="seconds"),
        )


def _clock(settings: Settings, database: Database) -> Clock:
    with database.read() as session:
        stored = session.setting(MANUAL_CLOCK)
        newest = maintenance.newest_instant(session, database.storages)
    if not settings.manual_clock:
        clock = SystemClock(last_known_at=newest)
        _warn_of_later(newest, clock.now())
        return clock
    # The database may have been served by the wall clock before: time never goes back.
    return ManualClock(max(int(stored or _MANUAL_CLOCK_BEGINS_AT), newest or 0))
