"""A LwM2M device behind DTLS: requests come over the session it opened, and a wrong key stays out."""

from __future__ import annotations

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coap_device import QUICK, Registry, until
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
async def running_behind_relay(
    registry: Registry, clock: ManualClock, lines: list[str], tuning: Tuning = DEVICE_TUNING
) -> AsyncIterator[tuple[CoapEndpoint, UdpRelay]]:
    """A device that goes on by itself, and the relay between it and its server."""
    endpoint = await listen(registry, coaps=("127.0.0.1", 0), keys={"boiler": KEY}.get, tuning=QUICK)
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


async def test_a_server_that_knows_the_session_no_more_is_noticed_and_gets_another() -> None:
    registry, clock, lines = Registry(), ManualClock(0), []
    quick = Tuning(ack_timeout_seconds=0.05)
    async with running_behind_relay(registry, clock, lines, quick) as (endpoint, relay):
        relay.fate = drop_all()
        while "hears nothing from the server; connects anew" not in lines:
            clock.advance(1_000)
            await asyncio.sleep(0.001)
        relay.fate = faithful
        await until(lambda: len(registry.requests) == 2)
        (first, registration), (second, update) = registry.requests
        assert (registration.path, update.path) == ("/rd", "/rd/1")
        assert first.address != second.address
        assert endpoint.counts.handshakes == 2


async def test_a_device_whose_session_ends_makes_another_handshake_at_once() -> None:
    registry, clock, lines = Registry(), ManualClock(0), []
    async with running_behind_relay(registry, clock, lines) as (endpoint, _):
        endpoint.end_sessions("boiler")
        await until(lambda: len(registry.requests) == 2)
        assert [request.path for _, request in registry.requests] == ["/rd", "/rd/1"]
        assert endpoint.counts.handshakes == 2
        assert lines[-1] == "the DTLS session ended; connects anew"


async def test_a_restarted_server_has_a_device_make_another_handshake_with_its_next_message() -> None:
    registry, clock, lines = Registry(), ManualClock(0), []
    async with running_behind_relay(registry, clock, lines) as (_, relay):
        restarted = await listen(registry, coaps=("127.0.0.1", 0), keys={"boiler": KEY}.get, tuning=QUICK)
        relay._server = restarted.coaps_address
        clock.advance(30_000)
        await until(lambda: len(registry.requests) == 2)
        assert [request.path for _, request in registry.requests] == ["/rd", "/rd/1"]
        assert restarted.counts.handshakes == 1
        assert lines[-1] == "the DTLS session ended; connects anew"
        await restarted.close()


def test_a_key_is_shown_nowhere_and_fits_the_library() -> None:
    assert "secret" not in repr(PreSharedKey(b"boiler", b"secret"))
    for identity, secret in ((b"", KEY), (b"x" * 33, KEY), (b"boiler", b""), (b"boiler", bytes(17))):
        with pytest.raises(ValueError, match="bytes"):
            PreSharedKey(identity, secret)
