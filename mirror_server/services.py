"""Puts the parts of a server together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from mirror_server.clock import Clock, ManualClock, SystemClock, wall_time
from mirror_server.cluster.forwarding import Forwarder
from mirror_server.cluster.leadership import Leadership
from mirror_server.config import ListenAddress, Settings
from mirror_server.core.commands import Command
from mirror_server.core.instants import Instant, after_seconds, to_datetime
from mirror_server.devices.dispatch import Dispatcher, Job
from mirror_server.devices.link import Answer, Content
from mirror_server.devices.links import DeviceLinks
from mirror_server.devices.lwm2m.exchange import Endpoint, Handler
from mirror_server.devices.lwm2m.identities import Identities
from mirror_server.devices.lwm2m.listening import check_listening
from mirror_server.devices.simulator.simulator import Simulator
from mirror_server.metrics import Metrics
from mirror_server.notifications.channels import Channels
from mirror_server.notifications.log import NotificationLog
from mirror_server.notifications.outbound import AddressPolicy
from mirror_server.notifications.polls import PlainPolls
from mirror_server.notifications.webhooks import Webhooks
from mirror_server.notifications.websockets import Websockets
from mirror_server.service.bench import CLOCK_SETTING, Bench, StoredSimulation
from mirror_server.service.commands import CommandService
from mirror_server.service.connections import ConnectionService
from mirror_server.service.devices import DeviceService
from mirror_server.service.directory import DirectoryService
from mirror_server.service.happenings import Happenings
from mirror_server.service.housekeeping import Housekeeping
from mirror_server.service.long_reads import LongReads
from mirror_server.service.pacing import Pacing
from mirror_server.service.pasts import PastService
from mirror_server.service.readiness import Readiness
from mirror_server.service.snapshots import SnapshotService
from mirror_server.service.subscriptions import SubscriptionService
from mirror_server.service.untold import Untold
from mirror_server.store import logs, processes, registrations, revisions, statistics
from mirror_server.store import settings as stored_settings
from mirror_server.store.database import Database
from mirror_server.store.failures import CannotKeepHistory
from mirror_server.store.process_messages import AGAIN, APPLY, EXPIRY, LOG, SOCKET, TOLD, UNTOLD, WAITING
from mirror_server.store.session import Session
from mirror_server.store.sqlite.serving_lock import ServingLock
from mirror_server.store.url import is_postgresql, path_of, shown

if TYPE_CHECKING:
    from mirror_server.devices.lwm2m.lwm2m import LwM2MLink
    from mirror_server.history.keeper import Keeper
    from mirror_server.history.service import HistoryService

_log = logging.getLogger(__name__)

_CLOCKS_DIFFER_SECONDS = 60
_MANUAL_CLOCK_BEGINS_AT: Instant = 1_767_600_000_000
"""2026-01-05T08:00:00Z, a Monday morning: where a manual clock stands in a new database."""


_LAST_SECONDS = 3


class Services:
    """All parts of one server, on one database.

    Args:
        settings: What the operator set.

    Attributes:
        opens_websockets: Whether a process that serves this database may open one, as far as this one knows.

    Raises:
        DatabaseError: The database cannot be used.
        CannotListen: Real devices cannot come where the settings say.
        CannotKeepHistory: A history cannot be kept as the settings say.
    """

    def __init__(self, settings: Settings) -> None:
        check_listening(settings)
        self.settings = settings
        self.opens_websockets = True
        history_parts = _history_parts(settings)
        with ExitStack() as undo:
            self._let_others_serve = _begin_serving(settings.database_url)
            undo.callback(self._let_others_serve)
            self.database = Database(settings.database_url)
            undo.callback(self.database.close)
            self._leadership = _leadership(settings, self.database)
            undo.pop_all()
        self.clock = _clock(settings, self.database)
        is_kept = settings.keep_history_seconds is not None
        self.history: HistoryService | None = None
        self._keeper: Keeper | None = None
        if history_parts is not None:
            self.history, self._keeper = history_parts(self.database, self.clock)
        self.happenings = Happenings(self.database, self.clock, is_kept=is_kept)
        self.log = self._make_log()
        self.channels = Channels(self.database)
        self.polls = PlainPolls(self.database, self.log, self.channels, is_alive=self._is_alive)
        policy = AddressPolicy(settings.callback_networks)
        self.webhooks = Webhooks(self.database, self.clock, self.log, self.channels, policy)
        self.websockets = Websockets(self.database, self.clock, self.log, self.channels, is_alive=self._is_alive)
        self._untold = Untold(self.clock, self._wake)
        self.commands = self._make_commands()
        self.subscriptions = SubscriptionService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            happenings=self.happenings,
            wake=self._wake,
            ask_again=self._contact,
        )
        self.devices = self._make_devices()
        self.directory = DirectoryService(self.database, self.clock)
        self.readiness = Readiness(self.database)
        self.snapshots = SnapshotService(self.database, self.clock, settings.poll_share)
        self.past = PastService(self.history, self.clock, self.snapshots.slots)
        self.long_reads = LongReads(settings.poll_share)
        self._housekeeping = self._make_housekeeping()
        self._simulator = Simulator(
            events=self.devices, store=StoredSimulation(self.database), clock=self.clock, seed=settings.seed
        )
        self.real_devices = self._make_real_devices()
        self.metrics = Metrics(self.database, self.log, self.is_leader, self.real_devices)
        links = DeviceLinks(self._simulator, self.real_devices)
        self.connections = ConnectionService(self.devices, links)
        self.bench = self._make_bench()
        self.forwarder = None if self._leadership is None else Forwarder(self.database, self.clock, self.is_leader)
        self._pacing = None if self.bench is None else Pacing(self.bench, settings.pace)
        self._dispatcher = self._make_dispatcher(links)
        self.database.on_interruption(self._interrupted, self._resumed)

    def start(self) -> None:
        """Begin, and lead unless another process does.

        Raises:
            DatabaseError: The database does not answer any more.
        """
        if self._leadership is None:
            self.begin_to_lead()
        else:
            self._leadership.start(self)
        self.database.settle()
        if self._pacing is not None:
            self._pacing.start()

    def begin_to_lead(self) -> None:
        """Look after what became due meanwhile, bring up the devices, deliver what waits."""
        # Another process may have led since an interruption.
        self.devices.forget_interruption()
        # First, while what is stored tells when a service was there last.
        self.database.insist(self.devices.prolong_registrations)
        # A manual clock begins at the same instant in each new database.
        self.database.insist(partial(revisions.begin, at=wall_time()))
        self.happenings.start()
        if self._keeper is not None:
            self._keeper.start()
        self.database.insist(self.commands.end_interrupted)
        self._housekeeping.start()
        if self.real_devices is not None:
            # Where others may have led, one of them may still hold the port.
            self.real_devices.start(listening=None if self._leadership is None else self._dispatcher.wake_all)
        if self.settings.simulate is not None:
            self._simulator.start(self.settings.simulate)
        self._dispatcher.wake_all()
        self.subscriptions.apply_rules()
        self.webhooks.start()
        if self.forwarder is not None:
            self.forwarder.tell_leader()

    def pause_leading(self) -> None:
        """See :class:`mirror_server.cluster.leadership.Participant`."""
        self._interrupted()
        self.webhooks.stop()

    def go_on_leading(self) -> None:
        """See :class:`mirror_server.cluster.leadership.Participant`."""
        self._resumed()
        self.webhooks.start()
        if self.forwarder is not None:
            self.forwarder.tell_resumed()

    def stop_leading(self) -> None:
        """See :class:`mirror_server.cluster.leadership.Participant`."""
        self.happenings.stop()
        if self._keeper is not None:
            self._keeper.stop()
        self._housekeeping.stop()
        self._simulator.stop()
        if self.real_devices is not None:
            self.real_devices.stop()
        self._dispatcher.forget()
        self.webhooks.stop()
        self.polls.forget()
        # Whoever leads now has to know.
        self.log.store_read()

    def catch_up(self) -> None:
        """See :class:`mirror_server.cluster.leadership.Participant`."""
        self.log.wake_all()
        self.websockets.look_at_all()
        if self.is_leader():
            self._dispatcher.wake_all()
            self._housekeeping.look_at_commands()
            self.subscriptions.apply_rules()
        if self.forwarder is not None:
            self.forwarder.look_again()

    def receive(self, *messages: str) -> None:
        """See :class:`mirror_server.cluster.leadership.Participant`."""
        woken = []
        for message in messages:
            kind, _, what = message.partition(" ")
            if kind == WAITING:
                woken.append(what)
            else:
                self._receive(kind, what)
        # Behind all that says of them what they may be sent, and looked after together.
        self._dispatcher.wake(*woken)

    def _receive(self, kind: str, what: str) -> None:
        if kind == LOG:
            self.log.wake(what)
        elif kind == SOCKET:
            self.websockets.look_again(what)
        elif kind == UNTOLD:
            self._untold.hold_of_other(*what.split(" "))
        elif kind == TOLD:
            self._untold.release(what)
        elif kind == AGAIN:
            self._contact(what)
        elif kind == APPLY:
            if self.is_leader():
                self.subscriptions.apply_rules()
        elif kind == EXPIRY:
            self._command_expires(int(what))
        elif self.forwarder is not None:
            self.forwarder.receive(kind, what)

    def close(self) -> None:
        """Stop; what was accepted is on disk, and what waits goes on at the next start."""
        if self._pacing is not None:
            self._pacing.close()
        self.clock.close()
        if self._keeper is not None:
            self._keeper.stop()
        if self._leadership is not None:
            self._leadership.stop()
        if self.forwarder is not None and self.forwarder.answerer is not None:
            self.forwarder.answerer.close()
        self.webhooks.close()
        self.long_reads.close()
        if self.real_devices is not None:
            self.real_devices.stop()
        if self.bench is not None:
            self.bench.close()
        self.subscriptions.stop()
        self.log.store_read()
        self.happenings.stop()
        self.happenings.show_life()
        if self._leadership is not None:
            # What is stored after the end of leading would be dropped.
            self.database.settle(_LAST_SECONDS)
            self._leadership.close()
        self.database.close()
        self._let_others_serve()

    def _interrupted(self) -> None:
        """Nothing can be stored: end no registration, for no device can update its own."""
        self.devices.interrupt()
        if self.real_devices is not None:
            self.real_devices.hold_registrations()

    def _resumed(self) -> None:
        """Storing works again: leave devices the time to update their registrations."""
        real_devices = self.real_devices

        def work(session: Session) -> None:
            self.devices.resume(session)
            if real_devices is not None:
                expiries = registrations.expiries(session)
                session.after_commit(lambda: real_devices.release_registrations(expiries))
            session.after_commit(self._housekeeping.look_at_registrations)

        self.database.insist(work)

    def _is_alive(self, process_id: str) -> bool:
        return self.database.look(lambda session: processes.is_alive(session, process_id))

    def is_leader(self) -> bool:
        """Whether this process leads: it holds the devices and channels. Of several on one database, one does."""
        return self._leadership is None or self._leadership.is_leader

    def device_urls(self) -> list[str]:
        """Where real devices come in; empty while this process does not listen for them."""
        endpoint = None if self.real_devices is None else self.real_devices.endpoint
        if endpoint is None:
            return []
        ways = (("coap", endpoint.coap_address), ("coaps", endpoint.coaps_address))
        return [f"{scheme}://{ListenAddress(*address)}" for scheme, address in ways if address is not None]

    def _advanced(self) -> None:
        self.happenings.show_life()
        if self._keeper is not None:
            self._keeper.look()

    def _wake(self, device_id: str) -> None:
        self._dispatcher.wake(device_id)

    def _contact(self, device_id: str) -> None:
        self._dispatcher.contact(device_id)

    def _command_expires(self, instant: Instant) -> None:
        if self.is_leader():
            self._housekeeping.commands.at_latest(instant)

    def _under_way(self) -> set[int]:
        return self._dispatcher.under_way()

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
            is_shared=self._leadership is not None,
            is_leader=self.is_leader,
        )

    def _make_commands(self) -> CommandService:
        return CommandService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            happenings=self.happenings,
            untold=self._untold,
            wake=self._wake,
            expiry_due=self._command_expires,
            under_way=self._under_way,
            values_of=_values_of,
        )

    def _make_devices(self) -> DeviceService:
        return DeviceService(
            database=self.database,
            clock=self.clock,
            log=self.log,
            happenings=self.happenings,
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
            expire_channels=self.websockets.expire,
            keep_log_seconds=self.settings.keep_log_seconds,
            keep_device_events_seconds=self.settings.keep_device_events_seconds,
            max_device_events=self.settings.max_device_events,
        )

    def _make_dispatcher(self, links: DeviceLinks) -> Dispatcher:
        return Dispatcher(
            database=self.database,
            clock=self.clock,
            link=links,
            begin_attempt=self._begin_attempt,
            finish=self._finish,
            is_held=self._untold.is_held,
            answer_timeout_seconds=self.settings.answer_timeout_seconds,
        )

    def _make_real_devices(self) -> LwM2MLink | None:
        settings = self.settings
        if settings.coap is None and settings.coaps is None:
            return None
        # It reads CBOR and what else devices speak: a server without real devices starts without it.
        from mirror_server.devices.lwm2m.lwm2m import LwM2MLink  # noqa: PLC0415
        from mirror_server.devices.lwm2m.registrar import RegistrationLimits  # noqa: PLC0415

        identities = Identities(self.database)
        return LwM2MLink(
            events=self.devices,
            database=self.database,
            clock=self.clock,
            open_endpoint=partial(_listen, settings, identities),
            identities=identities,
            awake_seconds=settings.coap_awake_seconds,
            limits=RegistrationLimits(
                devices=settings.max_coap_devices,
                links=settings.max_coap_links,
                per_minute=settings.coap_registrations_per_minute,
            ),
        )

    def _make_bench(self) -> Bench | None:
        if self.settings.simulate is None:
            return None
        return Bench(
            simulator=self._simulator,
            clock=self.clock,
            database=self.database,
            advanced=self._advanced,
        )


def _history_parts(settings: Settings) -> Callable[[Database, Clock], tuple[HistoryService, Keeper]] | None:
    """What makes the parts of a history where one is kept, found before anything is begun that it could spoil."""
    if settings.keep_history_seconds is None:
        if settings.history_archive is not None:
            raise CannotKeepHistory(
                "--history-archive is for days of a history; add --keep-history 30d, or leave it out"
            )
        return None
    try:
        from mirror_server.history.keeper import history_of  # noqa: PLC0415 - needs an extra, and takes long to import
    except ImportError as error:
        cure = "pip install 'device-state-mirror[history]'"
        raise CannotKeepHistory(f"cannot keep a history: {error}; {cure}, or leave --keep-history out") from error
    try:
        return history_of(settings)
    except ValueError as error:
        raise CannotKeepHistory(f"{error}; name a folder, or a URL that fsspec opens") from error


def _values_of(path: str, content: Content) -> Sequence[tuple[str, Content]]:
    """The values in the payload of an object instance of a real device."""
    from mirror_server.devices.lwm2m.payloads import written  # noqa: PLC0415 - as above

    return written(path, content)


async def _listen(settings: Settings, identities: Identities, handler: Handler) -> Endpoint:
    from mirror_server.devices.lwm2m.coap import Limits, listen  # noqa: PLC0415 - needs an extra

    limits = Limits(payload_bytes=settings.max_coap_payload_bytes)
    return await listen(handler, coap=settings.coap, coaps=settings.coaps, keys=identities.secret, limits=limits)


def _begin_serving(url: str) -> Callable[[], None]:
    """Begin to serve the database, a file as the only process; gives what lets another one do so."""
    return (lambda: None) if is_postgresql(url) else ServingLock(path_of(url)).release


def _in_common(settings: Settings) -> str:
    """What all processes on one database must have in common."""
    bench = "without --simulate" if settings.simulate is None else "with --simulate"
    # Of real devices and history nothing is said where there are none, as versions before them say it.
    ways = "".join(f", with {name}" for name in ("--coap", "--coaps") if getattr(settings, name[2:]))
    clock = "with --clock manual" if settings.manual_clock else "by the clock of the system"
    history = "" if settings.keep_history_seconds is None else ", with --keep-history"
    return f"{bench} and {clock}{ways}{history}"


def _leadership(settings: Settings, database: Database) -> Leadership | None:
    """How this process takes part where several may serve the database; ``None`` where one does."""
    election = database.election()
    if election is None:
        return None
    return Leadership(
        election,
        shown(settings.database_url),
        database.write,
        options=_in_common(settings),
        is_alone=settings.manual_clock,
    )


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
        stored = stored_settings.get(session, CLOCK_SETTING)
        newest = statistics.newest_instant(session)
    if not settings.manual_clock:
        clock = SystemClock(last_known_at=newest)
        _warn_of_later(newest, clock.now())
        return clock
    # The database may have been served by the wall clock before: time never goes back.
    return ManualClock(max(int(stored or _MANUAL_CLOCK_BEGINS_AT), newest or 0))
