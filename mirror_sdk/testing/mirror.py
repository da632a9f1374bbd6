"""A complete mirror inside a test: the real server with simulated devices, a clock that stands still, and clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from mirror_sdk._async_client import AsyncMirrorClient
from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk.events import Event, read_events
from mirror_sdk.simulator.operations import simulator_id_of
from mirror_sdk.simulator.simulator import Simulator
from mirror_sdk.testing.async_clients import AsyncUnpausedClient
from mirror_sdk.testing.clients import UnpausedClient
from mirror_sdk.testing.clock import Clock
from mirror_sdk.testing.device import FleetDevice
from mirror_sdk.testing.faults import Faults
from mirror_sdk.testing.transport import AsyncFaultyTransport, FaultyTransport

if TYPE_CHECKING:
    from mirror_sdk.testing.in_process import InProcessServer

DEFAULT_SCOPES = ("read", "write", "subscribe")
_TIMEOUT_SECONDS = 30.0


class Mirror:
    """A complete mirror in this process: the server with a database in ``folder``, reached without a network.

    Outside of a test with fixtures, use it in a ``with`` statement, or call :meth:`close`.

    Args:
        folder: The folder of the database. If it has a database, the mirror uses that.
        settings: Settings of the server and its extensions, by field name, such as ``keep_log_seconds=60``. The
            defaults are those of the fixtures.

    Attributes:
        url: The base URL for clients. It only works with ``transport``.
        simulator: Controls the devices. No fault acts on it.
        clock: The mirror's time.
        faults: Injects faults into connections, devices and the server.
        client: A client, whose notification log starts with the mirror.
        transport: The transport for a ``MirrorClient`` or ``httpx.Client`` that the code under test creates.

    Raises:
        ImportError: The server is not installed.
    """

    url = "http://mirror.localhost"

    def __init__(self, folder: Path, **settings: Any) -> None:
        self._server = _new_server(folder, settings)
        self._clients: list[MirrorClient] = []
        operator = self._close_later(MirrorClient(self.url, self.new_key(["admin"]), transport=self._server))
        self.simulator: Simulator = Simulator(operator)
        self.faults: Faults = Faults(
            now=self._server.now,
            set_response_mode=self.simulator.set_response_mode,
            id_of=lambda device: operator._session.run(simulator_id_of(device)),
            restart_server=self.restart,
            patience_seconds=self._server.patience_seconds,
        )
        self.clock: Clock = Clock(self.simulator, moved=self.faults.wake)
        self.transport: httpx.BaseTransport = FaultyTransport(self._server, self.faults, self.clock.advance)
        self.client: MirrorClient = self.new_client()

    def __repr__(self) -> str:
        return f"<Mirror {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def new_key(self, scopes: Iterable[str] = DEFAULT_SCOPES) -> str:
        """Create an access key of a new application, whose notification log starts now.

        Args:
            scopes: Any of ``read``, ``write``, ``subscribe`` and ``admin``.

        Raises:
            ValueError: A scope does not exist.
        """
        return self._server.new_key(scopes)

    def new_client(
        self,
        api_key: str | None = None,
        *,
        scopes: Iterable[str] = DEFAULT_SCOPES,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> MirrorClient:
        """Create a client. It is closed together with the mirror.

        Args:
            api_key: Access key; a new one with ``scopes`` by default.
            scopes: The scopes of the new key.
            timeout: The time limit of an HTTP request in seconds; see :meth:`Faults.delay`.
        """
        key = api_key or self.new_key(scopes)
        return self._close_later(UnpausedClient(self.url, key, timeout=timeout, transport=self.transport))

    def new_async_client(
        self,
        api_key: str | None = None,
        *,
        scopes: Iterable[str] = DEFAULT_SCOPES,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> AsyncMirrorClient:
        """Create a client for the running event loop. Use it in ``async with``.

        The arguments are those of :meth:`new_client`.
        """
        key = api_key or self.new_key(scopes)
        return AsyncUnpausedClient(self.url, key, timeout=timeout, transport=self.new_async_transport())

    def new_async_transport(self) -> httpx.AsyncBaseTransport:
        """Create a transport like ``transport`` for an asynchronous client."""
        return AsyncFaultyTransport(self._server, self.faults, self.clock.advance)

    def add_fleet(self, n: int, seed: int = 0) -> list[FleetDevice]:
        """Add simulated devices, with values that follow the clock.

        The kinds alternate: thermometer, weather station, light, smart plug, door contact, thermostat. The same calls
        give the same devices, ids and values in every run. ``simulator.add_device`` adds a custom device.

        Args:
            n: The number of devices.
            seed: The seed of their ids and values.

        Raises:
            ValueError: ``n`` is negative.
        """
        if n < 0:
            raise ValueError(f"n={n} must be 0 or more")
        added = self._server.add_devices(n, seed)
        listed = {device.id: device for device in self.simulator.list_devices()}
        return [FleetDevice.of(listed[device_id], self.simulator) for device_id in added]

    def read_log(self, client: MirrorClient | None = None, *, after: int = 0) -> list[Event]:
        """Return the events that a client's notification log has now, with the effects of faults.

        Args:
            client: The client; ``mirror.client`` by default.
            after: Only events after the entry with this number (``Event.seq``).
        """
        reader = LogReader((client or self.client)._session.sender.send, after=after)
        events: list[Event] = []
        before: int | None = None
        # A read returns one message, and the log may have more.
        while reader.position != before:
            before = reader.position
            events += read_events(reader.read(0), self.clock.now())
        return events

    def restart(self) -> None:
        """Stop the server and start it again on the same database, as after an upgrade."""
        self._server.stop()
        self._server.start()

    def close(self) -> None:
        """Close the clients and stop the server."""
        self.faults.clear()
        for client in self._clients:
            client.close()
        self._server.stop()

    def _close_later(self, client: MirrorClient) -> MirrorClient:
        self._clients.append(client)
        return client


def _new_server(folder: Path, settings: Mapping[str, Any]) -> InProcessServer:
    try:
        # Imported here: the server is an extra that only users of this kit need.
        from mirror_sdk.testing.in_process import InProcessServer
    except ImportError as exc:
        raise ImportError('mirror_sdk.testing runs the server: pip install "device-state-mirror[server]"') from exc
    return InProcessServer(folder, **settings)
