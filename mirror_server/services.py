"""Puts the parts of a server together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

from mirror_server.bench import CLOCK_SETTING, Bench, StoredSimulation
from mirror_server.callout import AddressPolicy
from mirror_server.clock import Clock, ManualClock, SystemClock
from mirror_server.config import Settings
from mirror_server.core.instants import Instant
from mirror_server.delivery import Delivery, Job
from mirror_server.devices.link import Answer
from mirror_server.devices.simulator import Simulator
from mirror_server.log import LOG, NotificationLog, PlainPolls
from mirror_server.pacing import Pacing
from mirror_server.relay import Relay
from mirror_server.service.commands import CommandService
from mirror_server.service.devices import DeviceService
from mirror_server.service.housekeeping import Housekeeping
from mirror_server.service.snapshots import SnapshotService
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.service.words import AGAIN, EXPIRY, WAITING
from mirror_server.store import devices as stored_devices
from mirror_server.store import processes
from mirror_server.store import settings as stored_settings
from mirror_server.store.database import Database
from mirror_server.store.serving_lock import ServingLock
from mirror_server.store.session import Session
from mirror_server.store.url import is_postgresql, path_of
from mirror_server.webhook import Webhooks

_MANUAL_CLOCK_BEGINS_AT: Instant = 1_767_600_000_000
"""2026-01-05T08:00:00Z, a Monday morning: where a manual clock stands in a new database."""


_LAST_SECONDS = 3


class Services:
    """All parts of one server, on one database.

    Args:
        settings: What the operator set.

    Raises:
        DatabaseError: The database cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        with ExitStack() as undo:
            self._let_others_serve = _begin_serving(settings.database_url)
            undo.callback(self._let_others_serve)
            self.database = Database(settings.database_url)
            undo.callback(self.database.close)
            self._neighbours = self.database.meet(options=_in_common(settings), is_alone=settings.manual_clock)
            undo.pop_all()
        self.clock = _clock(settings, self.database)
        self.log = NotificationLog(
            self.database,
            self.clock,
            most_bytes=settings.keep_log_bytes,
            is_shared=self._neighbours is not None,
            is_on_duty=self.is_on_duty,
        )
        self.polls = PlainPolls(self.database, self.log, is_alive=self._is_alive)
        self.webhooks = Webhooks(
            database=self.database,
            clock=self.clock,
            log=self.log,
            policy=AddressPolicy(settings.callback_networks),
        )
        self.commands = CommandService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            wake=self._wake,
            expiry_due=self._command_expires,
            under_way=self._under_way,
        )
        self.subscriptions = SubscriptionService(
            database=self.database, clock=self.clock, log=self.log, wake=self._wake, ask_again=self._contact
        )
        self.devices = DeviceService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            commands=self.commands,
            subscriptions=self.subscriptions,
            contact=self._contact,
            expiry_due=self._registration_expires,
        )
        self.snapshots = SnapshotService(self.database, self.clock, settings.poll_share)
        self._housekeeping = Housekeeping(
            database=self.database,
            clock=self.clock,
            expire_commands=self.commands.expire,
            expire_registrations=self.devices.expire_registrations,
            delete_devices=self.devices.delete_silent_since,
            keep_log_seconds=settings.keep_log_seconds,
        )
        self._simulator = Simulator(
            events=self.devices, store=StoredSimulation(self.database), clock=self.clock, seed=settings.seed
        )
        self.bench = self._bench()
        self.relay = None if self._neighbours is None else Relay(self.database, self.clock, self.is_on_duty)
        self._pacing = None if self.bench is None else Pacing(self.bench, settings.pace)
        self._delivery = Delivery(
            database=self.database,
            clock=self.clock,
            link=self._simulator,
            finish=self._finish,
            answer_timeout_seconds=settings.answer_timeout_seconds,
        )

    def start(self) -> None:
        """Begin, and go on duty unless another process is.

        Raises:
            DatabaseError: The database does not answer any more.
        """
        if self._neighbours is None:
            self.take_duty()
        else:
            self._neighbours.start(self)
        self.database.settle()
        if self._pacing is not None:
            self._pacing.start()

    def take_duty(self) -> None:
        """Look after what became due meanwhile, bring up the simulated devices, deliver what waits."""
        self._housekeeping.start()
        if self.settings.simulate is not None:
            self._simulator.start(self.settings.simulate)
        self._delivery.wake_all()
        self.webhooks.start()
        if self.relay is not None:
            self.relay.tell_duty()

    def pause_duty(self) -> None:
        """See :class:`mirror_server.store.backend.Colleague`."""
        self.webhooks.stop()

    def resume_duty(self) -> None:
        """See :class:`mirror_server.store.backend.Colleague`."""
        self.webhooks.start()

    def give_up_duty(self) -> None:
        """See :class:`mirror_server.store.backend.Colleague`."""
        self._housekeeping.stop()
        self._simulator.stop()
        self._delivery.forget()
        self.webhooks.stop()
        self.polls.forget()

    def look_around(self) -> None:
        """See :class:`mirror_server.store.backend.Colleague`."""
        self.log.wake_all()
        if self.is_on_duty():
            self._delivery.wake_all()
            self._housekeeping.look_at_commands()
        if self.relay is not None:
            self.relay.look_again()

    def hear(self, word: str) -> None:
        """See :class:`mirror_server.store.backend.Colleague`."""
        kind, _, what = word.partition(" ")
        if kind == LOG:
            self.log.wake(what)
        elif kind == WAITING:
            self._wake(what)
        elif kind == AGAIN:
            self._contact(what)
        elif kind == EXPIRY:
            self._command_expires(int(what))
        elif self.relay is not None:
            self.relay.hear(kind, what)

    def close(self) -> None:
        """Stop; what was accepted is on disk, and what waits goes on at the next start."""
        if self._pacing is not None:
            self._pacing.close()
        self.clock.close()
        if self._neighbours is not None:
            self._neighbours.stop()
        if self.relay is not None and self.relay.answerer is not None:
            self.relay.answerer.close()
        self.webhooks.close()
        if self.bench is not None:
            self.bench.close()
        self.log.store_read()
        if self._neighbours is not None:
            # What is stored after the end of the duty would be dropped.
            self.database.settle(_LAST_SECONDS)
            self._neighbours.close()
        self.database.close()
        self._let_others_serve()

    def _is_alive(self, process_id: str) -> bool:
        with self.database.read() as session:
            return processes.is_alive(session, process_id)

    def is_on_duty(self) -> bool:
        """Whether this process holds the devices and channels; with several on one database, one of them does."""
        return self._neighbours is None or self._neighbours.is_on_duty

    def _wake(self, device_id: str) -> None:
        self._delivery.wake(device_id)

    def _contact(self, device_id: str) -> None:
        self._delivery.contact(device_id)

    def _command_expires(self, instant: Instant) -> None:
        if self.is_on_duty():
            self._housekeeping.commands.at_latest(instant)

    def _under_way(self) -> set[int]:
        return self._delivery.under_way()

    def _registration_expires(self, instant: Instant) -> None:
        self._housekeeping.registrations.at_latest(instant)

    def _finish(self, job: Job, answer: Answer | None) -> Future[None]:
        def work(session: Session) -> None:
            if job.command is not None:
                self.commands.finish(session, job.command, answer)
            else:
                self.subscriptions.finish(session, job, answer)

        return self.database.insist(work)

    def _bench(self) -> Bench | None:
        if self.settings.simulate is None:
            return None
        return Bench(simulator=self._simulator, clock=self.clock, database=self.database)


def _begin_serving(url: str) -> Callable[[], None]:
    """Begin to serve the database, a file as the only process; gives what lets another one do so."""
    return (lambda: None) if is_postgresql(url) else ServingLock(path_of(url)).release


def _in_common(settings: Settings) -> str:
    """What all processes on one database must have in common."""
    bench = "without --simulate" if settings.simulate is None else "with --simulate"
    return f"{bench} and {'with --clock manual' if settings.manual_clock else 'by the clock of the system'}"


def _clock(settings: Settings, database: Database) -> Clock:
    if not settings.manual_clock:
        return SystemClock()
    with database.read() as session:
        stored = stored_settings.get(session, CLOCK_SETTING)
        newest = stored_devices.newest_contact(session)
    # The database may have been served by the wall clock before: time never goes back.
    return ManualClock(max(int(stored or _MANUAL_CLOCK_BEGINS_AT), newest or 0))
