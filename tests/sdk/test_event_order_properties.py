"""Whatever happens in whatever order, every reader has the log: in its order, once, with the time of every kind."""

import json
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from resource_paths import TEMPERATURE

import mirror_server.notifications.log
from mirror_sdk import BadRequest, MirrorClient, WebhookReceiver
from mirror_sdk.wire.routes import CALLBACK
from mirror_server.store import logs

URL = "http://mirror.localhost"
KINDS = {
    "async-responses": "async_response",
    "notifications": "observation",
    "registrations": "registration",
    "reg-updates": "reg_update",
    "de-registrations": "deregistration",
    "registrations-expired": "expired",
}
DAY = 24 * 3600
ACTS = ["set", "set", "register", "update_registration", "deregister", "expire", "read", "write", "fail"]
INTERLEAVINGS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 1)), min_size=1, max_size=7)
FEW = settings(
    max_examples=6,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass
class World:
    """A fleet of two devices and an application of its own, whose log begins now."""

    mirror: Any
    bench: Any
    plain: MirrorClient
    devices: list[str]

    def act(self, what: str, number: int) -> None:
        device, bench = self.devices[number], self.bench
        if what == "set":
            bench.set_value(device, TEMPERATURE, str(bench.get_clock().timestamp()))
        elif what == "expire":
            bench.set_online(device, False)
            bench.advance(DAY)
            bench.set_online(device, True)
        elif what in {"read", "write", "fail"}:
            bench.set_answer(device, "silent" if what == "fail" else "normal")
            begin = {"write": lambda: self.plain.begin_write(device, TEMPERATURE, 1.5, allow_read_only=True)}
            begin.get(what, lambda: self.plain.begin_read(device, TEMPERATURE))()
            self.settle()
            if what == "fail":
                bench.advance(130)
                bench.set_answer(device, "normal")
        else:
            # A device that has left cannot update its registration, nor leave again.
            with suppress(BadRequest):
                getattr(bench, what)(device)
        self.settle()
        bench.advance(10)

    def settle(self) -> None:
        assert self.mirror.services.database.settle(10)

    def log(self) -> list[tuple[Any, ...]]:
        """Number, kind, identity and time of each entry, as they are stored."""
        with self.mirror.services.database.read() as session:
            rows = logs.entries(session, self.app_id, 0, 10_000, 10**9)
        stored = [(seq, kind, json.loads(body)) for seq, kind, body, _ in rows]
        return [(seq, KINDS[kind], body["uid"], body["timestamp"], body["ep"]) for seq, kind, body in stored]

    @property
    def app_id(self) -> str:
        return self.plain._sender._key.get_secret_value().split("_")[1]


def told(event):
    return (event.seq, str(event.kind), event.uid, round(event.changed_at.timestamp() * 1000), event.device_id)


@pytest.fixture
def world_of(mirror, bench, monkeypatch):
    """Makes a fleet on the one server, with an application whose messages have so many bytes at most."""
    mirror.services._housekeeping._keep_log_seconds = 1000 * DAY
    made = iter(range(10_000))

    def make(page_bytes: int = 10**6) -> World:
        monkeypatch.setattr(mirror_server.notifications.log, "MOST_BYTES", page_bytes)
        plain = MirrorClient(URL, mirror.new_key(), transport=mirror.transport)
        plain.list_devices()
        resource = {"path": TEMPERATURE, "value": "20", "observable": True, "writable": True}
        devices = [bench.add_device(f"sensor-{next(made)}", [resource]) for _ in range(2)]
        for device in devices:
            plain.subscribe(device, TEMPERATURE)
        world = World(mirror, bench, plain, devices)
        world.settle()
        return world

    return make


@FEW
@given(acts=INTERLEAVINGS, page_bytes=st.integers(1, 3000), stops=st.lists(st.integers(1, 4), max_size=20))
def test_events_are_the_log_over_any_page_borders_and_stops(world_of, mirror, client_of, acts, page_bytes, stops):
    world = world_of(page_bytes)
    for act in acts:
        world.act(*act)
    seen, position = [], 0
    client = client_of(URL, world.plain._sender._key.get_secret_value(), transport=mirror.either_transport)
    for stop in stops:
        events = client.events(after=position, timeout=0)
        seen += list(islice(events, stop))
        position = events.position
    seen += list(client.events(after=position, timeout=0))
    client.close()
    assert [told(event) for event in seen] == world.log()
    assert all(event.endpoint_name for event in seen)


@settings(FEW, max_examples=3)
@given(acts=INTERLEAVINGS, chunk=st.integers(1, 5))
def test_a_webhook_gives_the_log(world_of, acts, chunk):
    world = world_of()
    client = world.plain
    with WebhookReceiver() as receiver:
        client.use_webhook(receiver)
        registered = httpx.Client(transport=world.mirror.transport, base_url=URL, headers=client._sender._http.headers)
        callback = registered.get(CALLBACK).json()
        callback["serialization"]["max_chunk_size"] = chunk
        assert registered.put(CALLBACK, json=callback).status_code == 204
        for act in acts:
            world.act(*act)
        wanted = world.log()
        while receiver.last < wanted[-1][0]:
            assert receiver.wait(receiver.last, 60).entries
        batch = receiver.read(0)
        client.use_long_polling()
    client.close()
    entries = [
        (entry.seq, KINDS[entry.key], entry.body.uid, entry.body.timestamp, entry.body.ep) for entry in batch.entries
    ]
    assert entries == wanted
