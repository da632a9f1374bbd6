"""What happens because time passes: expiry, retention, trimming. Source: specification 2.1 and 8; wire.md 2 and 4."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mirror_server.clock import Clock, Timer
from mirror_server.core.commands import ASYNC_ID_SECONDS
from mirror_server.core.instants import Instant, after_seconds, months_before
from mirror_server.service.commands import CommandService
from mirror_server.service.devices import DeviceService
from mirror_server.store import commands, devices, logs
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_ROUND_SECONDS = 3600
_DEVICES_KEPT_MONTHS = 6


class DeadlineTimer:
    """Makes a call at the earliest of the instants it was told of, and then asks for the next one."""

    def __init__(self, clock: Clock, action: Callable[[], None]) -> None:
        self._clock = clock
        self._action = action
        self._timer: Timer | None = None
        self._lock = threading.Lock()

    def at_latest(self, instant: Instant | None) -> None:
        """See to it that the call is made no later than at the instant; ``None`` asks for nothing."""
        with self._lock:
            if instant is None or (self._timer is not None and self._timer.due_at <= instant):
                return
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._clock.call_at(instant, self._due)

    def forget(self) -> None:
        """Make no call until told of an instant again."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _due(self) -> None:
        with self._lock:
            self._timer = None
        self._action()


class Housekeeping:
    """Ends commands and registrations in time, and deletes what is kept long enough.

    Args:
        database: What is looked after.
        clock: Domain time.
        command_service: Ends the commands whose time is over.
        device_service: Ends registrations, and deletes devices.
        keep_log_seconds: How long log entries are kept.
        every_hour: Called every hour with the present instant, to have extensions delete what they kept long enough.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        command_service: CommandService,
        device_service: DeviceService,
        keep_log_seconds: float,
        every_hour: Callable[[Instant], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._command_service = command_service
        self._device_service = device_service
        self._keep_log_seconds = keep_log_seconds
        self._every_hour = every_hour
        self.commands = DeadlineTimer(clock, self.expire_commands)
        self.registrations = DeadlineTimer(clock, self.expire_registrations)
        self._next_round = DeadlineTimer(clock, self._round)

    def start(self) -> None:
        """Look at once at what became due while the server was down, and from now on at what becomes due."""
        self.expire_commands()
        self.expire_registrations()
        self._round()

    def stop(self) -> None:
        """Look after nothing, until started again."""
        for deadline in (self.commands, self.registrations, self._next_round):
            deadline.forget()

    def expire_commands(self) -> None:
        """End the commands whose time is over, and see when the next one's is."""

        def work(session: Session) -> None:
            # One instant for both, so that nothing becomes due unseen in between.
            now = self._clock.now()
            self._command_service.expire(session, now)
            next_at = commands.next_expiry(session, now)
            session.after_commit(lambda: self.commands.at_latest(next_at))

        self._database.submit_durable(work)

    def expire_registrations(self) -> None:
        """End the registrations whose time is over, and see when the next one's is."""

        def work(session: Session) -> None:
            if self._device_service.expire_registrations(session):
                next_at = devices.next_registration_expiry(session)
                session.after_commit(lambda: self.registrations.at_latest(next_at))

        self._database.submit_durable(work)

    def _round(self) -> None:
        now = self._clock.sure_now()
        kept_since = after_seconds(now, -self._keep_log_seconds)

        def work(session: Session) -> None:
            self._device_service.delete_silent_since(session, months_before(now, _DEVICES_KEPT_MONTHS))
            commands.delete_finished(session, after_seconds(now, -ASYNC_ID_SECONDS))
            logs.drop_older(session, kept_since)

        self._database.submit_durable(work)
        self._every_hour(now)
        self._next_round.at_latest(after_seconds(self._clock.now(), _ROUND_SECONDS))
