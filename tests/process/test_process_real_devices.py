"""Real devices that go, sleep, lie and flood, and a killed service: nothing is lost, and nobody else notices."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from bare_coap import (
    ACK,
    BLOCK1,
    CON,
    CONTENT_FORMAT,
    LINKS,
    LOCATION_PATH,
    NON,
    POST,
    RST,
    URI_PATH,
    URI_QUERY,
    BareDevice,
    Devices,
    Message,
    option_of,
    pack,
    send_until,
)
from ports import free_port
from process_server import Application, ServerProcess, decoded, run_command, wait_until

pytestmark = pytest.mark.process

TEMPERATURE, SWITCH, RESET = "/3303/0/5700", "/3311/0/5850", "/3/0/5"


class Field:
    """A server with a CoAP port, an application, and devices that are received for."""

    def __init__(self, server: ServerProcess, port: int, devices: Devices) -> None:
        self.server, self.port, self.devices = server, port, devices
        self.application: Application = server.application()
        self._message_ids = count(1)

    def device(self, name: str, values: dict[str, str] | None = None, **more: str) -> BareDevice:
        """A device that has not registered yet."""
        return self.devices.add(
            BareDevice(self.port, name, {TEMPERATURE: "20.5"} if values is None else values, **more)
        )

    def registered(
        self, name: str, values: dict[str, str] | None = None, *, host: str = "127.0.0.1", **parameters: str
    ) -> BareDevice:
        device = self.device(name, values, host=host)
        send_until(device, device.registration(**parameters), lambda: device.location)
        return device

    def id_of(self, name: str) -> str | None:
        """The id of a device that is in the directory."""
        listed = self.application.json("GET", "/v3/devices", params={"filter": f"endpoint_name={name}"})["data"]
        return next((str(each["id"]) for each in listed if each["endpoint_name"] == name), None)

    def subscribe(self, device: BareDevice, path: str = TEMPERATURE) -> str:
        """Have a resource observed; gives the device's id."""
        device_id = self.id_of(device.name)
        assert device_id is not None
        self.application.json("PUT", f"/v2/subscriptions/{device_id}{path}")
        wait_until(lambda: path in device.observed, f"an observation of {device.name}")
        return device_id

    def told(self, device_id: str) -> list[str]:
        """The values that came as notifications of one device."""
        entries = list(self.application.entries())
        return [
            decoded(each["payload"]) for kind, each in entries if kind == "notifications" and each["ep"] == device_id
        ]

    def answer_to(self, device: BareDevice, datagram: bytes) -> Message:
        """What the server says to a datagram of a device."""
        before = len(device.heard)
        send_until(device, datagram, lambda: answers(device, before))
        return answers(device, before)[0]

    def uploaded(self, device: BareDevice, name: str, payload: bytes) -> Message:
        """The answer to a registration whose links come in blocks."""
        for number, at in enumerate(range(0, len(payload), 1024)):
            block = option_of(number << 4 | (at + 1024 < len(payload)) << 3 | 6)
            options = _registration_options(name, (BLOCK1, block))
            message_id = next(self._message_ids)
            answer = self.answer_to(device, pack(Message(CON, POST, message_id, b"", options, payload[at : at + 1024])))
            if answer.code_text != "2.31":
                break
        return answer

    def assert_well(self, device: BareDevice, device_id: str, async_id: str) -> None:
        """A device is reached, what it tells arrives, and nothing broke."""
        self.application.read(device_id, TEMPERATURE, async_id)
        assert self.application.response(async_id)["status"] == 200
        device.send(device.notification(TEMPERATURE, f"told after {async_id}"))
        wait_until(lambda: f"told after {async_id}" in self.told(device_id), "its notification")
        assert "Traceback" not in self.server.stderr


def answers(device: BareDevice, after: int = 0) -> list[Message]:
    """What a device was answered; that a message came, and its answer comes later, is none."""
    return [each for each in device.heard[after:] if (each.kind, each.code_text) != (ACK, "0.00")]


@pytest.fixture
def devices() -> Iterator[Devices]:
    with Devices() as receiving:
        yield receiving


@pytest.fixture
def field(start_server: Callable[..., ServerProcess], devices: Devices) -> Field:
    """A field of its own, whose server may be killed."""
    port = free_port(socket.SOCK_DGRAM)
    return Field(start_server("--coap", f"127.0.0.1:{port}"), port, devices)


@pytest.fixture(scope="module")
def shared_field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    port = free_port(socket.SOCK_DGRAM)
    server = ServerProcess(tmp_path_factory.mktemp("field"), "--coap", f"127.0.0.1:{port}", "--max-coap-links", "3000")
    with Devices() as devices:
        try:
            yield Field(server.start(), port, devices)
        finally:
            server.close()


@pytest.fixture(scope="module")
def neighbour(shared_field: Field) -> tuple[BareDevice, str]:
    """A device that does nothing wrong, with its id: how it fares tells whether others notice."""
    device = shared_field.registered("neighbour", host="127.0.0.2")
    return device, shared_field.subscribe(device)


def test_a_kill_with_observations_and_commands_under_way_loses_nothing(field: Field) -> None:
    application = field.application
    awake = [field.registered(f"awake-{number}", {TEMPERATURE: "20", SWITCH: "0"}) for number in range(3)]
    asleep = field.registered("asleep", {TEMPERATURE: "20", SWITCH: "0"}, b="UQ")
    ids = [field.subscribe(device) for device in awake]
    asleep_id = field.subscribe(asleep)
    asleep.silent = True
    awake[0].silent = True
    assert application.write(asleep_id, SWITCH, "1", "to-the-sleeper").status_code == 202
    assert application.write(ids[0], SWITCH, "1", "under-way").status_code == 202
    wait_until(lambda: any(each.path == SWITCH for each in awake[0].asked), "the command on its way")
    told = [field.told(device_id) for device_id in ids]

    field.server.kill()
    for device in awake:
        device.values[TEMPERATURE] = "33"
    for device in [*awake, asleep]:
        device.observed.clear()
    awake[0].silent = asleep.silent = False
    field.server.start()

    for device, device_id, before in zip(awake, ids, told, strict=True):
        wait_until(lambda device=device: TEMPERATURE in device.observed, "the observation anew")
        wait_until(lambda device_id=device_id: "33" in field.told(device_id), "what changed meanwhile")
        assert field.told(device_id)[: len(before)] == before
        device.send(device.notification(TEMPERATURE, "34"))
        wait_until(lambda device_id=device_id: field.told(device_id)[-1] == "34", "its notification")
    assert application.response("under-way")["status"] == 200
    assert field.answer_to(asleep, asleep.update()).code_text == "2.04"
    assert application.response("to-the-sleeper")["status"] == 200
    assert (awake[0].values[SWITCH], asleep.values[SWITCH]) == ("1", "1")
    assert "Traceback" not in field.server.stderr


def test_a_device_behind_a_nat_that_forgot_is_followed(field: Field) -> None:
    device = field.registered("moved")
    device_id = field.subscribe(device)
    device.move()
    field.devices.add(device)

    assert field.answer_to(device, device.update()).code_text == "2.04"

    field.assert_well(device, device_id, "after-the-move")


def test_a_device_that_never_answers_holds_up_no_other(shared_field: Field) -> None:
    field = shared_field
    mute = field.registered("mute", host="127.0.0.3")
    others = [field.registered(f"answering-{number}", host="127.0.0.3") for number in range(10)]
    mute.silent = True
    mute_id = field.id_of(mute.name)
    assert mute_id is not None
    for number in range(5):
        field.application.read(mute_id, TEMPERATURE, f"mute-{number}")
    wait_until(lambda: mute.asked, "a request of the mute one")
    for number, device in enumerate(others):
        device_id = field.id_of(device.name)
        assert device_id is not None
        field.application.read(device_id, TEMPERATURE, f"answering-{number}")
    for number in range(10):
        assert field.application.response(f"answering-{number}")["status"] == 200
    assert {message.token for message in mute.asked} == {mute.asked[0].token}, "one at a time"


def test_who_leaves_without_an_answer_and_comes_back_is_asked_at_once(shared_field: Field) -> None:
    device = shared_field.registered("hasty", host="127.0.0.11")
    device_id = shared_field.id_of(device.name)
    assert device_id is not None
    device.silent = True
    shared_field.application.read(device_id, TEMPERATURE, "unanswered")
    wait_until(lambda: any(each.path == TEMPERATURE for each in device.asked), "a request")
    assert shared_field.answer_to(device, device.leaving()).code_text == "2.02"
    device.silent = False
    before = device.created
    send_until(device, device.registration(), lambda: device.created > before)

    shared_field.application.read(device_id, TEMPERATURE, "answered")

    assert shared_field.application.response("answered")["status"] == 200


def test_losses_duplicates_and_disorder_end_in_the_newest_value(field: Field) -> None:
    """Of the notifications one in four is lost, one in four comes twice, and three of them change places."""
    chance = random.Random(4)
    device = field.registered("unlucky")
    device_id = field.subscribe(device)
    sent = [device.notification(TEMPERATURE, str(number)) for number in range(200)]
    on_the_way = [each for each in sent for _ in range(chance.choice((0, 1, 1, 2)))]
    for at in range(0, len(on_the_way) - 3, 3):
        on_the_way[at : at + 3] = chance.sample(on_the_way[at : at + 3], 3)
    for datagram in [*on_the_way, sent[-1], sent[-1]]:
        device.send(datagram)
    wait_until(lambda: "199" in field.told(device_id), "the newest value")

    values = [int(float(value)) for value in field.told(device_id)[1:]]

    assert values == sorted(set(values)), "an older value came after a newer one, or one twice"
    assert decoded(field.application.resource(device_id, TEMPERATURE)["reported"]["value"]) == "199"


def test_a_registration_that_comes_again_and_again_is_one(shared_field: Field) -> None:
    # The log of a key begins with its first request.
    shared_field.application.entries()
    device = shared_field.device("replayed", host="127.0.0.4")
    datagram = device.registration()
    for _ in range(20):
        device.send(datagram)
    wait_until(lambda: device.heard, "an answer")
    for _ in range(3):
        assert shared_field.answer_to(device, datagram).texts(LOCATION_PATH) == device.location
    entries = [each for kind, each in shared_field.application.entries() if kind == "registrations"]
    assert [each["original-ep"] for each in entries].count("replayed") == 1


def test_noise_is_refused_and_nobody_else_notices(shared_field: Field, neighbour: tuple[BareDevice, str]) -> None:
    """Datagrams of chance, and registrations of which some bytes were changed, from addresses with a share to spare."""
    field = shared_field
    chance = random.Random(7)
    crowd = [field.device(f"noisy-{number}", host="127.0.0.5") for number in range(25)]
    first = crowd[0]
    seeds = [first.registration(), first.request(POST, ["rd", "x"]), first.request(POST, ["dp"], (), b"[{}]")]
    # What a stranger learnt of observations, too.
    seeds.append(pack(Message(NON, 0x45, 7, next(iter(neighbour[0].observed.values())), (), b"1")))
    for number in range(2_000):
        datagram = bytearray(chance.choice(seeds))
        if number % 4 == 0:
            datagram = bytearray(chance.randbytes(chance.randrange(1, 200)))
        for _ in range(chance.randrange(1, 6)):
            datagram[chance.randrange(len(datagram))] = chance.randrange(256)
        noisy = crowd[number % len(crowd)]
        noisy.send(bytes(datagram[: chance.randrange(1, len(datagram) + 1)]))
        if number % 500 == 0:
            ping = pack(Message(CON, 0, number))
            send_until(first, ping, lambda number=number: (RST, number) in [each[0:3:2] for each in first.heard])
    field.assert_well(*neighbour, "after-the-noise")


def test_transfers_that_never_end_are_ended(shared_field: Field, neighbour: tuple[BareDevice, str]) -> None:
    field = shared_field
    endless = field.device("endless", host="127.0.0.6")

    codes = set()
    for number in range(2000):
        block = option_of(number << 4 | 0x8 | 6)
        message = Message(CON, POST, number, b"t", _registration_options("endless", (BLOCK1, block)), bytes(1024))
        codes.add(field.answer_to(endless, pack(message)).code_text)
        if codes - {"2.31"}:
            break
    for number in range(300):
        options = _registration_options(f"begun-{number}", (BLOCK1, option_of(0x8 | 6)), (URI_QUERY, b"%d" % number))
        endless.send(pack(Message(CON, POST, 10_000 + number, b"u%d" % number, options, bytes(1024))))

    assert codes == {"2.31", "4.13"}
    field.assert_well(*neighbour, "after-the-transfers")


def test_many_registrations_of_one_address_are_limited_and_then_dropped(
    shared_field: Field, neighbour: tuple[BareDevice, str]
) -> None:
    field = shared_field
    many = field.device("many", host="127.0.0.7")
    for number in range(2_000):
        options = _registration_options(f"many-{number}")
        many.send(pack(Message(CON, POST, number, number.to_bytes(2, "big"), options, b"</3303/0/5700>")))
        if number < 900 and number % 16 == 15:
            wait_until(lambda number=number: len(answers(many)) > number, "the answers")
        if number == 900:
            assert {each.code_text for each in answers(many)} == {"2.01", "4.29"}
    assert many.created == 600
    field.assert_well(*neighbour, "after-the-registrations")


def test_names_and_links_that_cannot_be_are_refused_with_the_cure(
    shared_field: Field, neighbour: tuple[BareDevice, str]
) -> None:
    field = shared_field
    rude = field.device("rude", host="127.0.0.8")
    number = iter(range(1000, 60_000))

    def refusal(name: bytes, payload: bytes = b"</3303/0>") -> tuple[str, str]:
        options = ((URI_PATH, b"rd"), (CONTENT_FORMAT, option_of(LINKS)), (URI_QUERY, b"ep=" + name))
        told = field.answer_to(rude, pack(Message(CON, POST, next(number), b"r", options, payload)))
        return told.code_text, told.payload.decode()

    for name in (b"", b"a\0b", b"a\nb", b"\x1b[31m", b"\xff\xfe", b"a" * 65, "a\u202eb".encode()):
        code, reason = refusal(name)
        assert code == "4.00", (name, code, reason)
        assert reason.isprintable()
    links = ",".join(f"</3303/{each}/5700>" for each in range(3001)).encode()
    for payload, code in (
        (links, "4.13"),
        (b"</3303/0/5700" * 3000, "4.00"),
        (b"<" * 60_000, "4.00"),
        (links.rpartition(b",")[0], "2.01"),
    ):
        assert field.uploaded(rude, "linked", payload).code_text == code
    field.assert_well(*neighbour, "after-the-names")


def test_who_notifies_with_a_token_that_nobody_gave_is_told_to_stop(shared_field: Field) -> None:
    device = shared_field.registered("forgetful", host="127.0.0.9")
    for kind in (NON, CON):
        datagram = device.notification(TEMPERATURE, "1", kind=kind, token=b"\xde\xad")
        assert shared_field.answer_to(device, datagram).kind == RST


def test_a_second_server_on_the_port_does_not_start(shared_field: Field, tmp_path: Path) -> None:
    where = ("--port", "0", "--database", f"sqlite:///{tmp_path}/second.db", "--coap", f"127.0.0.1:{shared_field.port}")
    ended = run_command("run", *where)
    assert ended.returncode != 0
    assert f"{shared_field.port}" in ended.stderr
    assert "taken" in ended.stderr
    assert "Traceback" not in ended.stderr


def _registration_options(name: str, *more: tuple[int, bytes]) -> tuple[tuple[int, bytes], ...]:
    return ((URI_PATH, b"rd"), (CONTENT_FORMAT, option_of(LINKS)), (URI_QUERY, f"ep={name}".encode()), *more)
