"""Fleet snapshots of a real server: interrupted connections, slow readers, and concurrent writes. Source: wire.md 7."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pandas as pd
import pytest
from process_server import ServerProcess
from resource_paths import TEMPERATURE

from mirror_sdk import MirrorClient, Simulator
from mirror_sdk.wire.snapshot import ARROW

pytestmark = pytest.mark.process
LARGE = "x" * 60_000
LARGE_PATHS = [f"/9999/{number}/1" for number in range(10)]
DEVICES = 24


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A fleet whose snapshot is larger than all buffers between server and client."""
    running = ServerProcess(tmp_path_factory.mktemp("snapshot"), "--simulate", "0").start()
    with MirrorClient(running.url, running.key()) as client:
        simulator = Simulator(client)
        for number in range(DEVICES):
            add_large_device(client, simulator, f"device-{number:02}")
    yield running
    running.close()


def add_large_device(client: MirrorClient, simulator: Simulator, name: str) -> None:
    """Add a device with ten large values and a number with notifications."""
    resources = [{"path": path, "value": LARGE, "observable": True} for path in LARGE_PATHS]
    resources.append({"path": TEMPERATURE, "value": "0", "observable": True, "auto_observable": True})
    device_id = simulator.add_device(name, resources)
    requests = [client.requests.begin_read(device_id, path) for path in [*LARGE_PATHS, TEMPERATURE]]
    for request in requests:
        request.result(60)


def begin(server: ServerProcess) -> socket.socket:
    """Request a snapshot without reading the response."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    head = f"GET /v3/device-echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key()}\r\nAccept: {ARROW}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def read_some(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (chunk := connection.recv(count - len(found))):
        found += chunk
    return found


def test_stalled_reader_does_not_block_others(server: ServerProcess) -> None:
    with closing(begin(server)) as stalled, MirrorClient(server.url, server.key()) as client:
        assert read_some(stalled, 100_000).startswith(b"HTTP/1.1 200")
        device = client.devices.list()[0].id
        for _ in range(20):
            client.read_value(device, TEMPERATURE, timeout=60)
        assert len(client.fleet.snapshot()) == 11 * DEVICES
        assert len(read_some(stalled, 5_000_000)) == 5_000_000


def test_it_shows_one_instant_while_devices_report(server: ServerProcess) -> None:
    """Every device is set to the same number, round after round. A table contains at most two consecutive rounds."""
    stop = threading.Event()
    with MirrorClient(server.url, server.key()) as writer, MirrorClient(server.url, server.key()) as client:
        simulator = Simulator(writer)
        ids = client.devices.list().ids

        def report() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                for device_id in ids:
                    simulator.set_value(device_id, TEMPERATURE, str(number))

        thread = threading.Thread(target=report)
        thread.start()
        try:
            frames = [client.fleet.snapshot(paths=[TEMPERATURE]) for _ in range(8)]
            refreshed = frames[0]
            for _ in range(8):
                refreshed = refreshed.mirror.refresh(client)
                frames.append(refreshed)
        finally:
            stop.set()
            thread.join(120)
        pd.testing.assert_frame_equal(refreshed.mirror.refresh(client), client.fleet.snapshot(paths=[TEMPERATURE]))
    for frame in frames:
        numbers = frame.set_index("device_id")["reported_num"].astype(float).reindex(ids)
        # In the order of the writes: first the devices of the new round, then those of the previous one.
        assert numbers.is_monotonic_decreasing
        assert numbers.iloc[0] - numbers.iloc[-1] <= 1
    assert frames[7]["reported_num"].max() > frames[0]["reported_num"].min()


def test_a_server_that_stops_cuts_them_off(server: ServerProcess) -> None:
    with closing(begin(server)) as stalled:
        read_some(stalled, 1000)
        assert server.stop() == 0
        rest = b""
        while chunk := stalled.recv(1 << 20):
            rest = rest[-8:] + chunk
        assert not rest.endswith(b"0\r\n\r\n")
