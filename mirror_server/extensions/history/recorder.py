"""Records changes of the mirror as rows of the history, in the transaction of the change."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.clock import Clock, Timer
from mirror_server.core.timestamps import after_seconds
from mirror_server.extensions.history.store import history
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.hooks import extends
from mirror_server.store.change_listeners import FinishedWrite, RegistrationChange, ReportedChange
from mirror_server.store.database import Database
from mirror_server.store.session import EXTENSIONS, Row, Session

_HEARTBEAT_SECONDS = 10
"""If the server is killed while nothing happens, a gap may start this much too early."""


class HistoryRecorder:
    """Writes rows of the history.

    Args:
        database: The database of the history.
        clock: Domain time.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._next_heartbeat: Timer | None = None

    @extends(specname="lead")
    def start(self) -> None:
        """Record the gap since the last server that kept a history, if there was such a server.

        Then start the heartbeat.
        """
        self._database.submit_durable(self._start)
        self._repeat_heartbeat()

    @extends(specname="resign")
    def stop(self) -> None:
        """Stop the heartbeat."""
        if self._next_heartbeat is not None:
            self._next_heartbeat.cancel()

    @extends(specname="stop")
    def end(self) -> None:
        """Stop the heartbeat, and record that every change until now has its row."""
        self.stop()
        self.heartbeat()

    @extends(specname="clock_advanced")
    def heartbeat(self) -> None:
        """Record that every change until now has its row."""
        now = self._clock.now()
        self._database.submit_durable(lambda session: history.record_heartbeat(session, now))

    @extends
    def values_reported(self, session: Session, batch: Sequence[ReportedChange]) -> None:
        """Write rows for values."""
        history.add_reported(session, [_row_of(each) for each in batch])

    @extends
    def write_finished(self, session: Session, batch: Sequence[FinishedWrite]) -> None:
        """Write rows for the ends of writes."""
        received_at = self._clock.now()
        rows = [
            StoredHistoryRow(
                each.revision or session.note_change(()),
                each.command.device_id,
                None,
                each.path,
                changed_at=each.at,
                received_at=received_at,
                what="desired",
                origin="write",
                value=each.value,
                content_type=each.content_type,
                status=int(DesiredStatus.SUCCESS if each.category is None else DesiredStatus.FAILURE),
                category=each.category,
                app_id=each.command.app_id,
                requested_at=each.command.requested_at,
            )
            for each in batch
        ]
        history.add(session, rows)

    @extends
    def registration_changed(self, session: Session, batch: Sequence[RegistrationChange]) -> None:
        """Write rows for registrations."""
        rows = [
            StoredHistoryRow(each.revision, each.device.device_id, None, None, each.at, each.at, each.kind)
            for each in batch
        ]
        history.add(session, rows)

    @extends
    def devices_deleted(self, session: Session, device_ids: Sequence[str]) -> None:
        """Delete their rows."""
        history.erase(session, device_ids)

    def _start(self, session: Session) -> None:
        now = self._clock.now()
        covered_until = history.covered_until(session)
        if covered_until is not None and covered_until < now:
            revision = session.note_change(())
            history.add(session, [StoredHistoryRow(revision, None, None, None, covered_until, now, "gap", until=now)])
        # A server without this extension may have run since.
        was_loaded = "history" in (session.setting(EXTENSIONS) or "").split()
        if not was_loaded or not history.state(session).is_enabled:
            history.begin(session, session.last_revision())
        history.record_heartbeat(session, now)

    def _repeat_heartbeat(self) -> None:
        self.heartbeat()
        # A manual clock stands still until it is advanced, which calls ``heartbeat``.
        if not self._clock.is_manual:
            due_at = after_seconds(self._clock.now(), _HEARTBEAT_SECONDS)
            self._next_heartbeat = self._clock.call_at(due_at, self._repeat_heartbeat)


def _row_of(reported: ReportedChange) -> Row:
    content, content_type, origin, received_at, _, device_id, path, _ = reported.value
    by = history.REPORTED_BY["registration" if reported.is_published else history.ORIGINS[origin]]
    stored_type = None if content_type == history.PLAIN_TEXT else content_type
    return reported.revision, device_id, path, reported.changed_at, received_at, by, content, stored_type
