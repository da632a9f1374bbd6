"""The CoAP endpoint with aiocoap on the other side: whole exchanges as a device of other make does them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

import aiocoap
import aiocoap.resource
from coap_device import Registry, until

from mirror_server.devices.lwm2m.coap import CoapEndpoint
from mirror_server.devices.lwm2m.exchange import Peer, Request, Response

pytestmark = pytest.mark.anyio

FIRMWARE = bytes(range(256)) * 20


class Value(aiocoap.resource.ObservableResource):
    """A resource of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.content = FIRMWARE
        self.asked: list[tuple[int | None, int | None]] = []

    async def render_get(self, request: aiocoap.Message) -> aiocoap.Message:
        self.asked.append((request.opt.accept, request.opt.observe))
        return aiocoap.Message(payload=self.content, content_format=42)

    async def render_put(self, request: aiocoap.Message) -> aiocoap.Message:
        self.content = request.payload
        return aiocoap.Message(code=aiocoap.CHANGED)

    def update(self, content: bytes) -> None:
        self.content = content
        self.updated_state()


@pytest.fixture
async def value() -> AsyncIterator[Value]:
    value = Value()
    site = aiocoap.resource.Site()
    site.add_resource(["19", "0", "0"], value)
    value.context = await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", 0), transports=["udp6"])
    yield value
    await value.context.shutdown()


@pytest.fixture
async def peer(endpoint: CoapEndpoint, registry: Registry, value: Value) -> Peer:
    """A device of aiocoap, which registered with more links than go into a datagram."""
    links = ",".join(f"</3303/{number}>" for number in range(400)).encode()
    uri = f"coap://127.0.0.1:{endpoint.coap_address[1]}/rd?ep=boiler&lt=300"
    request = aiocoap.Message(code=aiocoap.POST, uri=uri, payload=links, content_format=40)
    answer = await value.context.request(request).response
    assert (str(answer.code), answer.opt.location_path) == ("2.01 Created", ("rd", "1"))
    [(peer, seen)] = registry.requests
    assert seen == Request("POST", "/rd", ("ep=boiler", "lt=300"), links, content_format=40)
    return peer


async def test_a_long_value_is_read_and_written_in_blocks(endpoint, peer, value):
    read = Request("GET", "/19/0/0", accept=42)
    assert await endpoint.request(peer, read) == Response("2.05", FIRMWARE, content_format=42)
    assert {accept for accept, _ in value.asked} == {42}
    write = Request("PUT", "/19/0/0", payload=FIRMWARE[:3_000], content_format=42)
    assert (await endpoint.request(peer, write)).code == "2.04"
    assert value.content == FIRMWARE[:3_000]
    assert (await endpoint.request(peer, Request("GET", "/19/0/1"))).code == "4.04"


async def test_an_observation_is_begun_notified_and_cancelled(registry, endpoint, peer, value):
    observe = Request("GET", "/19/0/0", accept=42)
    begun = await endpoint.observe(peer, observe, b"mine")
    assert begun.response.payload == FIRMWARE
    value.update(b"short")
    await until(lambda: len(registry.notifications) == 1)
    told = registry.notifications[0]
    assert (told.token, told.response.payload, told.is_whole) == (b"mine", b"short", True)
    assert told.sequence > begun.sequence
    value.update(FIRMWARE)
    await until(lambda: len(registry.notifications) == 2)
    assert registry.notifications[1].response.payload == FIRMWARE
    assert (await endpoint.cancel(peer, observe, b"mine")).is_success
    value.update(b"nobody hears it")
    assert (await endpoint.request(peer, observe)).payload == b"nobody hears it"
    assert len(registry.notifications) == 2


async def test_a_reset_ends_an_observation_at_the_device(registry, endpoint, peer, value):
    value.content = b"1"
    await endpoint.observe(peer, Request("GET", "/19/0/0"), b"lost")
    value.update(b"2")
    await until(lambda: not value._observations)
    assert endpoint.counts.resets_sent == 1
    value.update(b"3")
    assert (await endpoint.request(peer, Request("GET", "/19/0/0"))).payload == b"3"
    assert len(registry.notifications) == 1
