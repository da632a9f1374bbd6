"""A complete mirror inside a test: the real server, its devices, a clock that stands still, and clients."""

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
    """A complete mirror in this process.

    The server has a database in ``folder``. Clients call it directly, without a network.

    The pytest fixtures create and close a mirror for each test. If you create one yourself, use it in a ``with``
    statement, or call :meth:`close`.

    Args:
        folder: The folder of the database. An existing database in it is used.
        settings: Settings of the server and its extensions, by the names of their fields, such as
            ``keep_log_seconds=60``. The defaults are the same as for the fixtures.

    Attributes:
        url: The base URL for clients. It works only with ``transport``.
        simulator: The simulator, which controls the devices. It is not affected by faults.
        clock: The clock of the mirror.
        faults: The methods that inject faults into connections, devices and the server.
        client: A client of the mirror. Its notification log contains all events since the mirror started.
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
        """Create an access key for a new application. Its notification log starts now.

        Args:
            scopes: The scopes of the key, any of ``read``, ``write``, ``subscribe`` and ``admin``.

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
        """Create a client that is closed together with the mirror.

        Args:
            api_key: The access key. By default, a new key with ``scopes`` is created.
            scopes: The scopes of the new key.
            timeout: The timeout of an HTTP request in seconds; see :meth:`Faults.delay`.
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
        """Create a client for the running event loop. Use it in an ``async with`` statement.

        For the arguments, see :meth:`new_client`.
        """
        key = api_key or self.new_key(scopes)
        return AsyncUnpausedClient(self.url, key, timeout=timeout, transport=self.new_async_transport())

    def new_async_transport(self) -> httpx.AsyncBaseTransport:
        """Create a transport for an asynchronous client. It is the counterpart of ``transport``."""
        return AsyncFaultyTransport(self._server, self.faults, self.clock.advance)

    def add_fleet(self, n: int, seed: int = 0) -> list[FleetDevice]:
        """Add simulated devices whose values follow the clock.

        The kinds of devices alternate: thermometer, weather station, light, smart plug, door contact, thermostat. The
        same calls create the same devices with the same ids and values in every run. To add a custom device, use
        ``simulator.add_device``.

        Args:
            n: The number of devices.
            seed: The seed for the ids and values of the devices.

        Raises:
            ValueError: ``n`` is negative.
        """
        if n < 0:
            raise ValueError(f"n={n} must be 0 or more")
        added = self._server.add_devices(n, seed)
        listed = {device.id: device for device in self.simulator.list_devices()}
        return [FleetDevice.of(listed[device_id], self.simulator) for device_id in added]

    def read_log(self, client: MirrorClient | None = None, *, after: int = 0) -> list[Event]:
        """Return the events in a client's notification log, as faults have changed them.

        Args:
            client: The client; ``mirror.client`` by default.
            after: The number of a log entry (``Event.seq``). Only later events are returned.
        """
        reader = LogReader((client or self.client)._session.sender.send, after=after)
        events: list[Event] = []
        before: int | None = None
        # A read returns one message, but the log may have more.
        while reader.position != before:
            before = reader.position
            events += read_events(reader.read(0), self.clock.now())
        return events

    def restart(self) -> None:
        """Stop the server and start it again with the same database, as in an upgrade."""
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
        # The server is imported here, because it is an optional extra that only users of the test support need.
        from mirror_sdk.testing.in_process import InProcessServer
    except ImportError as exc:
        raise ImportError('mirror_sdk.testing runs the server: pip install "device-state-mirror[server]"') from exc
    return InProcessServer(folder, **settings)
