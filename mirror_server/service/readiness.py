"""Whether the server can store changes."""

from __future__ import annotations

from concurrent.futures import Future

from mirror_server.store.database import Database
from mirror_server.store.session import Session


class Readiness:
    """Writes something whenever somebody asks; one write at a time tells all who ask, as they need no key for it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._probe: Future[None] | None = None

    def probe(self) -> Future[None]:
        """A future that is done when something could be stored; it raises what a write raises."""
        if self._probe is None or self._probe.done():
            self._probe = self._database.submit(Session.probe)
        return self._probe
