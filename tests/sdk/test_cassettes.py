"""Cassettes: recorded responses of a service, replayed without it."""

import asyncio
import itertools
import json
import os
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial

import httpx
import pandas as pd
import pytest
from blocking_client import record_pauses
from changed_responses import DIMMED, LEVEL, TEMPERATURE, Arriving, Between
from waits import PATIENCE_SECONDS

from mirror_sdk import (
    AsyncMirrorClient,
    BadRequest,
    CassetteDamaged,
    ConfigError,
    ConnectionFailed,
    InvalidValue,
    MirrorClient,
    MirrorError,
    NotFound,
    NotRecorded,
    PreconditionFailed,
    WaitTimeout,
)
from mirror_sdk.cassette.modes import open_cassette
from mirror_sdk.cassette.player import Played, Player, Wait
from mirror_sdk.cassette.recorder import CassetteRecorder
from mirror_sdk.cassette.request_key import is_poll, request_key_of
from tests.sdk.conftest import URL


@pytest.fixture
def lights(simulator):
    return [simulator.add_device(f"light-{number}", DIMMED, endpoint_type="Light") for number in range(3)]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.zip"


NOWHERE = httpx.MockTransport(lambda request: pytest.fail(f"sent {request.method} {request.url}"))
"""A transport that fails the test when a request is sent."""


@pytest.fixture
def alone(client_of):
    """Create clients without a service, whose responses come from a cassette."""
    return lambda url=URL: client_of(url, "another-key", transport=NOWHERE)


@pytest.fixture
def playing(alone, file):
    """Create such a client with a cassette that is used until the end of the test."""
    with ExitStack() as cassettes:

        def playing(**options):
            other = alone(**options)
            cassettes.enter_context(other.cassettes.use(file))
            return other

        yield playing


def both(client, alone, file, program):
    """Run a program twice, recorded and replayed, and return both results."""
    with client.cassettes.use(file) as cassette:
        assert (cassette.is_recording, cassette.is_playing) == (True, False)
        recorded = program(client)
    other = alone()
    with other.cassettes.use(file, mode="replay") as cassette:
        assert (cassette.is_recording, cassette.is_playing) == (False, True)
        played = program(other)
    return recorded, played


def tables(client):
    """Yield tables and values of all calls, one after the other."""
    yield client.fleet.snapshot()
    yield client.state_frame()
    yield client.fleet.snapshot(paths=["/3303/*"], compression="zstd")
    yield client.devices.list().to_frame()
    client.read_value("light-0", TEMPERATURE)
    client.write_value("light-1", LEVEL, 40)
    requests = [client.requests.begin_read(f"light-{number}", LEVEL) for number in range(3)]
    for request in requests:
        request.result()
    yield client.requests.frame(requests)
    client.subscribe("light-0", TEMPERATURE)
    yield client.notifications.events_frame(after=0, timeout=0)
    plan = client.plan(client.fleet.snapshot(paths=[LEVEL]), value=41, if_match=True)
    yield plan.frame
    # Concurrent writes may each have the time of another response.
    yield plan.apply(concurrency=1)
    yield plan.undo().frame
    yield client.fleet.snapshot()


@pytest.mark.both_clients
def test_every_table_is_the_same_again(client, alone, lights, file):
    recorded, played = both(client, alone, file, lambda one: list(tables(one)))
    assert len(recorded) == 10
    for one, other in zip(recorded, played, strict=True):
        pd.testing.assert_frame_equal(one, other)
        assert one.attrs == other.attrs


@pytest.mark.both_clients
def test_long_waits_are_replayed_without_delay(client, alone, lights, file, monkeypatch):
    waits = []
    respond = Player.respond

    def noting(*arguments):
        response = respond(*arguments)
        waits.append(isinstance(response, Wait))
        return response

    def program(one):
        events = one.events(timeout=1)
        first = [event.path for event in events]
        one.subscribe("light-0", TEMPERATURE)
        later = one.events(after=events.position, timeout=60, limit=1)
        return first, [(event.path, event.received_at) for event in later]

    monkeypatch.setattr(Player, "respond", noting)
    recorded, played = both(client, alone, file, program)
    assert recorded == played
    assert recorded[0] == []
    assert recorded[1][0][0] == TEMPERATURE
    # Except if the service ended a poll slightly before the time for which the client then wants to wait.
    assert waits.count(True) <= 2


def test_a_missing_response_is_missing_in_the_replay(client, alone, simulator, lights, file):
    simulator.set_online(lights[0], False)

    def program(one):
        request = one.requests.begin_read("light-0", TEMPERATURE)
        with pytest.raises(WaitTimeout):
            request.result(timeout=0.2)
        return request.done()

    assert both(client, alone, file, program) == (False, False)


def test_read_only_requests_may_be_repeated_in_a_replay(client, playing, lights, file):
    with client.cassettes.use(file):
        device = client.get_device("light-0")
        client.subscribe("light-0", TEMPERATURE)
        client.requests.begin_read("light-0", TEMPERATURE, async_id="mine").result()
    other = playing()
    for _ in range(3):
        assert other.get_device("light-0") == device
        other.subscribe("light-0", TEMPERATURE)
    other.requests.begin_read("light-0", TEMPERATURE).result()
    with pytest.raises(NotRecorded, match=r"sent more often than it was recorded.*run\.zip.*mode='record'"):
        other.requests.begin_read("light-0", TEMPERATURE)


def test_an_unrecorded_request_is_named_with_the_cure(client, playing, lights, file):
    with client.cassettes.use(file):
        client.get_device("light-0")
    with pytest.raises(NotRecorded, match=f"GET /v3/devices/{lights[1]}/echo was not recorded in") as caught:
        playing().get_device(lights[1])
    assert f"/v3/devices/{lights[0]}/echo" in str(caught.value)
    assert "mode='record'" in str(caught.value)
    with pytest.raises(NotRecorded, match="POST /v2/device-requests"):
        playing().requests.begin_write(lights[0], LEVEL, 3)
    with client.cassettes.use(file, mode="record"):
        client.write_value(lights[0], LEVEL, 2)
    with pytest.raises(NotRecorded, match="with a different body or different headers"):
        playing().requests.begin_write(lights[0], LEVEL, 3)


def test_a_missing_cassette_is_reported_before_a_missing_key(tmp_path, no_environment):
    for make in (MirrorClient.from_cassette, AsyncMirrorClient.from_cassette):
        with pytest.raises(
            ConfigError, match=r"there is no cassette .*moved\.zip to replay, and none can be recorded: api_key"
        ):
            make(tmp_path / "moved.zip")
        with pytest.raises(ConfigError, match=r"^api_key"):
            make(tmp_path / "moved.zip", mode="record")


def test_errors_are_played_too(client, plain, alone, lights, file):
    seen = client.get_device("light-0")[LEVEL]
    plain.write_value("light-0", LEVEL, 55)

    def program(one):
        with pytest.raises(PreconditionFailed) as caught:
            one.write_value("light-0", LEVEL, 70, if_match=seen)
        with pytest.raises(NotFound):
            one.get_device("light-9")
        return str(caught.value), caught.value.resource

    recorded, played = both(client, alone, file, program)
    assert recorded == played


def poll_of(player):
    """Return the only poll with entries."""
    (poll,) = {one.key for one in player._exchanges if is_poll(one.key) and one.status == 200}
    return poll


def test_a_replayed_poll_waits_for_its_cause_regardless_of_other_responses(plain, lights, file, monkeypatch):
    """The recording was slow, it is replayed without delay, and one of its requests is late."""
    recorded_seconds = itertools.count(step=10)
    monkeypatch.setattr(
        "mirror_sdk.cassette.modes.CassetteRecorder", partial(CassetteRecorder, clock=lambda: next(recorded_seconds))
    )
    with plain.cassettes.use(file):
        plain.read_value("light-0", TEMPERATURE)
        plain.devices.list()
    seconds = 0.0
    player = Player(file, clock=lambda: seconds)
    poll = poll_of(player)
    # The last recorded exchange.
    other = player._exchanges[-1].key
    started_at = player.waiting_seconds()
    assert isinstance(player.respond(poll, None, started_at, 25), Wait)
    player.respond(other, None, started_at, 0)
    assert player.waiting_seconds() > 25
    seconds = 4.9
    assert isinstance(player.respond(poll, None, player.waiting_seconds(), 25), Wait)
    # The request may never be made in the replay.
    seconds = 5.1
    assert isinstance(player.respond(poll, None, player.waiting_seconds(), 25), Played)


def test_identical_requests_are_replayed_in_the_recorded_order(mirror, lights, file):
    numbers, has_come, may_go = itertools.count(), threading.Event(), threading.Event()

    def hold_the_first(request):
        if request.url.path == "/v3/devices" and next(numbers) == 0:
            has_come.set()
            assert may_go.wait(PATIENCE_SECONDS)

    slow = MirrorClient(URL, mirror.new_key(), transport=Between(mirror, before=hold_the_first))
    with slow, slow.cassettes.use(file), ThreadPoolExecutor(1) as pool:
        first = pool.submit(slow.devices.list)
        assert has_come.wait(PATIENCE_SECONDS)
        slow.read_value(lights[0], TEMPERATURE)
        slow.devices.list()
        may_go.set()
        first.result(PATIENCE_SECONDS)
    player = Player(file, clock=lambda: 0.0)
    accepted_key = next(one.key for one in player._exchanges if one.status == 202)
    poll = poll_of(player)
    other, listed = (one.key for one in player._exchanges[-2:])
    assert listed == other
    player.respond(listed, None, 0, 0)
    assert isinstance(player.respond(poll, None, 0, 25), Wait)
    player.respond(accepted_key, "an-id", 0, 0)
    # The other request was recorded later.
    assert isinstance(player.respond(poll, None, 0, 25), Played)


def test_an_open_poll_ends_with_the_cassette(plain, lights, file):
    with plain.cassettes.use(file):
        plain.read_value("light-0", TEMPERATURE)
    player = open_cassette(file, "replay", URL, "another-key")
    poll = request_key_of(httpx.Request("GET", f"{URL}/v2/notification/pull?after=7"), "")
    started_at = player.waiting_seconds()
    assert isinstance(player.respond(poll, None, started_at, 25), Wait)
    player.close()
    ended = player.respond(poll, None, started_at, 25)
    assert (ended.status, ended.headers) == (204, {"Mirror-Cursor": "7"})


def test_many_threads_are_recorded_and_played_also_by_tasks(plain, lights, file, monkeypatch, no_environment):
    # A thread may send its request this late.
    monkeypatch.setattr("mirror_sdk.cassette.player._ORDER_SECONDS", 60.0)

    def by_threads(one):
        with ThreadPoolExecutor(8) as pool:
            values = list(pool.map(lambda number: one.read_value(f"light-{number % 3}", TEMPERATURE), range(24)))
            list(pool.map(lambda number: one.write_value(f"light-{number}", LEVEL, number), range(3)))
        return values, one.fleet.snapshot()["desired_num"].dropna().tolist()

    async def by_tasks():
        async with AsyncMirrorClient.from_cassette(file, transport=NOWHERE) as one:
            assert (one.base_url, one._session.cassette.started_at) == (URL, started_at)
            values = await asyncio.gather(*(one.read_value(f"light-{n % 3}", TEMPERATURE) for n in range(24)))
            await asyncio.gather(*(one.write_value(f"light-{number}", LEVEL, number) for number in range(3)))
            return values, (await one.fleet.snapshot())["desired_num"].dropna().tolist()

    with plain.cassettes.use(file) as cassette:
        recorded, started_at = by_threads(plain), cassette.started_at
    assert (recorded[0], set(recorded[1])) == ([21.5] * 24, {0, 1, 2})
    with MirrorClient.from_cassette(file, transport=NOWHERE) as other:
        assert by_threads(other) == asyncio.run(by_tasks()) == recorded


def everything_in(path):
    """Return all bytes of a cassette, packed and unpacked."""
    with zipfile.ZipFile(path) as archive:
        return path.read_bytes() + b"".join(archive.read(name) for name in archive.namelist())


@pytest.mark.skipif(os.name != "posix", reason="Windows has other rights")
def test_it_is_as_private_as_other_new_files(client, lights, file):
    """A cassette may contain personal values."""
    for mask in (0o077, 0o022, 0o002):
        before = os.umask(mask)
        try:
            with client.cassettes.use(file, mode="record"):
                client.state_frame()
        finally:
            os.umask(before)
        assert file.stat().st_mode & 0o777 == 0o666 & ~mask
        assert list(file.parent.glob(f"*{file.name}*")) == [file]


@pytest.mark.both_clients
def test_the_key_is_not_in_it_even_where_a_service_says_it_back(client_of, file):
    key = "ak_0123456789abcdef_a-secret-of-forty-three-characters-in-all"
    # Also if it arrives in two pieces.
    body = b"x" * 69_990 + key.encode() + b"y" * 70_000
    headers = {"X-Request-ID": key, "Set-Cookie": f"key={key}", "ETag": f'"{key}"'}
    echo = httpx.MockTransport(lambda _: httpx.Response(400, headers=headers, stream=Arriving(body, 1000)))
    client = client_of(URL, key, transport=echo)
    with client.cassettes.use(file), pytest.raises(BadRequest):
        client.devices.list(endpoint_name=key)
    content = everything_in(file).lower()
    for secret in (b"a-secret-of", b"bearer", b"authorization", b"set-cookie"):
        assert secret not in content
    assert b"*" * len(key) in content


def test_a_client_of_a_cassette_records_it_where_it_was_opened_when_it_is_closed(mirror, lights, file, monkeypatch):
    options = {"base_url": URL, "api_key": mirror.new_key(), "transport": mirror.transport}
    monkeypatch.chdir(file.parent)
    with MirrorClient.from_cassette(file.name, **options) as recording:
        monkeypatch.chdir("/")
        frame = recording.fleet.snapshot()
        assert not file.exists()
    with closing(MirrorClient.from_cassette(file, transport=NOWHERE)) as played:
        pd.testing.assert_frame_equal(played.fleet.snapshot(), frame)
    before = file.read_bytes()
    with pytest.raises(ZeroDivisionError), MirrorClient.from_cassette(file, mode="record", **options) as recording:
        1 / (len(recording.devices.list()) - 3)
    assert file.read_bytes() == before


def test_each_mode_behaves_as_documented(client, alone, lights, file, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"record it with client\.cassette"):
        client.cassettes.use(file, mode="replay")
    with client.cassettes.use(file, mode="none") as cassette:
        client.devices.list()
        assert (cassette.is_recording, cassette.is_playing) == (False, False)
    assert not file.exists()
    for mode in ("once", "once", "record", "replay"):
        with client.cassettes.use(file, mode=mode):
            assert len(client.devices.list()) == 3
    with pytest.raises(InvalidValue, match="must be one of once, replay, record, none"):
        client.cassettes.use(file, mode="again")
    with client.cassettes.use(file), pytest.raises(InvalidValue, match="the client already uses a cassette"):
        client.cassettes.use(tmp_path / "other.zip").__enter__()
    assert len(client.devices.list()) == 3
    with client.cassettes.use(file):
        client.close()
    with pytest.raises(Exception, match="closed"):
        client.devices.list()


@pytest.mark.both_clients
def test_requests_outside_the_block_reach_the_service(client, simulator, lights, file):
    with client.cassettes.use(file):
        client.devices.list()
    simulator.add_device("light-9", DIMMED)
    with client.cassettes.use(file):
        assert len(client.devices.list()) == 3
    assert len(client.devices.list()) == 4
    assert client.read_value("light-9", TEMPERATURE) == 21.5


def test_a_failed_recording_leaves_the_existing_cassette(client, lights, file):
    for before in (None, b"earlier"):
        if before is not None:
            file.write_bytes(before)
        with pytest.raises(ZeroDivisionError), client.cassettes.use(file, mode="record"):
            1 / (len(client.devices.list()) - 3)
        assert (file.read_bytes() if file.exists() else None) == before
    assert [one.name for one in file.parent.iterdir() if "run.zip" in one.name] == ["run.zip"]


@pytest.mark.both_clients
def test_a_lost_connection_is_lost_again(mirror, client_of, alone, lights, file):
    lost = []

    def lose_every_second(request):
        lost.append(request.url.path)
        if len(lost) % 2:
            raise httpx.ConnectError("nobody there")

    client = client_of(URL, mirror.new_key(), transport=Between(mirror, before=lose_every_second), max_retries=1)
    record_pauses(client)
    recorded, played = both(client, alone, file, lambda one: len(one.devices.list()))
    assert recorded == played == 3
    assert lost == ["/v3/devices"] * 2
    none = client_of(URL, mirror.new_key(), transport=Between(mirror, before=lose_every_second), max_retries=0)
    again = client_of(URL, "another-key", transport=NOWHERE, max_retries=0)
    for one in (none, again):
        with one.cassettes.use(file.with_name("other.zip")), pytest.raises(ConnectionFailed, match="nobody there"):
            one.devices.list()


def contents_of(file):
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(contents.pop("cassette.json")), contents


def write(file, manifest, contents):
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {**contents, "cassette.json": json.dumps(manifest).encode()}.items():
            archive.writestr(name, content)


def test_the_error_for_a_file_that_is_not_a_cassette_names_it(client, alone, lights, file):
    with client.cassettes.use(file):
        client.devices.list()
    complete = file.read_bytes()
    for length in (0, 10, 300, -30):
        file.write_bytes(complete[:length])
        with pytest.raises(CassetteDamaged, match=r"run\.zip"):
            alone().cassettes.use(file).__enter__()
    file.write_bytes(complete)
    manifest, contents = contents_of(file)
    (exchange,) = manifest["exchanges"]
    for change, bodies, expected_message in (
        ({"version": 2}, contents, "format version 2, .* reads format version 1"),
        ({"more": 1}, contents, "more"),
        ({"exchanges": 7}, contents, "exchanges"),
        ({"exchanges": [exchange | {"headers": {"date": "\u4e00"}}]}, contents, "date"),
        ({}, {}, "bodies/000001 is missing"),
    ):
        write(file, manifest | change, bodies)
        for open_it in (lambda: alone().cassettes.use(file).__enter__(), lambda: MirrorClient.from_cassette(file)):
            with pytest.raises(CassetteDamaged, match=expected_message) as caught:
                open_it()
            assert str(file) in str(caught.value)
            assert "record it again" in str(caught.value)


def test_unusual_headers_are_replayed_or_rejected_with_a_message(client, playing, lights, file):
    with client.cassettes.use(file):
        client.read_value("light-0", TEMPERATURE)
    manifest, contents = contents_of(file)
    headers = ("mirror-cursor", "mirror-time", "date", "etag")
    values = ("", "\n", "gzip", "9" * 5000, "nan", "-1", "\N{LATIN SMALL LETTER E WITH ACUTE}")
    for header, value in itertools.product(headers, values):
        changed = [exchange | {"headers": exchange["headers"] | {header: value}} for exchange in manifest["exchanges"]]
        write(file, manifest | {"exchanges": changed}, contents)
        with suppress(MirrorError):
            playing().read_value("light-0", TEMPERATURE)


@pytest.mark.both_clients
def test_a_body_that_is_damaged_is_named_when_it_is_read(client, playing, lights, file):
    with client.cassettes.use(file):
        client.devices.list()
    with zipfile.ZipFile(file) as archive:
        begin = archive.getinfo("bodies/000001").header_offset + 30 + len("bodies/000001") + 20
    content = bytearray(file.read_bytes())
    content[begin] ^= 0xFF
    file.write_bytes(bytes(content))
    with pytest.raises(CassetteDamaged, match="bodies/000001"):
        playing().devices.list()


@pytest.mark.both_clients
def test_a_service_below_a_path_is_played_at_another_address(client_of, playing, mirror, lights, file):
    def strip(request):
        request.url = request.url.copy_with(path=request.url.path.removeprefix("/below"))

    below = Between(mirror, before=strip)
    client = client_of("https://example.com/below", mirror.new_key(), transport=below)
    with client.cassettes.use(file):
        assert len(client.devices.list()) == 3
    assert len(playing(url="http://localhost:1").devices.list()) == 3


def test_a_webhook_is_rejected(plain, file, monkeypatch):
    monkeypatch.setattr(plain._session, "callbacks", object())
    with pytest.raises(InvalidValue, match="use_long_polling"):
        plain.cassettes.use(file)
    monkeypatch.undo()
