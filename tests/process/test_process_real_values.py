"""Numbers as real devices write them: what the object table declares them to be, wherever a value is shown."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from bare_coap import BareDevice, Devices, send_until
from ports import free_port
from process_server import ServerProcess, wait_until

from mirror_sdk import MirrorClient
from mirror_sdk.widgets.models.explorer_model import ExplorerModel

pytestmark = pytest.mark.process

TEMPERATURE, BATTERY, SWITCH, NAME = "/3303/0/5700", "/3/0/9", "/3311/0/5850", "/3/0/0"
TOLD = {TEMPERATURE: "2.050000e+01", BATTERY: "13.0", SWITCH: "1", NAME: "13.0"}
TYPED = {TEMPERATURE: 20.5, BATTERY: 13, SWITCH: True, NAME: "13.0"}


@pytest.fixture
def device(start_server: Callable[..., ServerProcess]) -> Iterator[tuple[BareDevice, MirrorClient]]:
    port = free_port(socket.SOCK_DGRAM)
    server = start_server("--coap", f"127.0.0.1:{port}")
    with Devices() as devices, MirrorClient(server.url, server.key()) as client:
        made = devices.add(BareDevice(port, "sensor-1", dict(TOLD)))
        send_until(made, made.registration(), lambda: made.location)
        yield made, client


def same(found: object, wanted: object) -> bool:
    """Whether it is this value, and of its type too: for Python 13 is 13.0, and True is 1."""
    return found == wanted and type(found) is type(wanted)


def test_what_is_read_has_the_declared_type_everywhere(device: tuple[BareDevice, MirrorClient]) -> None:
    _, client = device
    for path, wanted in TYPED.items():
        assert same(client.read_value("sensor-1", path), wanted), path
    mirrored = client.get_device("sensor-1")
    assert all(same(mirrored[path].value, wanted) for path, wanted in TYPED.items())
    frame = client.state_frame(["sensor-1"]).set_index("path")
    assert frame.loc[[TEMPERATURE, BATTERY], "reported_num"].tolist() == [20.5, 13]
    assert bool(frame.loc[SWITCH, "reported_bool"]) is True
    assert frame.loc[NAME, "reported_text"] == "13.0"
    explorer = ExplorerModel(client)
    explorer.choose(mirrored.device_id)
    shown = {row["path"]: row["value"] for row in explorer.rows}
    assert shown == {TEMPERATURE: "20.5", BATTERY: "13 %", SWITCH: "true", NAME: "13.0"}


def test_what_is_told_unasked_has_the_declared_type_too(device: tuple[BareDevice, MirrorClient]) -> None:
    real, client = device
    events = client.events(limit=4, paths=[TEMPERATURE, BATTERY])
    for path in (TEMPERATURE, BATTERY):
        client.subscribe("sensor-1", path)
        wait_until(lambda path=path: path in real.observed, "an observation")
    real.send(real.notification(TEMPERATURE, "-1.5E1"))
    real.send(real.notification(BATTERY, "1.2e1"))
    told: dict[str, list[object]] = {TEMPERATURE: [], BATTERY: []}
    for event in events:
        assert event.path is not None
        assert event.value is not None
        told[event.path].append(event.value.python)
    assert [(value, type(value)) for value in told[TEMPERATURE]] == [(20.5, float), (-15.0, float)]
    assert [(value, type(value)) for value in told[BATTERY]] == [(13, int), (12, int)]
