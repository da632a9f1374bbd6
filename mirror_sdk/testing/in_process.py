"""The real server inside the process of a test. Of this kit this module alone imports the server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import httpx

from mirror_server.core.instants import to_datetime
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.hooks import read_settings
from mirror_server.notifications.webhooks import LOOPBACK
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.web.app import MirrorApp, create_app
from mirror_server.web.bridge import Bridge

_PATIENCE_SECONDS = 60
_ROUND_SECONDS = 0.01
_SETTLE_SECONDS = 10
_MOST_POLLS = 1000
_STARTING = threading.Lock()


class InProcessServer:
    """A server on a database in a folder, with a manual clock; nothing in it is mocked.

    Args:
        folder: Where its database is; one that is there is taken up.
    """

    def __init__(self, folder: Path) -> None:
        self._settings = read_settings(
            database_url=f"sqlite:///{folder}/mirror.db",
            simulate=0,
            manual_clock=True,
            callback_networks=LOOPBACK,
            # A test of wrong keys is no attack.
            failed_keys_per_minute=1_000_000,
            max_blocking_polls=_MOST_POLLS,
            poll_share=1,
        )
        self._app_ids: set[str] = set()
        self._quiet = threading.Condition()
        self._under_way = 0
        self._under_way_on_loops = 0
        self.app: MirrorApp | None = None
        self.start()

    @property
    def patience_seconds(self) -> float:
        """How long it waits for the answer of a device."""
        return self._settings.answer_timeout_seconds

    def start(self) -> None:
        """Begin to serve."""
        # Two databases cannot be made at the same time: what makes them keeps its state in the process.
        with _STARTING:
            self._services = Services(self._settings)
        self._services.start()
        self.app = create_app(self._services)

    def stop(self) -> None:
        """Stop; open polls are ended first, and what was accepted is on disk. Harmless when it is stopped."""
        if self.app is None:
            return
        end_at = time.monotonic() + _PATIENCE_SECONDS
        with self._quiet:
            self.app = None
            while self._waits_for_anybody() and time.monotonic() < end_at:
                self._wake_polls()
                # One that was just about to wait is woken in the next round.
                self._quiet.wait(_ROUND_SECONDS)
        self._wake_polls()
        self._services.close()

    def _waits_for_anybody(self) -> bool:
        if self._under_way:
            return True
        # The tasks of a loop cannot end while the loop itself waits here.
        return bool(self._under_way_on_loops) and not _is_on_loop()

    def _wake_polls(self) -> None:
        for app_id in self._app_ids:
            self._services.log.wake(app_id)

    def now(self) -> datetime:
        """The server's present, in UTC."""
        return to_datetime(self._services.clock.now())

    def new_key(self, scopes: Iterable[str]) -> str:
        """A new access key, whose log begins now."""
        chosen = [Scope(scope) for scope in scopes]
        key = keys.create(self._services.database, "test", chosen, self._services.clock.now())
        app_id = key.split("_")[1]
        self._app_ids.add(app_id)
        self._services.log.keep_for(app_id)
        return key

    def add_devices(self, count: int, seed: int) -> list[str]:
        """Add simulated devices of a seed; gives their ids."""
        added = self._services.part(SimulatorControl).run(lambda control: control.backend.add_seeded(count, seed))
        return added.result(_PATIENCE_SECONDS)

    def send(self, request: httpx.Request) -> httpx.Response:
        """Carry a request over WSGI; what it causes has happened on return.

        Raises:
            httpx.ConnectError: The server is stopped.
            httpx.ReadError: It was stopped while it was at it.
        """
        with self.serving(request) as app:
            response = httpx.WSGITransport(app=app).handle_request(request)
            self.settle(request)
        return response

    @contextmanager
    def serving(self, request: httpx.Request, *, is_on_loop: bool = False) -> Iterator[MirrorApp]:
        """Have the app serve a request; the server does not stop meanwhile, unless a loop waits for that.

        Raises:
            httpx.ConnectError: The server is stopped.
            httpx.ReadError: It was stopped meanwhile, which loses the answer as a connection would.
        """
        with self._quiet:
            app = self.app
            if app is None:
                raise httpx.ConnectError("the server is stopped", request=request)
            self._count(1, is_on_loop=is_on_loop)
        try:
            yield app
        finally:
            with self._quiet:
                self._count(-1, is_on_loop=is_on_loop)
                self._quiet.notify_all()
        if self.app is not app:
            raise httpx.ReadError("the server was stopped before its answer was complete", request=request)

    def _count(self, change: int, *, is_on_loop: bool) -> None:
        if is_on_loop:
            self._under_way_on_loops += change
        else:
            self._under_way += change

    def settle(self, request: httpx.Request) -> None:
        """Wait until all that a request caused has happened; reading causes nothing."""
        if request.method != "GET":
            self._services.database.settle(_SETTLE_SECONDS)

    def new_bridge(self, app: MirrorApp) -> httpx.ASGITransport:
        """The way over ASGI to an app, for one event loop."""
        return httpx.ASGITransport(app=Bridge(app, replace(self._settings, max_parked_polls=_MOST_POLLS)))


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
