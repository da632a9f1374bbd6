"""Scheduled work: expiry of commands and registrations, and deletion of old data.

Source: specification 2.1 and 8; wire.md 2 and 4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from mirror_server.clock import Clock, Timer
from mirror_server.core.commands import ASYNC_ID_SECONDS
from mirror_server.core.timestamps import Instant, after_seconds, months_before
from mirror_server.service.commands import CommandService
from mirror_server.service.devices import DeviceService
from mirror_server.store import commands, devices, logs
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_CLEANUP_SECONDS = 3600
_DEVICE_RETENTION_MONTHS = 6


class DeadlineTimer:
    """A timer that calls a function at the earliest of the requested times.

    The called function then requests the next time.
    """

    def __init__(self, clock: Clock, action: Callable[[], None]) -> None:
        self._clock = clock
        self._action = action
        self._timer: Timer | None = None
        self._lock = threading.Lock()

    def at_latest(self, instant: Instant | None) -> None:
        """Call the function at ``instant`` at the latest. ``None`` requests nothing."""
        with self._lock:
            if instant is None or (self._timer is not None and self._timer.due_at <= instant):
                return
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._clock.call_at(instant, self._due)

    def cancel(self) -> None:
        """Cancel the scheduled call. :meth:`at_latest` can schedule a new one."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _due(self) -> None:
        # Reset before the action runs, because the action requests the next time.
        with self._lock:
            self._timer = None
        self._action()


class Housekeeping:
    """A service that ends expired commands and registrations, and deletes data after its retention period.

    Args:
        database: The database to maintain.
        clock: The clock of the server.
        command_service: The service that ends expired commands.
        device_service: The service that ends registrations and deletes devices.
        keep_log_seconds: The retention period of log entries in seconds.
        every_hour: A function that is called every hour with the current time, so that extensions delete old data.
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
        self._cleanup = DeadlineTimer(clock, self._clean_up)

    def start(self) -> None:
        """Run the work that became due while the server was down, and start the timers."""
        self.expire_commands()
        self.expire_registrations()
        self._clean_up()

    def stop(self) -> None:
        """Cancel the timers. :meth:`start` starts them again."""
        for deadline in (self.commands, self.registrations, self._cleanup):
            deadline.cancel()

    def expire_commands(self) -> None:
        """Fail the expired commands, and set the timer for the next expiry."""

        def work(session: Session) -> None:
            # Both calls use the same time, so that no command expires between them without a timer.
            now = self._clock.now()
            self._command_service.expire(session, now)
            next_at = commands.next_expiry(session, now)
            session.after_commit(lambda: self.commands.at_latest(next_at))

        self._database.submit_durable(work)

    def expire_registrations(self) -> None:
        """End the expired registrations, and set the timer for the next expiry."""

        def work(session: Session) -> None:
            if self._device_service.expire_registrations(session):
                next_at = devices.next_registration_expiry(session)
                session.after_commit(lambda: self.registrations.at_latest(next_at))

        self._database.submit_durable(work)

    def _clean_up(self) -> None:
        # A deletion cannot be undone, so it must not use a clock that may have been set wrong.
        now = self._clock.steady_now()
        oldest_at = after_seconds(now, -self._keep_log_seconds)

        def work(session: Session) -> None:
            self._device_service.delete_silent_since(session, months_before(now, _DEVICE_RETENTION_MONTHS))
            commands.delete_finished(session, after_seconds(now, -ASYNC_ID_SECONDS))
            logs.drop_older(session, oldest_at)

        self._database.submit_durable(work)
        self._every_hour(now)
        self._cleanup.at_latest(after_seconds(self._clock.now(), _CLEANUP_SECONDS))
