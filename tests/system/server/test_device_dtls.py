"""A LwM2M device with DTLS: lost sessions, new handshakes, and checks of its key."""

from __future__ import annotations

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coap_device import QUICK, RecordingHandler, until
from udp_relay import UdpRelay, drop_all, faithful

from mirror_server.clock import ManualClock
from mirror_server.extensions.lwm2m.coap import CoapEndpoint, listen
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.coap_socket import DEVICE_TUNING, PreSharedKey
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice
from mirror_server.extensions.lwm2m.device.fleet import DeviceRunner
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice

pytestmark = pytest.mark.anyio

KEY = bytes(range(16))


@asynccontextmanager
async def running_with_relay(
    handler: RecordingHandler, clock: ManualClock, lines: list[str], tuning: Tuning = DEVICE_TUNING
) -> AsyncIterator[tuple[CoapEndpoint, UdpRelay]]:
    """Run a device with a relay. Yield the endpoint and the relay."""
    endpoint = await listen(handler, coaps=("127.0.0.1", 0), keys={"boiler": KEY}.get, tuning=QUICK)
    async with UdpRelay(endpoint.coaps_address) as relay:
        model = ModelledDevice("light", "boiler", 0, clock.now, lambda path, argument: None)
        url, key = f"coaps://127.0.0.1:{relay.address[1]}", PreSharedKey(b"boiler", KEY)
        device = LwM2MDevice(url, "boiler", model.resources, key=key, tuning=tuning, clock=clock)
        runner = DeviceRunner(device, model, clock, lines.append)
        await runner.start()
        running = asyncio.create_task(runner.run())
        await asyncio.sleep(0)
        try:
            yield endpoint, relay
        finally:
            running.cancel()
            await runner.stop()
            await endpoint.close()


async def test_unresponsive_server_gets_a_new_session() -> None:
    handler, clock, lines = RecordingHandler(), ManualClock(0), []
    quick = Tuning(ack_timeout_seconds=0.05)
    async with running_with_relay(handler, clock, lines, quick) as (endpoint, relay):
        relay.fate = drop_all()
        while "no response from the server; reconnecting" not in lines:
            clock.advance(1_000)
            await asyncio.sleep(0.001)
        relay.fate = faithful
        await until(lambda: len(handler.requests) == 2)
        (first, registration), (second, update) = handler.requests
        assert (registration.path, update.path) == ("/rd", "/rd/1")
        assert first.address != second.address
        assert endpoint.counts.handshakes == 2


async def test_device_starts_new_handshake_when_session_ends() -> None:
    handler, clock, lines = RecordingHandler(), ManualClock(0), []
    async with running_with_relay(handler, clock, lines) as (endpoint, _):
        endpoint.end_sessions("boiler")
        await until(lambda: len(handler.requests) == 2)
        assert [request.path for _, request in handler.requests] == ["/rd", "/rd/1"]
        assert endpoint.counts.handshakes == 2
        assert lines[-1] == "the DTLS session ended; reconnecting"


async def test_restarted_server_triggers_new_handshake_with_next_message() -> None:
    handler, clock, lines = RecordingHandler(), ManualClock(0), []
    async with running_with_relay(handler, clock, lines) as (_, relay):
        restarted = await listen(handler, coaps=("127.0.0.1", 0), keys={"boiler": KEY}.get, tuning=QUICK)
        relay._server = restarted.coaps_address
        clock.advance(30_000)
        await until(lambda: len(handler.requests) == 2)
        assert [request.path for _, request in handler.requests] == ["/rd", "/rd/1"]
        assert restarted.counts.handshakes == 1
        assert lines[-1] == "the DTLS session ended; reconnecting"
        await restarted.close()


def test_key_is_hidden_in_repr_and_its_length_is_checked() -> None:
    assert "secret" not in repr(PreSharedKey(b"boiler", b"secret"))
    for identity, secret in ((b"", KEY), (b"x" * 33, KEY), (b"boiler", b""), (b"boiler", bytes(17))):
        with pytest.raises(ValueError, match="bytes"):
            PreSharedKey(identity, secret)
