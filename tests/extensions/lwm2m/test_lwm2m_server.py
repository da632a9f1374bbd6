"""The fleet of real devices, with a fake endpoint and a manual clock."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from resource_paths import TEMPERATURE
from service_diary import ServiceDiary

from mirror_server.clock import ManualClock
from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import (
    CancelObservation,
    Content,
    DeviceCommand,
    DeviceResponse,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)
from mirror_server.extensions.lwm2m import device_keys, server
from mirror_server.extensions.lwm2m.device_keys import DeviceKey
from mirror_server.extensions.lwm2m.device_registry import ObservedResource
from mirror_server.extensions.lwm2m.server import LwM2MServer
from mirror_server.extensions.lwm2m.settings import LwM2MSettings
from mirror_server.extensions.lwm2m.transport_api import (
    NoResponse,
    Observed,
    ObserveNotification,
    Peer,
    Request,
    Response,
    Unreachable,
)
from mirror_server.hooks import open_database
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import Session

pytestmark = pytest.mark.anyio

START: Instant = 1_795_000_000_000
HERE = Peer("192.0.2.1:40000")
OTHER_PORT = Peer("192.0.2.1:40001")
ELSEWHERE = Peer("192.0.2.2:40000")
SECURE = Peer(HERE.address, is_secure=True, identity="identity")
LINKS = b"</3303/0/5700>,</3311/0/5850>,</3/0/4>"
LIMIT_SECONDS = 60


@dataclasses.dataclass(eq=False)
class PendingRequest:
    """A request in flight. The test responds to it."""

    peer: Peer
    request: Request
    token: bytes = b""
    future: asyncio.Future[Observed] = dataclasses.field(default_factory=asyncio.Future)

    def respond(self, code: str, payload: bytes = b"", content_format: int = 0, sequence: int | None = None) -> None:
        self.future.set_result(Observed(Response(code, payload, content_format), sequence))

    def fail(self, error: Exception) -> None:
        self.future.set_exception(error)


class FakeEndpoint:
    """An endpoint without sockets. The test plays the devices."""

    coap_address = coaps_address = None

    def __init__(self) -> None:
        self.pending: list[PendingRequest] = []
        self.requests: list[PendingRequest] = []
        self.contacted: list[Peer] = []

    async def observe(self, peer: Peer, request: Request, token: bytes = b"") -> Observed:
        pending = PendingRequest(peer, request, token)
        self.pending.append(pending)
        self.requests.append(pending)
        try:
            return await pending.future
        finally:
            self.pending.remove(pending)

    async def request(self, peer: Peer, request: Request, token: bytes = b"") -> Response:
        return (await self.observe(peer, request, token)).response

    read_remaining = cancel = request

    def retransmit(self, peer: Peer) -> None:
        self.contacted.append(peer)

    async def close(self) -> None:
        for pending in self.pending:
            pending.fail(Unreachable())


class FleetHarness:
    """A fleet with a fake endpoint, and a record of the events that it reports."""

    location = ""
    """The path of the last registration of ``sensor``."""

    def __init__(self, database: Database, **limits: int) -> None:
        self.clock = ManualClock(START)
        self.diary = ServiceDiary(self.clock)
        self.endpoint = FakeEndpoint()
        reported = {"events": self.diary, "database": database, "clock": self.clock}
        self.fleet = LwM2MServer(**reported, settings=LwM2MSettings(**limits))
        self.fleet.start(self.endpoint)

    async def until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (found := condition()):
                await asyncio.sleep(0.001)
            return found

    async def post(
        self, path: str = "/rd", *query: str, payload: bytes = LINKS, peer: Peer = HERE, method: Any = "POST"
    ) -> Response:
        return await self.fleet.handle(peer, Request(method, path, query, payload, 40))

    async def register(self, name: str = "sensor", *query: str, payload: bytes = LINKS, peer: Peer = HERE) -> str:
        """Register a device, wait until it is reachable, and return the path of its registration."""
        contacts = len(self.diary.all("contact"))
        response = await self.post("/rd", f"ep={name}", *query, payload=payload, peer=peer)
        assert (response.code, response.location[0]) == ("2.01", "rd")
        await self.until(lambda: len(self.diary.all("contact")) > contacts)
        location = "/" + "/".join(response.location)
        self.location = location if name == "sensor" else self.location
        return location

    async def expect_outcome(self, command: DeviceCommand, outcome: Outcome) -> None:
        """Send a command that ends with an outcome without a request."""
        count, responses = len(self.endpoint.requests), self.send(command)
        await self.until(lambda: responses == [DeviceResponse(outcome)])
        assert len(self.endpoint.requests) == count

    def send(self, command: DeviceCommand, name: str = "sensor") -> list[DeviceResponse]:
        """Send a command. The returned list gets its response."""
        responses: list[DeviceResponse] = []
        self.fleet.send(f"id-of-{name}", command, responses.append)
        return responses

    async def exchange(
        self, command: DeviceCommand, response: str | Exception, *content: Any, **more: Any
    ) -> DeviceResponse:
        """Send a command to ``sensor``, end its request, and return the response of the command."""
        responses = self.send(command)
        pending = await self.next()
        if isinstance(response, str):
            pending.respond(response, *content, **more)
        else:
            pending.fail(response)
        await self.until(lambda: responses)
        return responses[0]

    async def update(self, *query: str, payload: bytes = b"", peer: Peer = HERE) -> str:
        """Update the registration of ``sensor``, and return the code of the response."""
        return (await self.post(self.location, *query, payload=payload, peer=peer)).code

    async def expect_contact(self, act: Callable[[], Any]) -> None:
        """Call a function, and wait for one more contact of the device."""
        contacts = len(self.diary.all("contact"))
        act()
        await self.until(lambda: len(self.diary.all("contact")) == contacts + 1)

    @property
    def is_reachable(self) -> bool:
        return self.fleet.is_reachable("id-of-sensor")

    async def next(self, path: str | None = None, accept: int | None = None) -> PendingRequest:
        """Wait for a pending request with this path and format, and return it."""

        def found() -> list[PendingRequest]:
            requests = ((each, each.request) for each in self.endpoint.pending)
            return [each for each, it in requests if path in (None, it.path) and accept in (None, it.accept)]

        return (await self.until(found))[0]

    async def observe(self, path: str = TEMPERATURE, sequence: int = 1) -> bytes:
        """Start an observation, and return its token."""
        assert (await self.exchange(Observe(path), "2.05", b"21.5", sequence=sequence)).outcome is Outcome.DONE
        return self.endpoint.requests[-1].token

    def notify(self, token, sequence, text="22", *, peer=HERE, code="2.05", content_format=0, is_complete=True):
        response = Response(code, text.encode(), content_format, max_age_seconds=60)
        return self.fleet.notified(ObserveNotification(peer, token, sequence, response, True, is_complete))

    async def pause(self) -> None:
        """Let the loop run all ready tasks."""
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
def limits() -> dict[str, int]:
    return {}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The database. Here it has only the keys of devices."""
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('fleet')}/fleet.db")
    yield database
    database.close()


@pytest.fixture
def assign_key(database: Database) -> Iterator[Callable[[str | None], None]]:
    """Assign the key with the identity of ``SECURE`` to a name, and remove it from the previous one."""

    def assign(name: str | None) -> None:
        def reassign(session: Session) -> None:
            for former in ("sensor", "other"):
                device_keys.delete(session, former)
            if name is not None:
                device_keys.insert(session, DeviceKey(name, "identity", b"secret", 0))

        database.write(reassign)

    yield assign
    assign(None)


@pytest.fixture
async def empty(database: Database, limits: dict[str, int]) -> AsyncIterator[FleetHarness]:
    """A fleet without devices."""
    world = FleetHarness(database, **limits)
    yield world
    await world.fleet.end()


@pytest.fixture
async def world(empty: FleetHarness) -> FleetHarness:
    """A fleet with the device ``sensor``."""
    await empty.register()
    return empty


@pytest.fixture
async def token(world: FleetHarness) -> bytes:
    """The token of the observation of the temperature."""
    return await world.observe()


def test_old_notification_does_not_replace_newest():
    """RFC 7641, section 3.4, defines the newer of two. A clock that was set back counts as a long time."""
    last_sequence_seconds_is_news = (
        (5, 6, 1, True),
        (5, 5, 1, False),
        (6, 5, 1, False),
        (2**24 - 1, 0, 1, True),
        (0, 2**24 - 1, 1, False),
        (10, 10 + 2**23 - 1, 1, True),
        (10, 10 + 2**23, 1, False),
        (6, 5, 128, False),
        (6, 5, 128.001, True),
        (6, 5, -3600, True),
        (None, 5, 1, True),
        (5, None, 1, True),
    )
    for last, sequence, seconds, advance_sequence in last_sequence_seconds_is_news:
        observed = ObservedResource(None, TEMPERATURE, b"", sequence=last, sequence_at=START)
        reported = observed.advance_sequence(sequence, START + round(seconds * 1000))
        assert reported is advance_sequence, (last, sequence, seconds)
        assert advance_sequence or observed.advance_sequence(last + 1, START + 3000), (
            "what is old does not become the newest"
        )


async def test_reordered_notification_is_dropped_without_reset(world):
    token = await world.observe(sequence=10)
    assert world.notify(token, 12, "23")
    assert world.notify(token, 11, "22")
    await world.pause()
    assert world.diary.values() == ["23"]
    # After another observe request, a device may restart its sequence.
    assert token == await world.observe(sequence=1)
    assert world.notify(token, 2, "24")
    await world.until(lambda: world.diary.values() == ["23", "24"])


@pytest.mark.parametrize("comes_first", ["answer", "notification"])
async def test_notification_is_reported_after_observe_response(world, comes_first):
    reported = world.send(Observe(TEMPERATURE))
    pending = await world.next()
    if comes_first == "answer":
        # Both arrive in one turn of the loop, as from one read of the socket.
        pending.respond("2.05", b"21.5", sequence=4)
        assert world.notify(pending.token, 5, "23")
    else:
        assert world.notify(pending.token, 5, "23")
        await world.pause()
        assert world.diary.values() == []
        pending.respond("2.05", b"21.5", sequence=4)
    assert reported == []
    await world.until(lambda: reported and world.diary.values() == ["23"])
    assert [response.content for response in reported] == [Content(b"21.5")]
    assert world.notify(pending.token, 5, "23")
    assert world.notify(pending.token, 6, "24")
    await world.until(lambda: world.diary.values() == ["23", "24"])


async def test_unknown_tokens_are_reset(world, token):
    assert (len(token), len(world.location)) == (8, len("/rd/") + 16), "long enough to be unguessable"
    assert not world.notify(b"\x02\xd7", 2)
    assert not world.notify(token, 2, peer=ELSEWHERE)
    assert not world.notify(token, 2, peer=Peer(HERE.address, is_secure=True, identity="other"))
    assert world.notify(token, 2, "23", peer=OTHER_PORT)
    await world.pause()
    assert world.diary.values() == ["23"]
    # A router changed its port, so the previous one no longer reaches it.
    world.send(Read(TEMPERATURE))
    assert (await world.next()).peer == OTHER_PORT


async def test_registration_invalidates_previous_tokens(world, token):
    before = world.location
    assert await world.register() != before
    assert not world.notify(token, 2)
    assert (await world.post(before)).code == "4.04"
    assert len(world.fleet.registry) == 1


async def test_frequent_values_are_stored_in_batches_and_single_values_at_once(world, token):
    contacts = len(world.diary.all("contact"))
    assert world.notify(token, 2, "22")
    await world.until(lambda: world.diary.values() == ["22"])
    loop = asyncio.get_running_loop()
    with pytest.MonkeyPatch.context() as patched:
        # The time stands still, so that a slow machine does not matter.
        patched.setattr(loop, "time", lambda: world.fleet._flushed_at)
        assert world.notify(token, 3, "23")
        for _ in range(3):  # turns of the loop
            await asyncio.sleep(0)
        for number in range(24, 124):
            assert world.notify(token, number, str(number))
    await world.until(lambda: len(world.diary.values()) > 1)
    assert [len(group) for group in world.diary.all("observed")] == [1, 101]
    assert world.diary.values() == [str(number) for number in range(22, 124)]
    assert len(world.diary.all("contact")) == contacts, "contacts are recorded once per minute"


async def test_notification_has_its_time_and_max_age(empty):
    await empty.register("sensor", "lwm2m=1.1")
    token = await empty.observe()
    at = START // 1000 - 5
    assert empty.notify(token, 2, f'[{{"bn":"{TEMPERATURE}","bt":{at},"v":23.5}}]', content_format=110)
    assert empty.notify(token, 3, "24")
    await empty.pause()
    ((first, second),) = empty.diary.all("observed")
    assert (first.content, first.changed_at) == (Content(b"23.5", "text/plain", 60), 1000 * at)
    assert (second.content, second.changed_at) == (Content(b"24", "text/plain", 60), START)


async def test_value_longer_than_a_notification_is_read_once(world, token):
    for number in (2, 3, 4):
        assert world.notify(token, number, "beginning", is_complete=False)
    pending = await world.next()
    assert (pending.request, pending.token) == (Request("GET", TEMPERATURE, accept=0), token)
    pending.respond("2.05", b"the whole")
    await world.until(world.diary.values)
    await world.pause()
    assert world.diary.values() == ["the whole"]
    assert world.endpoint.pending == []


async def test_values_before_rate_limit_are_reported_before_observation_ends(world, token):
    """If the observation ended first, its subscribers would miss them."""
    assert world.notify(token, 2, "22")
    assert world.notify(token, 3, "23")
    world.fleet.rate_exceeded(ObserveNotification(HERE, token, 4, Response("2.05", b"24"), False, True))
    assert [kind for kind, *_ in world.diary.entries[-2:]] == ["observed", "ended"]
    assert world.diary.values() == ["22", "23"]
    assert world.diary.all("ended") == [("id-of-sensor", TEMPERATURE)]
    assert not world.notify(token, 5, "25")


async def test_cancel_of_observation_has_its_token(world, token):
    await world.exchange(CancelObservation(TEMPERATURE), "2.05", b"21.5")
    cancelled = world.endpoint.requests[-1]
    assert (cancelled.token, cancelled.request.accept) == (token, 0)
    assert not world.notify(token, 2)
    # A response without an Observe option is not an observation.
    assert await world.exchange(Observe(TEMPERATURE), "2.05", b"21.5") == DeviceResponse(Outcome.METHOD_NOT_ALLOWED)
    assert not world.notify(world.endpoint.requests[-1].token, 2)


async def test_supported_format_of_device_is_remembered(world):
    tlv = bytes.fromhex("e81644084035800000000000")
    responses = world.send(Observe(TEMPERATURE))
    (await world.next(accept=0)).respond("4.06")
    (await world.next(accept=11542)).respond("2.05", tlv, 11542, 1)
    await world.until(lambda: responses)
    again = world.send(Observe(TEMPERATURE))
    (await world.next(accept=11542)).respond("2.05", tlv, 11542, 2)
    await world.until(lambda: again)
    assert [response.content for response in responses + again] == [Content(b"21.5")] * 2
    assert len(world.endpoint.requests) == 3
    for accepts in ([0, 11542], [11542]):
        written = world.send(Write("/3311/0/5850", Content(b"1")))
        for number in accepts:
            pending = await world.next("/3311/0/5850")
            assert pending.request.content_format == number
            pending.respond("2.04" if number else "4.15")
            await world.until(lambda pending=pending: pending not in world.endpoint.pending)
        await world.until(lambda written=written: written == [DeviceResponse(Outcome.DONE)])


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (Read(TEMPERATURE), Request("GET", TEMPERATURE, accept=0)),
        (Write("/3311/0/5850", Content(b"1")), Request("PUT", "/3311/0/5850", payload=b"1", content_format=0)),
        (Write("/3311/0/5850", Content(b"")), Request("PUT", "/3311/0/5850", payload=b"", content_format=0)),
        (WriteAttributes(TEMPERATURE, "pmin=5&pmax=9"), Request("PUT", TEMPERATURE, ("pmin=5", "pmax=9"))),
        (Execute("/3/0/4", Content(b"")), Request("POST", "/3/0/4")),
        (Execute("/3/0/4", Content(b"0")), Request("POST", "/3/0/4", payload=b"0", content_format=0)),
    ],
)
async def test_commands_are_sent_as_coap_requests(empty, command, request_):
    await empty.register(payload=b'</lwm2m>;rt="oma.lwm2m",</lwm2m/3303/0/5700>')
    empty.send(command)
    request = (await empty.next()).request
    assert dataclasses.replace(request, path=request.path.removeprefix("/lwm2m")) == request_
    assert request.path.startswith("/lwm2m/"), "the objects of this device are below a prefix"


async def test_read_in_requested_format_is_returned_unchanged(world):
    tlv = bytes.fromhex("e81644084035800000000000")
    response = await world.exchange(Read(TEMPERATURE, "application/vnd.oma.lwm2m+tlv"), "2.05", tlv, 11542)
    assert response == DeviceResponse(Outcome.DONE, Content(tlv, "application/vnd.oma.lwm2m+tlv"))
    assert world.endpoint.requests[0].request.accept == 11542


async def test_error_responses_end_commands_and_are_logged(world, caplog):
    outcome = await world.exchange(Write(TEMPERATURE, Content(b"secret")), "4.13")
    assert outcome == DeviceResponse(Outcome.TOO_LARGE)
    (line,) = [record.getMessage() for record in caplog.records if "4.13" in record.getMessage()]
    assert ("id-of-sensor" in line, TEMPERATURE in line, "secret" in caplog.text) == (True, True, False)


async def test_device_gets_one_request_at_a_time_and_does_not_delay_others(empty):
    await empty.register("silent")
    await empty.register("sensor", peer=ELSEWHERE)
    first, second = empty.send(Read(TEMPERATURE), "silent"), empty.send(Read("/3311/0/5850"), "silent")
    pending = await empty.next()
    responses = empty.send(Read(TEMPERATURE))
    await empty.until(lambda: len(empty.endpoint.pending) == 2)
    await empty.pause()
    assert [each.peer for each in empty.endpoint.pending] == [HERE, ELSEWHERE]
    empty.endpoint.pending[1].respond("2.05", b"21.5")
    await empty.until(lambda: responses)
    pending.fail(NoResponse())
    await empty.until(lambda: first == [DeviceResponse(Outcome.NO_RESPONSE)])
    (await empty.next()).respond("2.05", b"0")
    await empty.until(lambda: second)
    assert second[0].outcome is Outcome.DONE


async def test_silent_device_gets_observe_request_after_next_contact(world, token):
    await world.exchange(Observe("/3311/0/5850"), NoResponse())
    await world.expect_outcome(Observe("/3311/0/5850"), Outcome.NOT_SENT)
    # Commands of applications are still sent.
    assert await world.exchange(Read(TEMPERATURE), NoResponse()) == DeviceResponse(Outcome.NO_RESPONSE)
    await world.pause()
    await world.expect_contact(lambda: world.notify(token, 2))
    world.send(Observe("/3311/0/5850"))
    assert (await world.next()).request.path == "/3311/0/5850"


async def test_queue_mode_device_is_reachable_for_93_seconds_after_each_message(empty):
    await empty.register("sensor", "lwm2m=1.1", "b=U", "Q", "lt=86400")
    token = await empty.observe()
    for sequence in (2, 3):
        empty.clock.advance(92_999)
        assert empty.is_reachable
        assert empty.notify(token, sequence)
    empty.clock.advance(93_000)
    assert not empty.is_reachable
    await empty.expect_outcome(Read(TEMPERATURE), Outcome.NOT_SENT)
    await empty.expect_contact(lambda: empty.notify(token, 4))
    # A device that does not respond is assumed to sleep.
    assert await empty.exchange(Read(TEMPERATURE), NoResponse()) == DeviceResponse(Outcome.NO_RESPONSE)
    assert not empty.is_reachable


async def test_update_from_another_port_moves_device_at_once(world, token):
    lost, executed = world.send(Read(TEMPERATURE)), world.send(Execute("/3/0/4", Content(b"")))
    await world.next()
    assert await world.update(peer=OTHER_PORT) == "2.04"
    # The previous request went to the old port, so it is sent again.
    await world.until(lambda: lost == [DeviceResponse(Outcome.NOT_SENT)])
    await world.until(lambda: executed)
    await world.until(lambda: world.is_reachable)
    assert [each.device_id for each in world.fleet.registry.at(OTHER_PORT)] == ["id-of-sensor"]
    world.send(Read(TEMPERATURE))
    assert (await world.next()).peer == OTHER_PORT
    assert world.notify(token, 2, peer=OTHER_PORT)


async def test_device_registering_again_still_gets_one_request_at_a_time(world):
    first = world.send(Read(TEMPERATURE))
    pending = await world.next()
    await world.register()
    second = world.send(Read("/3311/0/5850"))
    await world.pause()
    assert world.endpoint.pending == [pending]
    pending.respond("2.05", b"21.5")
    await world.until(lambda: first)
    (await world.next("/3311/0/5850")).respond("2.05", b"0")
    await world.until(lambda: second)


@pytest.mark.parametrize(
    ("command", "outcome", "registers_from"),
    [
        # A restarted device does not remember an executed request, also at the same address.
        (Execute("/3/0/4", Content(b"")), Outcome.NO_RESPONSE, HERE),
        (Execute("/3/0/4", Content(b"")), Outcome.NO_RESPONSE, OTHER_PORT),
        # Otherwise the next commands would wait until its retransmissions end.
        (Read(TEMPERATURE), Outcome.NOT_SENT, OTHER_PORT),
        (Read(TEMPERATURE), Outcome.NOT_SENT, None),
    ],
)
async def test_request_in_flight_is_cancelled_if_device_registers_or_deregisters(
    world, command, outcome, registers_from
):
    responses = world.send(command)
    await world.next()
    if registers_from:
        await world.register(peer=registers_from)
    else:
        assert (await world.post(world.location, method="DELETE")).code == "2.02"
    await world.until(lambda: responses == [DeviceResponse(outcome)])
    assert not world.endpoint.pending


async def test_execute_counts_as_not_sent_only_if_certainly_lost(world, token):
    arrived, not_arrived = Unreachable(may_have_arrived=True), Unreachable()
    ends = ((NoResponse(), Outcome.NO_RESPONSE), (arrived, Outcome.NO_RESPONSE), (not_arrived, Outcome.NOT_SENT))
    for error, outcome in ends:
        # As after a restart of the service.
        world.fleet.registry.by_id("id-of-sensor").is_address_fresh = False
        assert await world.exchange(Execute("/3/0/4", Content(b"")), error) == DeviceResponse(outcome)
        # A device that cannot be reached waits for contact.
        assert not world.is_reachable
        assert world.notify(token, None)
        assert world.is_reachable


async def test_cancelled_command_does_not_block_the_next_one(world):
    first, second, third = Read(TEMPERATURE), Read("/3311/0/5850"), Read(TEMPERATURE)
    cancelled = world.send(first)
    await world.next()
    responses = world.send(second)
    assert world.fleet.cancel("id-of-sensor", first, also_sent=True)
    await world.pause()
    assert world.endpoint.pending[0].request.path == TEMPERATURE, "only the last command can be cancelled"
    assert not world.fleet.cancel("id-of-sensor", second, also_sent=False), "it waits for its turn"
    assert world.fleet.cancel("id-of-nobody", second, also_sent=True)
    world.endpoint.pending[0].respond("2.05", b"21.5")
    await world.until(lambda: cancelled)
    await world.pause()
    assert (responses, world.endpoint.pending) == ([], [])
    world.send(third)
    await world.next()
    assert world.fleet.cancel("id-of-sensor", third, also_sent=False)
    await world.pause()
    assert world.endpoint.pending, "its response may come late"
    assert world.fleet.cancel("id-of-sensor", third, also_sent=True)
    await world.until(lambda: not world.endpoint.pending)
    assert (await world.exchange(Read(TEMPERATURE), "2.05", b"22.5")).outcome is Outcome.DONE


async def test_each_message_of_device_triggers_retransmission(world, token):
    world.endpoint.contacted.clear()
    world.send(Read(TEMPERATURE))
    await world.next()
    assert world.notify(token, 2)
    assert world.endpoint.contacted == [HERE]
    contacts = len(world.diary.all("contact"))
    assert await world.update() == "2.04"
    # Only after the response.
    assert world.endpoint.contacted == [HERE]
    await world.until(lambda: len(world.diary.all("contact")) > contacts)
    assert world.endpoint.contacted == [HERE, HERE]
    await world.register()
    assert world.endpoint.contacted == [HERE, HERE, HERE]


async def test_concurrent_registrations_of_a_name_create_one_device(empty):
    responses = await asyncio.gather(*(empty.post("/rd", "ep=sensor") for _ in range(5)))
    assert {response.code for response in responses} == {"2.01"}
    assert len(empty.fleet.registry) == 1
    assert sum(empty.fleet.registry.by_location(each.location[1]) is not None for each in responses) == 1
    # Nothing is sent to the device before its response.
    assert not empty.is_reachable
    await empty.until(lambda: empty.is_reachable)


@pytest.mark.parametrize("error", [StorageFailed, NotLeader])
async def test_registration_that_cannot_be_stored_gets_5_03_with_retry_time(empty, monkeypatch, error):
    monkeypatch.setattr(empty.diary, "registered", Mock(side_effect=error))
    response = await empty.post("/rd", "ep=sensor")
    assert (response.code, response.max_age_seconds) == ("5.03", 60)
    assert b"try again later" in response.payload
    monkeypatch.undo()
    await empty.register()


async def test_unknown_paths_and_methods_are_rejected(empty):
    unknown = "POST /rd/abc, DELETE /rd/abc, POST /rd/abc/def, POST /rd/, POST /, POST /dp, GET /.well-known/core"
    wrong_method = "GET /rd, PUT /rd, DELETE /rd, GET /rd/abc, GET /bs, GET /dp"
    for requests, code in ((unknown, "4.04"), (wrong_method, "4.05")):
        for request in requests.split(", "):
            method, path = request.split()
            response = await empty.post(path, method=method)
            assert response.code == code, request
            assert response.payload, "an error response has a reason"


async def test_bootstrap_is_rejected_with_reason_in_response_and_log(empty, caplog):
    response = await empty.post("/bs", "ep=sensor", payload=b"")
    assert (response.code, b"this is not a bootstrap server" in response.payload) == ("4.04", True)
    assert "bootstrap of ep='sensor' from 192.0.2.1:40000 rejected: 4.04" in caplog.text


async def test_invalid_registrations_are_rejected(empty):
    many = b",".join(b"</3303/%d/5700>" % number for number in range(3000))
    of_query = (("lwm2m=1.0", LINKS, "4.00"), ("ep=a lwm2m=2.0", LINKS, "4.12"), ("ep=a lt=0", LINKS, "4.00"))
    for query, payload, code in (*of_query, ("ep=a", b"<not links", "4.00"), ("ep=a", many, "4.13")):
        response = await empty.post("/rd", *query.split(), payload=payload)
        assert (response.code, response.payload != b"") == (code, True), (query, payload[:20])
        assert (len(empty.fleet.registry), empty.diary.entries) == (0, [])


@pytest.mark.parametrize("limits", [{"coap_registrations_per_minute": 5}])
async def test_registrations_per_minute_of_one_address_are_limited(empty, monkeypatch, caplog):
    async def register_seven_times() -> list[str]:
        return [(await empty.post("/rd", f"ep=sensor-{number}")).code for number in range(7)]

    assert await register_seven_times() == ["2.01"] * 5 + ["4.29"] * 2
    assert (await empty.post("/rd", "ep=other", peer=ELSEWHERE)).code == "2.01"
    empty.clock.advance(60_000)
    assert await register_seven_times() == ["2.01"] * 5 + ["4.29"] * 2
    assert "4.29" not in caplog.text, "a line for each would fill the log"
    # A clock that is set back blocks no device.
    monkeypatch.setattr(ManualClock, "now", lambda _: START - 365 * 86_400_000)
    assert (await empty.post("/rd", "ep=sensor")).code == "2.01"


async def test_repeated_messages_of_device_do_not_fill_the_log(empty, caplog):
    token, of_another = (727).to_bytes(2, "big"), b'[{"n": "/3304/0/5700", "v": 1}]'
    await empty.register(payload=b'</3303/0/5700>;aobs="727"')

    async def notify(code: str = "2.05") -> None:
        assert empty.notify(token, None, of_another.decode(), code=code, content_format=110)

    async def notify_of_an_error() -> None:
        await notify("5.00")

    async def read() -> None:
        response = await empty.exchange(Read(TEMPERATURE), "2.05", of_another, 110)
        assert response.outcome is Outcome.UNSUPPORTED_CONTENT_TYPE

    async def update() -> None:
        assert (await empty.post("/rd/guessed", payload=b"")).code == "4.04"

    for act in (notify, notify_of_an_error, read, update):
        words = "rejected" if act is update else TEMPERATURE
        caplog.clear()
        empty.clock.advance(60_000)
        for _ in range(70):
            await act()
        # There may be lines of other events of the device.
        reported = [record.getMessage() for record in caplog.records]
        lines = [line for line in reported if words in line or "/metrics" in line]
        assert len(lines) == 61, act
        assert "/metrics" in lines[-1]
        empty.clock.advance(60_000)
        await act()
        assert any(words in record.getMessage() for record in caplog.records[len(reported) :])
    assert empty.fleet.counts.unreadable_notifications == empty.fleet.counts.unreadable_responses == 71
    assert empty.fleet.registration_handler.counts.rejected == 71


@pytest.mark.parametrize("limits", [{"max_coap_devices": 2}])
async def test_registrations_above_maximum_get_5_03(empty):
    location = await empty.register("one")
    await empty.register("two")
    response = await empty.post("/rd", "ep=three")
    assert (response.code, response.max_age_seconds) == ("5.03", 60)
    assert (await empty.post("/rd", "ep=one")).code == "2.01"
    assert (await empty.post(location, method="DELETE")).code == "4.04"


async def test_dtls_identity_authenticates_device(empty, assign_key):
    elsewhere = Peer(ELSEWHERE.address, is_secure=True, identity="identity")
    unknown = Peer(HERE.address, is_secure=True, identity="stranger")
    assign_key("sensor")
    for peer, name in ((unknown, "sensor"), (SECURE, "other"), (HERE, "sensor")):
        assert (await empty.post("/rd", f"ep={name}", peer=peer)).code == "4.03"
    await empty.register(peer=SECURE)
    token = await empty.observe()
    for peer in (unknown, HERE):
        assert await empty.update(peer=peer) == "4.04"
        assert (await empty.post(empty.location, method="DELETE", peer=peer)).code == "4.04"
        assert not empty.notify(token, 2, peer=peer)
    empty.fleet.session_ended(SECURE)
    assert not empty.is_reachable
    assert empty.notify(token, 2, peer=elsewhere)
    assert empty.is_reachable
    empty.send(Read(TEMPERATURE))
    assert (await empty.next()).peer == elsewhere


async def test_send_after_key_moved_to_another_name_is_rejected(empty, assign_key):
    async def send() -> str:
        request = Request("POST", "/dp", (), b'[{"n": "/3303/0/5700", "v": 1}]', 110)
        return (await empty.fleet.handle(SECURE, request)).payload.decode()

    assign_key("sensor")
    await empty.register(peer=SECURE)
    assert "none of these resources is registered" in await send()
    assign_key("other")
    assert "no device is registered from this address" in await send()
    assert await empty.update(peer=SECURE) == "4.03"
    await empty.register("other", peer=SECURE)
    assert "none of these resources is registered" in await send()


async def test_undecodable_send_is_rejected_with_reason(world):
    for sent, code, reason in (((b"21.5", 0), "4.15", b"send SenML"), ((b"nonsense", 110), "4.00", b"not JSON")):
        response = await world.fleet.handle(HERE, Request("POST", "/dp", (), *sent))
        assert (response.code, reason in response.payload) == (code, True)


async def test_name_with_key_is_rejected_over_plain_coap(world, assign_key):
    senml = Request("POST", "/dp", (), b'[{"n": "/3303/0/5700", "v": 1}]', 110)
    assert await world.update() == "2.04"
    assign_key("sensor")
    for _ in range(2):
        rejected = await world.post(world.location, payload=b"")
        assert (rejected.code, rejected.payload) == ("4.03", b"ep=sensor has a key; connect by coaps")
    assert (await world.post(world.location, method="DELETE")).code == "4.03"
    assert len(world.diary.all("updated")) == 1
    assert (await world.fleet.handle(HERE, senml)).code == "4.04"
    assign_key(None)
    assert await world.update() == "2.04"


async def test_auto_observed_tokens_are_unique_per_peer(empty):
    await empty.register("sensor", payload=b'</3303/0/5700>;aobs="727"')
    await empty.register("other", payload=b'</3304/0/5700>;aobs="727"', peer=ELSEWHERE)
    token = (727).to_bytes(2, "big")
    assert empty.notify(token, None, "21")
    assert empty.notify(token, None, "50", peer=ELSEWHERE)
    assert not empty.notify(token, None, "66", peer=OTHER_PORT)
    await empty.pause()
    reported = [(each.device_id, each.path, each.content.payload) for each in empty.diary.observations()]
    assert reported == [("id-of-sensor", TEMPERATURE, b"21"), ("id-of-other", "/3304/0/5700", b"50")]
    assert await empty.update(peer=OTHER_PORT) == "2.04"
    assert empty.notify(token, None, "67", peer=OTHER_PORT)
    assert not empty.notify(token, None, "68", peer=HERE)
    await empty.expect_outcome(Observe(TEMPERATURE), Outcome.DONE)
    assert empty.endpoint.requests == []


async def test_value_in_registration_is_reported_as_published(empty):
    """The history distinguishes it from a notification."""
    await empty.register(payload=b'</3303/0/5700>;v="21.5"')
    (reported,) = empty.diary.observations()
    assert (reported.content, reported.is_unsolicited, reported.is_published) == (Content(b"21.5"), True, True)


async def test_auto_observed_resource_is_read_once_for_initial_value(empty):
    await empty.register(payload=b'</3303/0/5700>;aobs="727"')
    assert await empty.exchange(Observe(TEMPERATURE), "2.05", b"21.5") == DeviceResponse(Outcome.DONE, Content(b"21.5"))
    await empty.expect_outcome(Observe(TEMPERATURE), Outcome.DONE)


async def test_commands_of_applications_are_sent_between_discoveries(empty):
    await empty.register("sensor", payload=b"</3303/0>,</3303/1>,</3303/2>")
    first = await empty.next()
    assert first.request == Request("GET", "/3303/0", accept=40)
    empty.send(Read(TEMPERATURE))
    await empty.pause()
    first.respond("2.05", b"</3303/0>,</3303/0/5700>", 40)
    (await empty.next(TEMPERATURE)).respond("2.05", b"21")
    (await empty.next("/3303/1")).respond("4.05")
    (await empty.next("/3303/2")).respond("2.05", b"</3303/2/5700>,</3303/2/5601>", 40)
    await empty.until(lambda: empty.diary.all("updated"))
    ((_, resources),) = empty.diary.all("updated")
    found = {TEMPERATURE: True, "/3303/1": False, "/3303/2/5700": True, "/3303/2/5601": True}
    assert {each.path: each.observable for each in resources} == found
    assert [each.request.path for each in empty.endpoint.requests] == ["/3303/0", TEMPERATURE, "/3303/1", "/3303/2"]


async def test_resources_are_read_if_device_does_not_support_discover(empty):
    await empty.register("sensor", payload=b"</6/0>,</7/0>")
    (await empty.next("/6/0", accept=40)).respond("5.01")
    (await empty.next("/6/0", accept=11542)).respond("2.05", b"\xc1\x00\x32\xc1\x05\x01", 11542)
    (await empty.next("/7/0", accept=40)).respond("5.01")
    (await empty.next("/7/0", accept=11542)).respond("4.05")
    await empty.until(lambda: empty.diary.all("updated"))
    ((_, resources),) = empty.diary.all("updated")
    assert {each.path for each in resources} == {"/6/0/0", "/6/0/5", "/7/0"}


async def test_failed_discovery_is_repeated_after_next_update(empty):
    await empty.register("sensor", payload=b"</3303/0>,</3303/1>")
    assert await empty.update() == "2.04"
    (await empty.next("/3303/0")).respond("2.05", b"</3303/0/5700>", 40)
    (await empty.next("/3303/1")).fail(NoResponse())
    await empty.until(lambda: len(empty.diary.all("updated")) == 2)
    assert [each.request.path for each in empty.endpoint.requests] == ["/3303/0", "/3303/1"]
    assert await empty.update() == "2.04"
    assert (await empty.next()).request == Request("GET", "/3303/1", accept=40)


async def test_silent_device_from_before_restart_is_unreachable_until_contact(world):
    world.fleet.registry.by_id("id-of-sensor").is_address_fresh = False
    assert await world.exchange(Read(TEMPERATURE), NoResponse()) == DeviceResponse(Outcome.NOT_SENT)
    assert not world.is_reachable
    assert await world.update(peer=OTHER_PORT) == "2.04"
    await world.until(lambda: world.is_reachable)
    assert await world.exchange(Read(TEMPERATURE), NoResponse()) == DeviceResponse(Outcome.NO_RESPONSE)


async def test_update_changes_lifetime_and_binding(world):
    assert await world.update("lt=60", "b=UQ", payload=LINKS) == "2.04"
    assert world.diary.changed == {"lifetime_seconds": 60, "queue_mode": True}
    world.clock.advance(59_999)
    assert await world.update(payload=b"</3303/0/5700>") == "2.04"
    (_, same), (_, other) = world.diary.all("updated")
    assert same is None, "the links did not change"
    assert [each.path for each in other] == [TEMPERATURE]
    world.clock.advance(60_000)
    assert await world.update() == "4.04"


async def test_expired_device_is_removed_from_registry(world, monkeypatch):
    monkeypatch.setattr(server, "_SWEEP_SECONDS", 0.001)
    world.fleet.start(world.endpoint)
    assert len(world.fleet.registry) == 1
    world.clock.advance(86_400_000)
    await world.until(lambda: len(world.fleet.registry) == 0)


async def test_update_with_links_changes_prefix_and_formats(world):
    links = b'</lwm2m>;rt="oma.lwm2m";ct=110,</lwm2m/3303/0/5700>'
    assert await world.update(payload=links) == "2.04"
    await world.until(lambda: world.is_reachable)
    world.send(Read("/3303/0"))
    (await world.next("/lwm2m/3303/0", accept=11542)).respond("4.06")
    await world.next("/lwm2m/3303/0", accept=110)


async def test_error_notification_ends_observation_and_error_response_does_not(world, token):
    for error in ("4.04", "5.00", NoResponse()):
        await world.exchange(Read(TEMPERATURE), error)
    assert world.notify(token, 2, "23")
    assert world.notify(token, 3, "", code="4.04")
    await world.pause()
    assert world.diary.all("ended") == [("id-of-sensor", TEMPERATURE)]
    assert world.diary.values() == ["23"]
    assert not world.notify(token, 4)
