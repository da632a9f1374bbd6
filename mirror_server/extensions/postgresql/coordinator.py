"""The coordination of several servers on one PostgreSQL database. They elect a leader and forward requests to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from mirror_server.config import Settings
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.postgresql.forwarded_requests import ForwardedRequests
from mirror_server.extensions.postgresql.forwarding import Forwarder
from mirror_server.extensions.postgresql.leader_requests import forward
from mirror_server.extensions.postgresql.leadership import Leadership
from mirror_server.extensions.postgresql.store import processes
from mirror_server.extensions.postgresql.store.backend import PostgresBackend
from mirror_server.hooks import extends
from mirror_server.server import Coordinator, Services
from mirror_server.store.backend import redacted
from mirror_server.web.asgi_bridge import ASGIBridge

_LAST_SECONDS = 3
_FORGET_SECONDS = 3600


class PostgresCoordinator(Coordinator):
    """The coordinator of a server that may be one of several.

    Args:
        services: See :class:`Coordinator`.

    Raises:
        DatabaseError: See :class:`Coordinator`.
    """

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._database = services.database
        settings = services.settings
        self.leadership = Leadership(
            cast("PostgresBackend", self._database.backend).election(),
            redacted(settings.database_url),
            self._database,
            options=_shared_settings(settings, services.extensions.hook.shared_settings(settings=settings)),
            is_alone=settings.manual_clock,
        )

    @property
    def is_leader(self) -> bool:
        """See :class:`Coordinator`."""
        return bool(self.leadership.token)

    def join(self) -> None:
        """See :class:`Coordinator`."""
        self.forwarder = Forwarder(self._database, self._services.clock, lambda: self.leadership.token)
        self.forward = partial(forward, self.forwarder)

    def start(self) -> None:
        """See :class:`Coordinator`."""
        self.leadership.start(self._services, self.forwarder)

    def respond_with(self, app: Any) -> None:
        """See :class:`Coordinator`."""
        bridge = ASGIBridge(app, self._services.settings)
        self.forwarder.responder = ForwardedRequests(self._database, self.forwarder, bridge)

    def is_alive(self, process_id: str) -> bool:
        """See :class:`Coordinator`."""
        return self._database.query(lambda session: processes.is_alive(session, process_id))

    @extends
    def every_hour(self, now: Instant) -> None:
        """Delete the rows of processes that have stored nothing for an hour, and old calls."""
        before = after_seconds(now, -_FORGET_SECONDS)
        self._database.submit_durable(lambda session: processes.forget_before(session, before))

    def stop(self) -> None:
        """See :class:`Coordinator`."""
        self.leadership.stop()
        if self.forwarder.responder is not None:
            self.forwarder.responder.close()

    def close(self) -> None:
        """See :class:`Coordinator`."""
        # Wait for pending writes, because the database drops everything that is stored after this process stops
        # leading.
        self._database.settle(_LAST_SECONDS)
        self.leadership.close()


def _shared_settings(settings: Settings, of_extensions: Sequence[str]) -> str:
    """Return the settings that must be the same for all processes on one database, as words of a message."""
    clock = "with --clock manual" if settings.manual_clock else "by the clock of the system"
    more = [each for each in of_extensions if each.startswith(",")]
    first = [each for each in of_extensions if each and each not in more]
    return " and ".join([*first, clock]) + "".join(more)
