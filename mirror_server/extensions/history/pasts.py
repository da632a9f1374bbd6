"""The past: what happened, and the fleet as of an earlier instant. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from mirror_sdk.wire.history import BEFORE_HISTORY, NO_HISTORY, YET_TO_COME
from mirror_sdk.wire.model import write_timestamp
from mirror_server.clock import Clock
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant, to_datetime
from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store import history
from mirror_server.hooks import extends
from mirror_server.service.long_reads import Slots
from mirror_server.store.database import Database

if TYPE_CHECKING:
    from mirror_server.extensions.history.service import HistoryService, OpenAsOf, OpenHistory


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


@dataclass(frozen=True, slots=True)
class Past(Generic[T]):
    """A part of the past, open for one application.

    Attributes:
        rows: What is read of.
        app_id: The application it is shown to.
        close: Lets go of it; harmless when that was done.
    """

    rows: T
    app_id: str
    close: Callable[[], None]


class PastService:
    """Opens the past, with snapshots a few at once: each keeps the database from tidying up its log.

    Args:
        history: What is kept; ``None`` where nothing is.
        clock: Domain time.
        slots: Those of downloads.

    Attributes:
        history: What is kept; ``None`` where nothing is.
    """

    def __init__(self, history: HistoryService | None, clock: Clock, slots: Slots) -> None:
        self.history = history
        self._clock = clock
        self._slots = slots

    def open_history(self, app_id: str, selection: HistorySelection) -> Past[OpenHistory]:
        """What happened, as it is known now; whoever opens it closes it.

        Raises:
            Refusal: Nothing is kept (404), what is asked for lies before what is kept (400), or too much is open (429).
        """
        past = self._open(app_id, "from", lambda history: history.open(selection))
        if selection.end is not None and selection.end < past.rows.oldest_at:
            past.close()
            raise _before_history("to", past.rows.oldest_at)
        return past

    def open_as_of(self, app_id: str, selection: HistorySelection, instant: Instant) -> Past[OpenAsOf]:
        """The fleet as it was at an instant, as far as that is known now; whoever opens it closes it.

        Raises:
            Refusal: Nothing is kept (404), the instant lies before what is kept or is yet to come (400), or too much is
                open (429).
        """
        now = self._clock.now()
        if instant > now:
            message = f"is yet to come: here it is {_shown(now)}; leave it out for the fleet as it is"
            raise Refusal.of_field("as_of", message, reason=YET_TO_COME)
        return self._open(app_id, "as_of", lambda history: history.open_as_of(selection, instant))

    def _open(self, app_id: str, field: str, open_rows: Callable[[HistoryService], T]) -> Past[T]:
        if self.history is None:
            message = "this server keeps no history; its operator may switch it on with --keep-history"
            raise Refusal(404, message, reason=NO_HISTORY)
        refusal = self._slots.acquire(app_id)
        if refusal is not None:
            raise refusal
        with ExitStack() as stack:
            stack.callback(partial(self._slots.release, app_id))
            try:
                rows = open_rows(self.history)
            except TooOld as error:
                raise _before_history(field, error.oldest_at) from None
            stack.callback(rows.close)
            return Past(rows, app_id, stack.pop_all().close)


class Unrecorded:
    """Where no history is kept."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @extends
    def lead(self) -> None:
        """Note that changes have no rows from now on."""
        self._database.insist(history.end)


def _before_history(field: str, oldest_at: Instant) -> Refusal:
    """The 400 of an instant that lies before what is kept."""
    message, more = f"the history begins at {_shown(oldest_at)}; ask from then on", {"oldest_at": _shown(oldest_at)}
    return Refusal(400, f"{field}: {message}", reason=BEFORE_HISTORY, fields=[(field, message)], more=more)


def _shown(instant: Instant) -> str:
    return write_timestamp(to_datetime(instant))
