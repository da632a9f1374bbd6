"""The real server in the process of a test.

This is the only module of the test support that imports the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from mirror_server.core.timestamps import to_datetime
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.hooks import read_settings
from mirror_server.notifications.webhook_limits import LOOPBACK
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.web.flask_app import MirrorApp, create_app

_PATIENCE_SECONDS = 60
_ROUND_SECONDS = 0.01
_SETTLE_SECONDS = 10
_MOST_POLLS = 1000
_STARTING = threading.Lock()


class _Caller(threading.local):
    """The client request that the app is processing in this thread.

    Callers in other threads, such as a server in a test, never cancel a request.
    """

    is_canceled: Callable[[], bool] = staticmethod(lambda: False)


class InProcessServer(httpx.BaseTransport):
    """The real server with a manual clock and a database in a folder, and the transport to it. Nothing is mocked.

    Args:
        folder: The folder of the database. An existing database is used.
        settings: Further settings of the server, by the names of their fields.
    """

    def __init__(self, folder: Path, **settings: Any) -> None:
        usual = {
            "database_url": f"sqlite:///{folder}/mirror.db",
            "simulate": 0,
            "manual_clock": True,
            "callback_networks": LOOPBACK,
            # Tests may send many wrong keys, so such requests are not limited.
            "failed_keys_per_minute": 1_000_000,
            "max_blocking_polls": _MOST_POLLS,
            "poll_share": 1,
        }
        self._settings = read_settings(**(usual | settings))
        self._app_ids: set[str] = set()
        self._quiet = threading.Condition()
        self._in_flight = 0
        self._caller = _Caller()
        self.app: MirrorApp | None = None
        self.start()

    @property
    def patience_seconds(self) -> float:
        """The time for which the server waits for the response of a device, in seconds."""
        return self._settings.answer_timeout_seconds

    def start(self) -> None:
        """Start the server."""
        # Two databases cannot be created at the same time, because the migrations have process-wide state.
        with _STARTING:
            self._services = Services(self._settings)
        self._services.start()
        self.app = create_app(self._services)
        self.app.is_disconnected = lambda _: self._caller.is_canceled()

    def stop(self) -> None:
        """Stop the server after open polls have ended and accepted requests are on disk.

        If the server is stopped already, this does nothing.
        """
        if self.app is None:
            return
        end_at = time.monotonic() + _PATIENCE_SECONDS
        with self._quiet:
            # This comes first, so that no new request starts while the open requests end.
            self.app = None
            while self._in_flight and time.monotonic() < end_at:
                self._wake_polls()
                # A poll that was just about to wait is woken in the next round.
                self._quiet.wait(_ROUND_SECONDS)
        self._wake_polls()
        self._services.close()

    def _wake_polls(self) -> None:
        for app_id in self._app_ids:
            self._services.log.wake(app_id)

    def now(self) -> datetime:
        """Return the current time of the server, in UTC."""
        return to_datetime(self._services.clock.now())

    def new_key(self, scopes: Iterable[str]) -> str:
        """Create an access key. Its notification log starts now."""
        chosen = [Scope(scope) for scope in scopes]
        key = keys.create(self._services.database, "test", chosen, self._services.clock.now())
        app_id = key.split("_")[1]
        self._app_ids.add(app_id)
        self._services.log.ensure_log(app_id)
        return key

    def add_devices(self, count: int, seed: int) -> list[str]:
        """Add simulated devices that are generated from a seed, and return their ids."""
        added = self._services.part(SimulatorControl).run(lambda control: control.backend.add_seeded(count, seed))
        return added.result(_PATIENCE_SECONDS)

    def handle_request(self, request: httpx.Request, is_canceled: Callable[[], bool] = lambda: False) -> httpx.Response:
        """Send a request to the server over WSGI. All effects of the request are complete when the method returns.

        Args:
            request: The request.
            is_canceled: A function that returns whether the client has stopped waiting for the response. If it has, an
                open poll ends.

        Raises:
            httpx.ConnectError: The server is stopped.
            httpx.ReadError: The server was stopped before the response was complete.
        """
        with self._quiet:
            app = self.app
            if app is None:
                raise httpx.ConnectError("the server is stopped", request=request)
            self._in_flight += 1
        self._caller.is_canceled = is_canceled
        try:
            response = httpx.WSGITransport(app=app).handle_request(request)
            # Reads have no effects to wait for.
            if request.method != "GET":
                self._services.database.settle(_SETTLE_SECONDS)
        finally:
            with self._quiet:
                self._in_flight -= 1
                self._quiet.notify_all()
        if self.app is not app:
            raise httpx.ReadError("the server was stopped before its response was complete", request=request)
        return response
