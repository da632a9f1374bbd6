"""What is decided of real devices: by a socket that the test plays by hand, on a clock that it moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from mirror_server.clock import ManualClock
from mirror_server.core.instants import Instant
from mirror_server.devices.link import (
    Answer,
    CancelObservation,
    Content,
    DeviceCommand,
    Execute,
    Observation,
    Observe,
    Outcome,
    Read,
    Registration,
    Write,
    WriteAttributes,
)
from mirror_server.devices.lwm2m.exchange import (
    NoAnswer,
    Notification,
    Observed,
    Peer,
    Request,
    Response,
    Unreachable,
)
from mirror_server.devices.lwm2m.fleet import Fleet
from mirror_server.devices.lwm2m.registrar import RegistrationLimits
from mirror_server.devices.lwm2m.registry import Observed as ObservedResource
from mirror_server.devices.lwm2m.registry import RegisteredDevice
from mirror_server.store import device_keys
from mirror_server.store.database import Database
from mirror_server.store.device_keys import DeviceKey
from mirror_server.store.session import Session

BEGIN_AT: Instant = 1_795_000_000_000
HERE = Peer("192.0.2.1:40000")
OTHER_PORT = Peer("192.0.2.1:40001")
ELSEWHERE = Peer("192.0.2.2:40000")
TEMPERATURE = "/3303/0/5700"
LINKS = b"</3303/0/5700>,</3311/0/5850>,</3/0/4>"
LIMIT_SECONDS = 60


def done(value: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class Diary:
    """What the service was told."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, Any]] = []

    def of(self, kind: str) -> list[Any]:
        return [what for each, what in self.entries if each == kind]

    def registered(self, registration: Registration) -> Future[str]:
        self.entries.append(("registered", registration))
        return done(f"id-of-{registration.endpoint_name}")

    def registration_updated(self, device_id: str, resources: Any = None, **changed: Any) -> Future[None]:
        self.entries.append(("updated", (device_id, resources, changed)))
        return done()

    def deregistered(self, device_id: str) -> Future[None]:
        self.entries.append(("deregistered", device_id))
        return done()

    def contact(self, device_id: str) -> None:
        self.entries.append(("contact", device_id))

    def observed(self, observations: Sequence[Observation]) -> Future[None]:
        self.entries.append(("observed", list(observations)))
        return done()

    def observation_ended(self, device_id: str, path: str) -> Future[None]:
        self.entries.append(("ended", (device_id, path)))
        return done()

    @property
    def values(self) -> list[str]:
        return [each.content.payload.decode() for told in self.of("observed") for each in told]


class Asked:
    """A request on its way to a device, to be answered by the test."""

    def __init__(self, peer: Peer, request: Request, token: bytes = b"") -> None:
        self.peer = peer
        self.request = request
        self.token = token
        self.future: asyncio.Future[tuple[Response, int | None]] = asyncio.get_running_loop().create_future()

    def answer(
        self, code: str, payload: bytes = b"", content_format: int | None = 0, sequence: int | None = None
    ) -> None:
        self.future.set_result((Response(code, payload, content_format), sequence))

    def fail(self, error: Exception) -> None:
        self.future.set_exception(error)


class HandPlayed:
    """An endpoint whose devices are the test."""

    coap_address = coaps_address = None

    def __init__(self) -> None:
        self.waiting: list[Asked] = []
        self.asked: list[Asked] = []
        self.contacted: list[Peer] = []

    async def _ask(self, asked: Asked) -> tuple[Response, int | None]:
        self.waiting.append(asked)
        self.asked.append(asked)
        try:
            return await asked.future
        finally:
            self.waiting.remove(asked)

    async def request(self, peer: Peer, request: Request) -> Response:
        return (await self._ask(Asked(peer, request)))[0]

    async def observe(self, peer: Peer, request: Request, token: bytes) -> Observed:
        return Observed(*await self._ask(Asked(peer, request, token)))

    async def rest(self, peer: Peer, request: Request, token: bytes) -> Response:
        return (await self._ask(Asked(peer, request, token)))[0]

    async def cancel(self, peer: Peer, request: Request, token: bytes) -> Response:
        return (await self._ask(Asked(peer, request, token)))[0]

    def retransmit(self, peer: Peer) -> None:
        self.contacted.append(peer)

    async def close(self) -> None:
        for asked in self.waiting:
            asked.fail(Unreachable())


class World:
    """A fleet, what it is told, and what it tells."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.clock = ManualClock(BEGIN_AT)
        self.diary = Diary()
        self.endpoint = HandPlayed()
        self.database = Database(f"sqlite:///{folder}/fleet.db")
        self.fleet = Fleet(
            events=self.diary,
            database=self.database,
            clock=self.clock,
            awake_seconds=93,
            limits=RegistrationLimits(**limits),
        )
        self.fleet.begin(self.endpoint)

    async def close(self) -> None:
        await self.fleet.end()
        await asyncio.to_thread(self.database.close)

    async def until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (found := condition()):
                await asyncio.sleep(0.001)
            return found

    async def post(
        self, path: str = "/rd", *query: str, payload: bytes = LINKS, peer: Peer = HERE, method: Any = "POST"
    ) -> Response:
        return await self.fleet.answer(peer, Request(method, path, query, payload, 40))

    async def register(self, name: str = "sensor", *query: str, payload: bytes = LINKS, peer: Peer = HERE) -> str:
        """Register a device and wait until it can be asked; gives the path of its registration."""
        contacts = len(self.diary.of("contact"))
        response = await self.post("/rd", f"ep={name}", *query, payload=payload, peer=peer)
        assert (response.code, response.location[0]) == ("2.01", "rd")
        await self.until(lambda: len(self.diary.of("contact")) > contacts)
        return "/" + "/".join(response.location)

    def send(self, command: DeviceCommand, name: str = "sensor") -> list[Answer]:
        """Send a command; the list has its answer when that has come."""
        answers: list[Answer] = []
        self.fleet.send(f"id-of-{name}", command, answers.append)
        return answers

    async def next(self) -> Asked:
        """The request that waits for an answer."""
        waiting: Asked = await self.until(lambda: self.endpoint.waiting and self.endpoint.waiting[0])
        return waiting

    async def observe(self, path: str = TEMPERATURE, sequence: int = 1) -> bytes:
        """Have a device observe; gives the token."""
        answers = self.send(Observe(path))
        asked = await self.next()
        asked.answer("2.05", b"21.5", sequence=sequence)
        await self.until(lambda: answers)
        assert answers[0].outcome is Outcome.DONE
        return asked.token

    def notify(
        self,
        token: bytes,
        sequence: int | None,
        text: str = "22",
        *,
        peer: Peer = HERE,
        code: str = "2.05",
        content_format: int = 0,
        is_whole: bool = True,
    ) -> bool:
        response = Response(code, text.encode(), content_format, max_age_seconds=60)
        return self.fleet.notified(Notification(peer, token, sequence, response, True, is_whole))

    async def pause(self) -> None:
        """Let everything that is ready go on."""
        for _ in range(20):
            await asyncio.sleep(0)


def play(folder: Path, script: Callable[[World], Awaitable[None]], **limits: int) -> None:
    async def played() -> None:
        world = World(folder, **limits)
        try:
            await script(world)
        finally:
            await world.close()

    asyncio.run(played())


def observed_resource(sequence: int | None) -> ObservedResource:
    device: Any = None
    return ObservedResource(device, TEMPERATURE, b"", sequence=sequence, heard_at=BEGIN_AT)


@pytest.mark.parametrize(
    ("last", "sequence", "after_seconds", "is_news"),
    [
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
    ],
)
def test_the_newer_of_two_notifications(
    last: int | None, sequence: int | None, after_seconds: float, is_news: bool
) -> None:
    observed = observed_resource(last)
    assert observed.is_news(sequence, BEGIN_AT + round(after_seconds * 1000)) is is_news


def test_an_old_notification_leaves_the_newest_what_it_is() -> None:
    observed = observed_resource(6)
    assert not observed.is_news(5, BEGIN_AT + 1000)
    assert not observed.is_news(6, BEGIN_AT + 2000)
    assert observed.is_news(7, BEGIN_AT + 3000)


def test_what_is_overtaken_is_dropped_and_not_reset(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe(sequence=10)
        assert world.notify(token, 12, "23")
        assert world.notify(token, 11, "22")
        await world.pause()
        assert world.diary.values == ["23"]

    play(tmp_path, script)


@pytest.mark.parametrize("comes_first", ["answer", "notification"])
def test_a_notification_is_told_after_the_answer_to_observe(tmp_path: Path, comes_first: str) -> None:
    async def script(world: World) -> None:
        await world.register()
        told = world.send(Observe(TEMPERATURE))
        asked = await world.next()
        if comes_first == "answer":
            # Both come in one turn of the loop, as from one look at the socket.
            asked.answer("2.05", b"21.5", sequence=4)
            assert world.notify(asked.token, 5, "23")
        else:
            assert world.notify(asked.token, 5, "23")
            await world.pause()
            assert world.diary.values == []
            asked.answer("2.05", b"21.5", sequence=4)
        assert told == []
        await world.until(lambda: told)
        await world.until(lambda: world.diary.values)
        assert [answer.content for answer in told] == [Content(b"21.5")]
        assert world.diary.values == ["23"]
        assert world.notify(asked.token, 5, "23")
        assert world.notify(asked.token, 6, "24")
        await world.until(lambda: len(world.diary.values) == 2)
        assert world.diary.values == ["23", "24"]

    play(tmp_path, script)


def test_a_device_that_counts_anew_when_asked_again_is_heard(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe(sequence=500)
        assert token == await world.observe(sequence=1)
        assert world.notify(token, 2, "23")
        await world.until(lambda: world.diary.values)
        assert world.diary.values == ["23"]

    play(tmp_path, script)


def test_tokens_that_nobody_knows_are_reset(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        assert not world.notify(b"\x02\xd7", 2)
        assert not world.notify(token, 2, peer=ELSEWHERE)
        assert not world.notify(token, 2, peer=Peer(HERE.address, is_secure=True, identity="other"))
        assert world.notify(token, 2, "23", peer=OTHER_PORT)
        await world.pause()
        assert world.diary.values == ["23"]
        # A router gave it that port; what it forgot leads nowhere.
        world.send(Read(TEMPERATURE))
        assert (await world.next()).peer == OTHER_PORT

    play(tmp_path, script)


def test_after_a_registration_the_tokens_of_before_are_unknown(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        token = await world.observe()
        assert location != await world.register()
        assert not world.notify(token, 2)
        assert (await world.post(location)).code == "4.04"
        assert len(world.fleet.registry) == 1

    play(tmp_path, script)


def test_a_burst_is_told_at_once_and_keeps_its_order(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        contacts = len(world.diary.of("contact"))
        for number in range(2, 102):
            assert world.notify(token, number, str(number))
        await world.pause()
        assert [len(told) for told in world.diary.of("observed")] == [100]
        assert world.diary.values == [str(number) for number in range(2, 102)]
        assert len(world.diary.of("contact")) == contacts

    play(tmp_path, script)


def test_what_is_told_soon_after_a_value_is_stored_together_and_a_value_at_rest_at_once(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        assert world.notify(token, 2, "22")
        await world.until(lambda: world.diary.values == ["22"])
        loop = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as patched:
            # The moment lasts, however slow the machine is.
            patched.setattr(loop, "time", lambda: world.fleet._handed_over_at)
            assert world.notify(token, 3, "23")
            for _ in range(3):  # turns of the loop
                await asyncio.sleep(0)
            assert world.notify(token, 4, "24")
        await world.until(lambda: len(world.diary.values) == 3)
        assert [len(group) for group in world.diary.of("observed")][-2:] == [1, 2]

    play(tmp_path, script)


def test_a_notification_tells_its_own_time_and_for_how_long_it_is_fresh(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("sensor", "lwm2m=1.1")
        token = await world.observe()
        at = BEGIN_AT // 1000 - 5
        assert world.notify(token, 2, f'[{{"bn":"{TEMPERATURE}","bt":{at},"v":23.5}}]', content_format=110)
        assert world.notify(token, 3, "24")
        await world.pause()
        ((first, second),) = world.diary.of("observed")
        assert (first.content, first.changed_at) == (Content(b"23.5", "text/plain", 60), 1000 * at)
        assert (second.content, second.changed_at) == (Content(b"24", "text/plain", 60), BEGIN_AT)

    play(tmp_path, script)


def test_what_is_too_long_for_a_notification_is_read_once(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        for number in (2, 3, 4):
            assert world.notify(token, number, "beginning", is_whole=False)
        asked = await world.next()
        assert (asked.request, asked.token) == (Request("GET", TEMPERATURE, accept=0), token)
        asked.answer("2.05", b"the whole")
        await world.until(lambda: world.diary.values)
        await world.pause()
        assert world.diary.values == ["the whole"]
        assert world.endpoint.waiting == []

    play(tmp_path, script)


def test_values_before_a_flood_are_reported_before_the_observation_ends(tmp_path: Path) -> None:
    """Where the observation ends first, its subscribers miss them."""

    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        assert world.notify(token, 2, "22")
        assert world.notify(token, 3, "23")
        world.fleet.flooded(Notification(HERE, token, 4, Response("2.05", b"24"), False, True))
        assert [kind for kind, _ in world.diary.entries[-2:]] == ["observed", "ended"]
        assert world.diary.values == ["22", "23"]
        assert world.diary.of("ended") == [("id-of-sensor", TEMPERATURE)]
        assert not world.notify(token, 5, "25")

    play(tmp_path, script)


def test_a_notification_of_an_error_ends_the_observation(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        assert world.notify(token, 2, "", code="4.04")
        await world.pause()
        assert world.diary.of("ended") == [("id-of-sensor", TEMPERATURE)]
        assert world.diary.values == []
        assert not world.notify(token, 3)

    play(tmp_path, script)


def test_a_refused_request_ends_no_observation(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        for error in ("4.04", "5.00"):
            answers = world.send(Read(TEMPERATURE))
            (await world.next()).answer(error)
            await world.until(lambda answers=answers: answers)
        answers = world.send(Read(TEMPERATURE))
        (await world.next()).fail(NoAnswer())
        await world.until(lambda: answers)
        assert world.notify(token, 2, "23")
        await world.pause()
        assert world.diary.values == ["23"]

    play(tmp_path, script)


def test_the_end_of_an_observation_bears_its_token(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        answers = world.send(CancelObservation(TEMPERATURE))
        asked = await world.next()
        assert (asked.token, asked.request.accept) == (token, 0)
        asked.answer("2.05", b"21.5")
        await world.until(lambda: answers)
        assert not world.notify(token, 2)

    play(tmp_path, script)


def test_who_answers_without_observing_has_not_accepted(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        answers = world.send(Observe(TEMPERATURE))
        asked = await world.next()
        asked.answer("2.05", b"21.5", sequence=None)
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.METHOD_NOT_ALLOWED)]
        assert not world.notify(asked.token, 2)

    play(tmp_path, script)


def test_the_format_a_device_has_is_remembered(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        for expected in ([0, 11542], [11542]):
            before = len(world.endpoint.asked)
            answers = world.send(Observe(TEMPERATURE))
            for number in expected:
                asked = await world.until(lambda: world.endpoint.waiting and world.endpoint.waiting[0])
                assert asked.request.accept == number
                if number == 0:
                    asked.answer("4.06")
                    await world.until(lambda asked=asked: asked not in world.endpoint.waiting)
                else:
                    asked.answer("2.05", bytes.fromhex("e81644084035800000000000"), 11542, before + 1)
            await world.until(lambda answers=answers: answers)
            assert answers[0].content == Content(b"21.5")
            assert len(world.endpoint.asked) == before + len(expected)

    play(tmp_path, script)


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        (Read(TEMPERATURE), Request("GET", TEMPERATURE, accept=0)),
        (Read(TEMPERATURE, "application/vnd.oma.lwm2m+tlv"), Request("GET", TEMPERATURE, accept=11542)),
        (Write("/3311/0/5850", Content(b"1")), Request("PUT", "/3311/0/5850", payload=b"1", content_format=0)),
        (Write("/3311/0/5850", Content(b"")), Request("PUT", "/3311/0/5850", payload=b"", content_format=0)),
        (WriteAttributes(TEMPERATURE, "pmin=5&pmax=9"), Request("PUT", TEMPERATURE, ("pmin=5", "pmax=9"))),
        (Execute("/3/0/4", Content(b"")), Request("POST", "/3/0/4")),
        (Execute("/3/0/4", Content(b"0")), Request("POST", "/3/0/4", payload=b"0", content_format=0)),
    ],
)
def test_commands_as_coap_has_them(tmp_path: Path, command: DeviceCommand, request_: Request) -> None:
    async def script(world: World) -> None:
        await world.register()
        world.send(command)
        assert (await world.next()).request == request_

    play(tmp_path, script)


def test_objects_below_a_prefix_are_asked_for_below_it(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register(payload=b'</lwm2m>;rt="oma.lwm2m",</lwm2m/3303/0/5700>')
        world.send(Read(TEMPERATURE))
        assert (await world.next()).request.path == f"/lwm2m{TEMPERATURE}"

    play(tmp_path, script)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("4.05", Outcome.METHOD_NOT_ALLOWED),
        ("4.04", Outcome.NOT_FOUND),
        ("4.00", Outcome.BAD_VALUE),
        ("4.01", Outcome.REJECTED),
        ("4.03", Outcome.REJECTED),
        ("4.12", Outcome.PRECONDITION_FAILED),
        ("4.13", Outcome.TOO_LARGE),
        ("5.00", Outcome.REJECTED),
        ("5.01", Outcome.REJECTED),
    ],
)
def test_refusals_end_commands_and_are_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, outcome: Outcome
) -> None:
    async def script(world: World) -> None:
        await world.register()
        answers = world.send(Write(TEMPERATURE, Content(b"secret")))
        (await world.next()).answer(code, b"")
        await world.until(lambda: answers)
        assert answers == [Answer(outcome)]

    play(tmp_path, script)
    (line,) = [record.getMessage() for record in caplog.records if code in record.getMessage()]
    assert "id-of-sensor" in line
    assert TEMPERATURE in line
    assert "secret" not in caplog.text


def test_a_device_is_asked_one_thing_at_a_time_and_holds_up_no_other(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("silent")
        await world.register("sensor", peer=ELSEWHERE)
        first, second = world.send(Read(TEMPERATURE), "silent"), world.send(Read("/3311/0/5850"), "silent")
        await world.next()
        answers = world.send(Read(TEMPERATURE))
        await world.until(lambda: len(world.endpoint.waiting) == 2)
        await world.pause()
        assert [asked.peer for asked in world.endpoint.waiting] == [HERE, ELSEWHERE]
        world.endpoint.waiting[1].answer("2.05", b"21.5")
        await world.until(lambda: answers)
        world.endpoint.waiting[0].fail(NoAnswer())
        await world.until(lambda: first)
        assert first == [Answer(Outcome.NO_ANSWER)]
        (await world.next()).answer("2.05", b"0")
        await world.until(lambda: second)
        assert second[0].outcome is Outcome.DONE

    play(tmp_path, script)


def test_a_silent_device_is_asked_to_observe_when_it_is_heard_again(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        answers = world.send(Observe("/3311/0/5850"))
        (await world.next()).fail(NoAnswer())
        await world.until(lambda: answers)
        asked = len(world.endpoint.asked)
        put_off = world.send(Observe("/3311/0/5850"))
        await world.until(lambda: put_off)
        assert put_off == [Answer(Outcome.NOT_SENT)]
        assert len(world.endpoint.asked) == asked
        # What an application asks is tried all the same.
        world.send(Read(TEMPERATURE))
        (await world.next()).fail(NoAnswer())
        contacts = len(world.diary.of("contact"))
        await world.pause()
        assert world.notify(token, 2)
        await world.until(lambda: len(world.diary.of("contact")) == contacts + 1)
        world.send(Observe("/3311/0/5850"))
        assert (await world.next()).request.path == "/3311/0/5850"

    play(tmp_path, script)


def test_a_device_that_cannot_be_reached_waits_for_contact(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        token = await world.observe()
        answers = world.send(Read(TEMPERATURE))
        (await world.next()).fail(Unreachable())
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NOT_SENT)]
        assert not world.fleet.is_reachable("id-of-sensor")
        assert world.notify(token, 2)
        assert world.fleet.is_reachable("id-of-sensor")

    play(tmp_path, script)


def test_in_queue_mode_a_device_listens_for_a_while_after_each_message(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("sensor", "b=UQ", "lt=86400")
        token = await world.observe()
        world.clock.advance(92_999)
        assert world.fleet.is_reachable("id-of-sensor")
        assert world.notify(token, 2)
        world.clock.advance(92_999)
        assert world.fleet.is_reachable("id-of-sensor")
        world.clock.advance(1)
        assert not world.fleet.is_reachable("id-of-sensor")
        answers = world.send(Read(TEMPERATURE))
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NOT_SENT)]
        contacts = len(world.diary.of("contact"))
        assert world.notify(token, 3)
        await world.until(lambda: len(world.diary.of("contact")) == contacts + 1)

    play(tmp_path, script)


def test_in_queue_mode_a_device_that_does_not_answer_sleeps(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("sensor", "lwm2m=1.1", "b=U", "Q")
        answers = world.send(Read(TEMPERATURE))
        (await world.next()).fail(NoAnswer())
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NO_ANSWER)]
        assert not world.fleet.is_reachable("id-of-sensor")

    play(tmp_path, script)


def test_an_update_from_another_port_is_followed_at_once(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        token = await world.observe()
        lost, executed = world.send(Read(TEMPERATURE)), world.send(Execute("/3/0/4", Content(b"")))
        await world.next()
        assert (await world.post(location, payload=b"", peer=OTHER_PORT)).code == "2.04"
        await world.until(lambda: lost)
        # The request of before went to where nobody is; it is sent again.
        assert lost == [Answer(Outcome.NOT_SENT)]
        await world.until(lambda: executed)
        await world.until(lambda: world.fleet.is_reachable("id-of-sensor"))
        world.send(Read(TEMPERATURE))
        assert (await world.next()).peer == OTHER_PORT
        assert world.notify(token, 2, peer=OTHER_PORT)

    play(tmp_path, script)


@pytest.mark.parametrize("peer", [HERE, OTHER_PORT])
def test_execute_to_a_device_that_registers_meanwhile_is_not_sent_again(tmp_path: Path, peer: Peer) -> None:
    """A device that restarted has forgotten that it executed the request, also at the same address."""

    async def script(world: World) -> None:
        await world.register()
        answers = world.send(Execute("/3/0/4", Content(b"")))
        await world.next()
        await world.register(peer=peer)
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NO_ANSWER)]
        assert not world.endpoint.waiting

    play(tmp_path, script)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NoAnswer(), Outcome.NO_ANSWER),
        (Unreachable(may_have_arrived=True), Outcome.NO_ANSWER),
        (Unreachable(), Outcome.NOT_SENT),
    ],
)
def test_execute_counts_as_not_sent_only_if_it_surely_did_not_arrive(
    tmp_path: Path, error: Exception, outcome: Outcome
) -> None:
    async def script(world: World) -> None:
        await world.register()
        # As after a restart of the service.
        device: RegisteredDevice = world.fleet.registry.by_id("id-of-sensor")  # type: ignore[assignment]
        device.is_known_address = False
        answers = world.send(Execute("/3/0/4", Content(b"")))
        (await world.next()).fail(error)
        await world.until(lambda: answers)
        assert answers == [Answer(outcome)]

    play(tmp_path, script)


def test_cancelled_command_makes_way_for_the_next_one(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register()
        first, second = Read(TEMPERATURE), Read("/3311/0/5850")
        cancelled = world.send(first)
        await world.next()
        answers = world.send(second)
        assert world.fleet.cancel("id-of-sensor", first, also_sent=True)
        await world.pause()
        assert world.endpoint.waiting[0].request.path == TEMPERATURE, "only what was sent last is cancelled"
        assert not world.fleet.cancel("id-of-sensor", second, also_sent=False), "it waits for its turn"
        assert world.fleet.cancel("id-of-nobody", second, also_sent=True)
        world.endpoint.waiting[0].answer("2.05", b"21.5")
        await world.until(lambda: cancelled)
        await world.pause()
        assert (answers, world.endpoint.waiting) == ([], [])
        third = Read(TEMPERATURE)
        world.send(third)
        await world.next()
        assert world.fleet.cancel("id-of-sensor", third, also_sent=False)
        await world.pause()
        assert world.endpoint.waiting, "its response may come late"
        assert world.fleet.cancel("id-of-sensor", third, also_sent=True)
        await world.until(lambda: not world.endpoint.waiting)
        done = world.send(Read(TEMPERATURE))
        (await world.next()).answer("2.05", b"22.5")
        await world.until(lambda: done)

    play(tmp_path, script)


def test_each_message_of_a_device_has_what_it_did_not_acknowledge_sent_again(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        token = await world.observe()
        world.endpoint.contacted.clear()
        world.send(Read(TEMPERATURE))
        await world.next()
        assert world.notify(token, 2)
        assert world.endpoint.contacted == [HERE]
        contacts = len(world.diary.of("contact"))
        assert (await world.post(location, payload=b"")).code == "2.04"
        # Not before it has the response.
        assert world.endpoint.contacted == [HERE]
        await world.until(lambda: len(world.diary.of("contact")) > contacts)
        assert world.endpoint.contacted == [HERE, HERE]
        await world.register()
        assert world.endpoint.contacted == [HERE, HERE, HERE]

    play(tmp_path, script)


def test_registering_a_name_at_once_makes_one_device(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        responses = await asyncio.gather(*(world.post("/rd", "ep=sensor") for _ in range(5)))
        assert {response.code for response in responses} == {"2.01"}
        assert len(world.fleet.registry) == 1
        locations = {response.location for response in responses}
        alive = [location for location in locations if world.fleet.registry.by_location(location[1])]
        assert len(alive) == 1

    play(tmp_path, script)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/rd", "4.05"),
        ("PUT", "/rd", "4.05"),
        ("GET", "/rd/abc", "4.05"),
        ("POST", "/rd/abc", "4.04"),
        ("DELETE", "/rd/abc", "4.04"),
        ("DELETE", "/rd", "4.05"),
        ("POST", "/rd/abc/def", "4.04"),
        ("POST", "/rd/", "4.04"),
        ("POST", "/", "4.04"),
        ("GET", "/bs", "4.05"),
        ("POST", "/bs", "4.04"),
        ("GET", "/.well-known/core", "4.04"),
        ("GET", "/dp", "4.05"),
        ("POST", "/dp", "4.04"),
    ],
)
def test_paths_and_methods_that_are_not_there(tmp_path: Path, method: Any, path: str, code: str) -> None:
    async def script(world: World) -> None:
        response = await world.post(path, method=method)
        assert response.code == code
        assert response.payload, "a refusal says why"

    play(tmp_path, script)


def test_bootstrap_is_refused_with_the_reason_in_the_response_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(world: World) -> None:
        for _ in range(200):
            response = await world.post("/bs", "ep=sensor", payload=b"")
        assert (response.code, response.content_format) == ("4.04", 0)
        assert b"this is no bootstrap server" in response.payload
        assert world.fleet.registrar.counts.refused == 200
        lines = [record.getMessage() for record in caplog.records]
        assert "bootstrap of ep='sensor' from 192.0.2.1:40000 refused: 4.04" in lines[0]
        assert len(lines) == 61

    play(tmp_path, script)


@pytest.mark.parametrize(
    ("query", "payload", "code"),
    [
        (("lwm2m=1.0",), LINKS, "4.00"),
        (("ep=a", "lwm2m=2.0"), LINKS, "4.12"),
        (("ep=a\x07b",), LINKS, "4.00"),
        (("ep=" + "a" * 300,), LINKS, "4.00"),
        (("ep=a", "lt=0"), LINKS, "4.00"),
        (("ep=a",), b"<not links", "4.00"),
        (("ep=a",), b"\xff\xfe", "4.00"),
        (("ep=a",), b",".join(b"</3303/%d/5700>" % number for number in range(3000)), "4.13"),
        (("ep=a",), b"</3303/70000/5700>", "4.00"),
    ],
)
def test_registrations_that_are_none(tmp_path: Path, query: tuple[str, ...], payload: bytes, code: str) -> None:
    async def script(world: World) -> None:
        response = await world.post("/rd", *query, payload=payload)
        assert response.code == code
        assert response.payload
        assert len(world.fleet.registry) == 0
        assert world.diary.entries == []

    play(tmp_path, script)


def test_one_address_registers_so_often_in_a_minute(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        codes = [(await world.post("/rd", f"ep=sensor-{number}")).code for number in range(7)]
        assert codes == ["2.01"] * 5 + ["4.29"] * 2
        assert (await world.post("/rd", "ep=other", peer=ELSEWHERE)).code == "2.01"
        world.clock.advance(60_000)
        response = await world.post("/rd", "ep=sensor-6")
        assert response.code == "2.01"

    play(tmp_path, script, per_minute=5)


def test_a_clock_that_is_set_back_shuts_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(world: World) -> None:
        world.clock.advance(365 * 86_400_000)
        assert [(await world.post("/rd", "ep=sensor")).code for _ in range(2)] == ["2.01", "4.29"]
        monkeypatch.setattr(ManualClock, "now", lambda _: BEGIN_AT)
        assert (await world.post("/rd", "ep=sensor")).code == "2.01"

    play(tmp_path, script, per_minute=1)


def test_refusals_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: World) -> None:
        for _ in range(200):
            assert (await world.post("/rd/guessed", payload=b"")).code == "4.04"
        assert world.fleet.registrar.counts.refused == 200
        lines = [record.getMessage() for record in caplog.records if "refus" in record.getMessage()]
        assert len(lines) == 61
        assert "/metrics" in lines[-1]
        world.clock.advance(60_000)
        await world.post("/rd/guessed", payload=b"")
        assert "4.04" in caplog.records[-1].getMessage()

    play(tmp_path, script)


@pytest.mark.parametrize(("code", "unreadable"), [("2.05", 200), ("5.00", 0)])
def test_notifications_without_a_value_do_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: str, unreadable: int
) -> None:
    async def script(world: World) -> None:
        await world.register(payload=b'</3303/0/5700>;aobs="727"')
        of_another = '[{"n": "/3304/0/5700", "v": 1}]'
        token = (727).to_bytes(2, "big")
        for _ in range(200):
            assert world.notify(token, None, of_another, code=code, content_format=110)
        assert world.fleet.counts.unreadable_notifications == unreadable
        # What else a device does meanwhile may be told too.
        told = [record.getMessage() for record in caplog.records]
        lines = [line for line in told if TEMPERATURE in line or "/metrics" in line]
        assert len(lines) == 61
        assert "/metrics" in lines[-1]
        world.clock.advance(60_000)
        assert world.notify(token, None, of_another, code=code, content_format=110)
        assert any(TEMPERATURE in record.getMessage() for record in caplog.records[len(told) :])

    play(tmp_path, script)


def test_answers_that_cannot_be_read_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def script(world: World) -> None:
        async def read() -> None:
            answers = world.send(Read(TEMPERATURE))
            (await world.next()).answer("2.05", b'[{"n": "/3304/0/5700", "v": 1}]', content_format=110)
            await world.until(lambda: answers)
            assert answers[0].outcome is Outcome.UNSUPPORTED_CONTENT_TYPE

        await world.register()
        caplog.clear()
        for _ in range(70):
            await read()
        assert world.fleet.counts.unreadable_answers == 70
        # What else a device does meanwhile may be told too.
        told = [record.getMessage() for record in caplog.records]
        lines = [line for line in told if TEMPERATURE in line or "/metrics" in line]
        assert len(lines) == 61
        assert "/metrics" in lines[-1]
        world.clock.advance(60_000)
        await read()
        assert any(TEMPERATURE in record.getMessage() for record in caplog.records[len(told) :])

    play(tmp_path, script)


def test_as_many_devices_are_registered_as_may_be(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register("one")
        await world.register("two")
        response = await world.post("/rd", "ep=three")
        assert (response.code, response.max_age_seconds) == ("5.03", 60)
        assert (await world.post("/rd", "ep=one")).code == "2.01"
        assert (await world.post(location, method="DELETE")).code == "4.04"

    play(tmp_path, script, devices=2)


def test_over_dtls_the_identity_says_who_it_is(tmp_path: Path) -> None:
    mine = Peer(HERE.address, is_secure=True, identity="identity")
    elsewhere = Peer(ELSEWHERE.address, is_secure=True, identity="identity")
    stranger = Peer(HERE.address, is_secure=True, identity="stranger")

    async def script(world: World) -> None:
        key = DeviceKey("sensor", "identity", b"secret", 0)
        world.database.write(lambda session: device_keys.insert(session, key))
        for peer, name in ((stranger, "sensor"), (mine, "other"), (HERE, "sensor")):
            assert (await world.post("/rd", f"ep={name}", peer=peer)).code == "4.03"
        location = await world.register(peer=mine)
        token = await world.observe()
        for peer in (stranger, HERE):
            assert (await world.post(location, payload=b"", peer=peer)).code == "4.04"
            assert (await world.post(location, method="DELETE", peer=peer)).code == "4.04"
            assert not world.notify(token, 2, peer=peer)
        world.fleet.session_ended(mine)
        assert not world.fleet.is_reachable("id-of-sensor")
        assert world.notify(token, 2, peer=elsewhere)
        assert world.fleet.is_reachable("id-of-sensor")
        world.send(Read(TEMPERATURE))
        assert (await world.next()).peer == elsewhere

    play(tmp_path, script)


def test_what_the_identity_of_another_device_sends_is_not_of_the_former_one(tmp_path: Path) -> None:
    mine = Peer(HERE.address, is_secure=True, identity="identity")

    async def script(world: World) -> None:
        def hand_on(session: Session) -> None:
            device_keys.delete(session, "sensor")
            device_keys.insert(session, DeviceKey("other", "identity", b"another", 0))

        async def send() -> str:
            request = Request("POST", "/dp", (), b'[{"n": "/3303/0/5700", "v": 1}]', 110)
            return (await world.fleet.answer(mine, request)).payload.decode()

        world.database.write(lambda session: device_keys.insert(session, DeviceKey("sensor", "identity", b"one", 0)))
        location = await world.register(peer=mine)
        assert "no resource of these" in await send()
        world.database.write(hand_on)
        assert "nothing is registered from here" in await send()
        assert (await world.post(location, payload=b"", peer=mine)).code == "4.03"
        await world.register("other", peer=mine)
        assert "no resource of these" in await send()

    play(tmp_path, script)


def test_a_key_for_a_name_ends_what_comes_by_it_in_plain_text(tmp_path: Path) -> None:
    senml = b'[{"n": "/3303/0/5700", "v": 1}]'

    async def script(world: World) -> None:
        location = await world.register()
        assert (await world.post(location, payload=b"")).code == "2.04"
        key = DeviceKey("sensor", "identity", b"secret", 0)
        world.database.write(lambda session: device_keys.insert(session, key))
        for _ in range(2):
            refused = await world.post(location, payload=b"")
            assert (refused.code, refused.payload) == ("4.03", b"ep=sensor has a key; come by coaps")
        assert len(world.diary.of("updated")) == 1
        assert (await world.fleet.answer(HERE, Request("POST", "/dp", (), senml, 110))).code == "4.04"
        world.database.write(lambda session: device_keys.delete(session, "sensor"))
        assert (await world.post(location, payload=b"")).code == "2.04"

    play(tmp_path, script)


def test_unasked_tokens_are_those_of_a_peer(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register("sensor", payload=b'</3303/0/5700>;aobs="727"')
        await world.register("other", payload=b'</3304/0/5700>;aobs="727"', peer=ELSEWHERE)
        token = (727).to_bytes(2, "big")
        assert world.notify(token, None, "21")
        assert world.notify(token, None, "50", peer=ELSEWHERE)
        assert not world.notify(token, None, "66", peer=OTHER_PORT)
        await world.pause()
        told = [
            (each.device_id, each.path, each.content.payload) for some in world.diary.of("observed") for each in some
        ]
        assert told == [("id-of-sensor", TEMPERATURE, b"21"), ("id-of-other", "/3304/0/5700", b"50")]
        assert (await world.post(location, payload=b"", peer=OTHER_PORT)).code == "2.04"
        assert world.notify(token, None, "67", peer=OTHER_PORT)
        assert not world.notify(token, None, "68", peer=HERE)
        answers = world.send(Observe(TEMPERATURE))
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.DONE)]
        assert world.endpoint.asked == []

    play(tmp_path, script)


def test_what_an_application_asks_comes_between_the_discoveries(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("sensor", payload=b"</3303/0>,</3303/1>,</3303/2>")
        first = await world.next()
        assert first.request == Request("GET", "/3303/0", accept=40)
        world.send(Read("/3303/0/5700"))
        await world.pause()
        first.answer("2.05", b"</3303/0>,</3303/0/5700>", 40)
        others = await world.until(lambda: [each for each in world.endpoint.waiting if each is not first])
        second = others[0]
        assert second.request.path == "/3303/0/5700"
        second.answer("2.05", b"21")
        for path in ("/3303/1", "/3303/2"):
            asked = await world.until(
                lambda path=path: [each for each in world.endpoint.waiting if each.request.path == path]
            )
            asked[0].answer("4.05" if path == "/3303/1" else "2.05", b"</3303/2/5700>,</3303/2/5601>", 40)
        await world.until(lambda: world.diary.of("updated"))
        ((_, resources, _),) = world.diary.of("updated")
        assert {each.path: each.observable for each in resources} == {
            "/3303/0/5700": True,
            "/3303/1": False,
            "/3303/2/5700": True,
            "/3303/2/5601": True,
        }

    play(tmp_path, script)


def test_resources_of_a_device_that_does_not_know_discover_are_those_that_it_tells(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        await world.register("sensor", payload=b"</6/0>,</7/0>")
        (await world.next()).answer("5.01")
        asked = await world.until(lambda: [each for each in world.endpoint.waiting if each.request.accept != 40])
        assert asked[0].request == Request("GET", "/6/0", accept=11542)
        asked[0].answer("2.05", b"\xc1\x00\x32\xc1\x05\x01", 11542)
        other = await world.until(lambda: [each for each in world.endpoint.waiting if each.request.path == "/7/0"])
        other[0].answer("5.01")
        asked = await world.until(lambda: [each for each in world.endpoint.waiting if each.request.accept != 40])
        asked[0].answer("4.05")
        await world.until(lambda: world.diary.of("updated"))
        ((_, resources, _),) = world.diary.of("updated")
        assert {each.path for each in resources} == {"/6/0/0", "/6/0/5", "/7/0"}

    play(tmp_path, script)


def test_what_a_device_did_not_tell_is_asked_after_its_next_update(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register("sensor", payload=b"</3303/0>,</3303/1>")
        assert (await world.post(location, payload=b"")).code == "2.04"
        (await world.next()).answer("2.05", b"</3303/0/5700>", 40)
        unanswered = await world.until(
            lambda: [each for each in world.endpoint.waiting if each.request.path == "/3303/1"]
        )
        unanswered[0].fail(NoAnswer())
        await world.until(lambda: len(world.diary.of("updated")) == 2)
        assert [each.request.path for each in world.endpoint.asked] == ["/3303/0", "/3303/1"]
        assert (await world.post(location, payload=b"")).code == "2.04"
        asked = await world.next()
        assert asked.request == Request("GET", "/3303/1", accept=40)

    play(tmp_path, script)


def test_the_device_is_left_alone_until_it_has_its_answer(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        assert (await world.post("/rd", "ep=sensor")).code == "2.01"
        assert not world.fleet.is_reachable("id-of-sensor")
        await world.until(lambda: world.fleet.is_reachable("id-of-sensor"))

    play(tmp_path, script)


def test_a_device_of_before_a_restart_that_does_not_answer_waits_for_contact(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        device: RegisteredDevice = world.fleet.registry.by_id("id-of-sensor")  # type: ignore[assignment]
        device.is_known_address = False
        answers = world.send(Read(TEMPERATURE))
        (await world.next()).fail(NoAnswer())
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NOT_SENT)]
        assert not world.fleet.is_reachable("id-of-sensor")
        assert (await world.post(location, payload=b"", peer=OTHER_PORT)).code == "2.04"
        await world.until(lambda: world.fleet.is_reachable("id-of-sensor"))
        answers = world.send(Read(TEMPERATURE))
        (await world.next()).fail(NoAnswer())
        await world.until(lambda: answers)
        assert answers == [Answer(Outcome.NO_ANSWER)]

    play(tmp_path, script)


def test_an_update_with_the_links_of_before_changes_nothing(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        assert (await world.post(location, payload=LINKS)).code == "2.04"
        assert (await world.post(location, payload=b"</3303/0/5700>")).code == "2.04"
        (_, same, _), (_, other, _) = world.diary.of("updated")
        assert same is None
        assert [each.path for each in other] == [TEMPERATURE]

    play(tmp_path, script)


def test_an_update_changes_lifetime_and_binding(tmp_path: Path) -> None:
    async def script(world: World) -> None:
        location = await world.register()
        assert (await world.post(location, "lt=60", "b=UQ", payload=b"")).code == "2.04"
        ((_, _, changed),) = world.diary.of("updated")
        assert changed == {"lifetime_seconds": 60, "queue_mode": True}
        world.clock.advance(59_999)
        assert (await world.post(location, payload=b"")).code == "2.04"
        world.clock.advance(60_000)
        assert (await world.post(location, payload=b"")).code == "4.04"

    play(tmp_path, script)
