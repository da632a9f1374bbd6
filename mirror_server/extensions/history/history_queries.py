"""The access of applications to the past: the events, and the fleet at an earlier time. Source: wire.md 10."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mirror_sdk.wire.history import BEFORE_HISTORY, NO_HISTORY, YET_TO_COME
from mirror_sdk.wire.model import write_timestamp
from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant, to_datetime
from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store import history
from mirror_server.hooks import Measurement, extends
from mirror_server.service.slow_reads import Slots
from mirror_server.store.database import Database

if TYPE_CHECKING:
    from mirror_server.extensions.history.service import HistoryService, OpenQuery


class HistoryQueries:
    """Opens queries for applications.

    The number of open queries is limited, because each delays the cleanup of the database's log.

    Args:
        history: The history service, or ``None`` if the history is disabled.
        database: The database, which may contain an earlier history.
        clock: The clock of the server.
        slots: The slots of downloads, which limit the number of open queries.

    Attributes:
        history: The history service, or ``None`` if the history is disabled.
    """

    def __init__(self, history: HistoryService | None, database: Database, clock: Clock, slots: Slots) -> None:
        self.history = history
        self._database = database
        self._clock = clock
        self._slots = slots

    @extends
    def lead(self) -> None:
        """If the history is disabled, record that changes get no rows from now on."""
        if self.history is None:
            self._database.submit_durable(history.end)

    @extends
    def measurements(self) -> list[Measurement]:
        """Return the measurements of the history's size."""
        found = self._database.query(history.measure)
        rows = {("tail",): found.tail_rows, ("segments",): found.segment_rows, ("archive",): found.archive_rows}
        sizes = {("segments",): found.segment_bytes, ("archive",): found.archive_bytes}
        return [
            Measurement("mirror_history_rows", "Rows of the history by storage location.", rows, ("place",)),
            Measurement(
                "mirror_history_bytes", "Compressed bytes of the history by storage location.", sizes, ("place",)
            ),
        ]

    def open_history(self, app_id: str, selection: HistorySelection) -> OpenQuery:
        """Open a query for the selected rows at the current time. The caller closes the query.

        Raises:
            ApiError: There is no history (404), the selection is before its start (400), or too many queries are open
                (429).
        """
        query = self._open(app_id, "from", selection)
        if selection.end is not None and selection.end < query.oldest_at:
            query.close()
            raise _before_history("to", query.oldest_at)
        return query

    def open_as_of(self, app_id: str, selection: HistorySelection, instant: Instant) -> OpenQuery:
        """Open a query for the fleet at an earlier time. The caller closes the query.

        Raises:
            ApiError: There is no history (404), the time is before its start or in the future (400), or too many
                queries are open (429).
        """
        now = self._clock.now()
        if instant > now:
            message = (
                f"the instant is in the future; the server's time is {_format(now)}. Omit it for the current state"
            )
            raise ApiError.of_field("as_of", message, reason=YET_TO_COME)
        return self._open(app_id, "as_of", selection, instant)

    def _open(self, app_id: str, field: str, selection: HistorySelection, instant: Instant | None = None) -> OpenQuery:
        if self.history is None:
            message = "this server stores no history; its operator can enable it with --keep-history"
            raise ApiError(404, message, reason=NO_HISTORY)
        api_error = self._slots.acquire(app_id)
        if api_error is not None:
            raise api_error
        try:
            return self.history.open(selection, instant, release=partial(self._slots.release, app_id))
        except TooOld as error:
            raise _before_history(field, error.oldest_at) from None


def _before_history(field: str, oldest_at: Instant) -> ApiError:
    start = _format(oldest_at)
    message = f"the requested time is before the start of the stored history, {start}; request this time or a later one"
    fields = [(field, message)]
    return ApiError(400, f"{field}: {message}", reason=BEFORE_HISTORY, fields=fields, more={"oldest_at": start})


def _format(instant: Instant) -> str:
    return write_timestamp(to_datetime(instant))
