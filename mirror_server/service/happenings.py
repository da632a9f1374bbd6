"""Device events, and rows of the history where one is kept: written with what happens."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_sdk.wire.device_object import DesiredStatus, Origin
from mirror_server.clock import Clock, Timer
from mirror_server.core.commands import Command
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import Content, Observation
from mirror_server.store import device_events, history, revisions
from mirror_server.store.database import Database
from mirror_server.store.history import HistoryRow
from mirror_server.store.resources import ReportedValue
from mirror_server.store.session import Row, Session

_ORIGINS: dict[Origin, str] = {
    "subscription": "observation",
    "auto_observation": "auto_observation",
    "read": "read",
}

_SIGN_OF_LIFE_SECONDS = 10
"""How much earlier than it does the history may seem to end, where the server is killed while nothing happens."""


class Happenings:
    """Writes what happens, in the transaction in which it happens.

    Args:
        database: Where the history is.
        clock: Domain time.
        is_kept: Whether a history is written.
    """

    def __init__(self, database: Database, clock: Clock, *, is_kept: bool) -> None:
        self.is_kept = is_kept
        self._database = database
        self._clock = clock
        self._next_sign: Timer | None = None

    def start(self) -> None:
        """Tell the gap since the last server that kept a history, if there was one; from now on show signs of life."""
        if not self.is_kept:
            self._database.insist(history.end)
            return
        self._database.insist(self._begin)
        self._live_on()

    def stop(self) -> None:
        """Show no more signs of life."""
        if self._next_sign is not None:
            self._next_sign.cancel()

    def show_life(self) -> None:
        """Note that all that happened until now has its row."""
        if self.is_kept:
            now = self._clock.now()
            self._database.insist(lambda session: history.show_life(session, now))

    def observed(
        self,
        session: Session,
        first_revision: int,
        values: Sequence[ReportedValue],
        observations: Sequence[Observation],
    ) -> None:
        """Values came from devices on their own account.

        Args:
            session: The transaction.
            first_revision: That of the first value; each of the others has the next one.
            values: The values as the mirror has them.
            observations: The same ones as they came, with the devices' own time of each.
        """
        if self.is_kept:
            rows = [
                _reported(revision, value, each.changed_at, "registration" if each.is_published else None)
                for revision, (value, each) in enumerate(zip(values, observations, strict=True), first_revision)
            ]
            history.add_reported(session, rows)

    def answered(
        self, session: Session, first_revision: int, values: Sequence[ReportedValue], changed_at: Instant | None
    ) -> None:
        """Values came as an answer; ``changed_at`` is the device's own time of them, where it told one."""
        if self.is_kept:
            rows = [
                _reported(revision, value, value.at if changed_at is None else changed_at)
                for revision, value in enumerate(values, first_revision)
            ]
            history.add_reported(session, rows)

    def write_ended(
        self,
        session: Session,
        command: Command,
        path: str,
        content: Content,
        category: str | None,
        at: Instant,
        revision: int | None,
    ) -> None:
        """A write ended; ``revision`` is that of the desired value, ``None`` for a write that a later one replaced."""
        if not self.is_kept:
            return
        row = HistoryRow(
            revision or revisions.note_change(session, ()),
            command.device_id,
            None,
            path,
            changed_at=at,
            received_at=self._clock.now(),
            what="desired",
            origin="write",
            value=content.payload,
            content_type=content.content_type,
            status=int(DesiredStatus.SUCCESS if category is None else DesiredStatus.FAILURE),
            category=category,
            app_id=command.app_id,
            requested_at=command.requested_at,
        )
        history.add(session, [row])

    def of_registration(self, session: Session, what: str, device_id: str, at: Instant, *, state_change: bool) -> None:
        """A registration began, was updated, or ended; ``what`` says which; see the store's ``KINDS``.

        ``state_change`` is whether the device was registered afterwards and not before, or the other way round.
        """
        revision = revisions.note_change(session, ())
        device_events.add(session, revision, device_id, what, at, state_change=state_change)
        if self.is_kept:
            history.add(session, [HistoryRow(revision, device_id, None, None, at, at, what)])

    def forget(self, session: Session, device_ids: Sequence[str]) -> None:
        """Devices are deleted; their history is no more."""
        if device_ids:
            history.erase(session, device_ids)

    def _begin(self, session: Session) -> None:
        now = self._clock.now()
        heard_until = history.heard_until(session)
        if heard_until is not None and heard_until < now:
            revision = revisions.note_change(session, ())
            history.add(session, [HistoryRow(revision, None, None, None, heard_until, now, "gap", until=now)])
        if not history.state(session).is_kept:
            history.begin(session, revisions.last(session))
        history.show_life(session, now)

    def _live_on(self) -> None:
        self.show_life()
        # A manual clock stands still; whoever advances it tells that it was.
        if not self._clock.is_manual:
            due_at = after_seconds(self._clock.now(), _SIGN_OF_LIFE_SECONDS)
            self._next_sign = self._clock.call_at(due_at, self._live_on)


def _reported(revision: int, value: ReportedValue, changed_at: Instant, origin: str | None = None) -> Row:
    content, content_type, by, received_at, _, device_id, path, _ = value
    return history.reported_row(
        revision, device_id, origin or _ORIGINS[by], path, changed_at, received_at, content, content_type
    )
