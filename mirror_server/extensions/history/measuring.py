"""Metrics of the history."""

from __future__ import annotations

from mirror_server.extensions.history.store import maintenance
from mirror_server.hooks import Measurement, extends
from mirror_server.store.database import Database


class Measured:
    """Measures the history in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @extends
    def measurements(self) -> list[Measurement]:
        """How large it is."""
        with self._database.read() as session:
            found = maintenance.measure(session)
        rows = {("tail",): found.tail_rows, ("segments",): found.segment_rows, ("archive",): found.archive_rows}
        sizes = {("segments",): found.segment_bytes, ("archive",): found.archive_bytes}
        return [
            Measurement("mirror_history_rows", "Rows of the history by place.", rows, ("place",)),
            Measurement("mirror_history_bytes", "Size of the compressed history by place.", sizes, ("place",)),
        ]
