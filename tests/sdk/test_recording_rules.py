"""Subscriptions of a recording: warnings about uncovered paths, and rules for the duration of the recording."""

import asyncio
import shutil
import warnings
from types import SimpleNamespace

import httpx
import pytest
from changed_responses import Between
from client_test_data import LAMP, SENSOR, URL
from resource_paths import SWITCH, TEMPERATURE
from thread_waits import until

from mirror_sdk import (
    AccessDenied,
    AsyncMirrorClient,
    ConnectionFailed,
    MirrorClient,
    NotSubscribedWarning,
    PresubscriptionRule,
    RecordingDamaged,
)
from mirror_sdk.recording import Recording, file_names
from mirror_server.service.keys import Scope

TEMPERATURES = PresubscriptionRule(resource_path=["/3303/*"])


@pytest.fixture
def sensors(simulator):
    """Five sensors of two types and a device without a temperature, as name -> id."""
    types = {f"sensor-{number}": "AB"[number % 2] for number in range(1, 6)}
    found = {name: simulator.add_device(name, [SENSOR, LAMP], endpoint_type=kind) for name, kind in types.items()}
    return found | {"lamp": simulator.add_device("lamp", [LAMP], endpoint_type="Lamp")}


def warned(client, folder, **options):
    """Return the warnings at the start of a recorder."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client.record(folder, **options).stop()
    assert {warning.category for warning in caught} <= {NotSubscribedWarning}
    return [str(warning.message) for warning in caught]


def recorded(recorder):
    frame = Recording(recorder.path).events()
    return frame[frame["event"] == "observation"]["value_num"].tolist()


# Paths without a rule


def test_uncovered_paths_of_devices_are_reported(client, sensors, folder):
    (said,) = warned(client, folder, paths=["/3303/*", SWITCH, "/9999/*"])
    assert "/3303/* of 5 devices (sensor-1, sensor-2, sensor-3, 2 more)" in said
    assert f"{SWITCH} of 6 devices (lamp, sensor-1, sensor-2, 3 more)" in said
    assert "/9999/* (which no registered device has)" in said
    assert "subscribe=True" in said
    assert "client.subscriptions.rules.add()" in said
    # If the warning is raised as an error, no recorder remains.
    with pytest.raises(NotSubscribedWarning):
        client.record(folder, paths=["/3303/*", SWITCH, "/9999/*"])
    client.record(folder, paths=["/3303/*", SWITCH, "/9999/*"], subscribe=True).stop()


def test_paths_covered_by_rules_or_subscriptions_are_not_reported(plain, simulator, sensors, folder):
    def left():
        return "".join(warned(plain, folder, paths=["/3303/*"])).partition("covers /3303/* of ")[2].partition(":")[0]

    assert warned(plain, folder.with_name("all")) == []
    for rule, uncovered in (
        ({}, ""),
        ({"resource_path": ["/33*"]}, ""),
        ({"resource_path": [TEMPERATURE]}, ""),
        ({"endpoint_name": "sensor-*"}, ""),
        ({"endpoint_type": "A"}, "3 devices (sensor-1, sensor-3, sensor-5)"),
        ({"endpoint_name": "sensor-1", "endpoint_type": "B"}, "4 devices (sensor-2, sensor-3, sensor-4, 1 more)"),
        ({"endpoint_name": "sensor-1", "endpoint_type": "A"}, "5 devices"),
        ({"resource_path": ["/3303/0/57"]}, "5 devices"),
    ):
        plain.subscriptions.rules.replace([rule])
        assert left().startswith(uncovered), rule
        assert bool(left()) == bool(uncovered), rule
    plain.subscriptions.rules.delete_all()
    plain.subscribe("sensor-1", TEMPERATURE)
    simulator.deregister(sensors["sensor-2"])
    assert left().startswith("3 devices (sensor-3, sensor-4, sensor-5)")


def test_subscriptions_of_another_key_do_not_count(client, new_client, sensors, folder):
    other = new_client()
    other.subscribe("sensor-1", TEMPERATURE)
    other.subscriptions.rules.replace([{}], apply_now=True)
    (said,) = warned(client, folder, devices=["sensor-1"], paths=["/3303/*"])
    assert "1 device (sensor-1)" in said


def test_observations_of_any_application_count_as_covered(mirror, plain, simulator, folder, monkeypatch):
    """Observations of any client count as covered beyond the limit of single requests."""
    monkeypatch.setattr("mirror_sdk.recording.recording_rules._MAX_REQUESTS", 2)
    for number in range(5):
        simulator.add_device(f"d{number}", [SENSOR])
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as other:
        other.subscriptions.rules.replace([{"endpoint_name": name} for name in ("d1", "d3", "d4")], apply_now=True)
    simulator.advance(1)
    (said,) = warned(plain, folder, paths=["/3303/*"])
    assert "/3303/* of 4 devices (d0, " in said


def test_a_rule_for_future_devices_covers_missing_paths(plain, sensors, folder):
    for rule in ({"endpoint_type": "Later", "resource_path": ["/9999/0/1"]}, {"resource_path": ["/99*"]}):
        plain.subscriptions.rules.replace([rule])
        assert warned(plain, folder, paths=["/9999/*"]) == [], rule
    plain.subscriptions.rules.replace([{"resource_path": ["/998*"]}])
    assert warned(plain, folder, paths=["/9999/*"]) != []


# Rules during a recording


@pytest.mark.both_clients
def test_rules_exist_only_during_the_recording(client, simulator, sensors, folder):
    client.subscriptions.rules.replace([{"endpoint_name": "others"}])
    others = client.subscriptions.rules.list()
    with client.record(folder, paths=["/3303/*"], subscribe=True) as recorder:
        assert client.subscriptions.rules.list() == [*others, TEMPERATURES]
        simulator.advance(1)
        simulator.set_value(sensors["sensor-1"], TEMPERATURE, "30")
    assert client.subscriptions.rules.list() == others
    assert sorted(recorded(recorder)) == [21.5] * 5 + [30.0]
    assert recorder.audit().complete
    assert not file_names.rules_path(folder).exists()
    names = ["sensor-1", "lamp"]
    with client.record(folder.with_name("named"), devices=names, paths=[SWITCH], subscribe=True):
        rules = client.subscriptions.rules.list()
    assert rules[1:] == [PresubscriptionRule(endpoint_name=sensors[name], resource_path=[SWITCH]) for name in names]


@pytest.mark.parametrize("first_ends", ["first", "last"])
def test_of_two_recorders_the_one_that_added_the_rule_removes_it(plain, sensors, folder, first_ends):
    first = plain.record(folder, paths=["/3303/*"], subscribe=True)
    second = plain.record(folder.with_name("second"), paths=["/3303/*"], subscribe=True)
    assert plain.subscriptions.rules.list() == [TEMPERATURES]
    if first_ends == "last":
        second.stop()
        assert plain.subscriptions.rules.list() == [TEMPERATURES]
    first.stop()
    assert plain.subscriptions.rules.list() == []
    second.stop()


def test_closing_the_client_removes_the_rules_also_of_a_cancelled_task(mirror, sensors, folder, loop):
    key = mirror.new_key()

    async def record():
        async with AsyncMirrorClient(URL, key, transport=mirror.async_transport) as client:

            async def forever():
                async with await client.record(folder, paths=["/3303/*"], subscribe=True):
                    started.set()
                    await asyncio.Event().wait()

            started = asyncio.Event()
            task = asyncio.create_task(forever())
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            after_cancel = await client.subscriptions.rules.list()
            await client.record(folder, paths=["/3303/*"], subscribe=True)
            return after_cancel, await client.subscriptions.rules.list()

    assert loop.run(record()) == ([], [TEMPERATURES])
    with MirrorClient(URL, key, transport=mirror.transport) as watching:
        assert watching.subscriptions.rules.list() == []


@pytest.mark.parametrize("subscribes", [False, True])
def test_rules_that_a_killed_recorder_left_are_removed_by_the_next_one(client, new_client, sensors, folder, subscribes):
    left = folder.with_name("left")
    with client.record(folder, paths=["/3303/*"], subscribe=True):
        shutil.copytree(folder, left)
        shutil.copytree(file_names.sidecar_of(folder), file_names.sidecar_of(left))
    client.subscriptions.rules.replace([TEMPERATURES, {"endpoint_name": "others"}])
    with client.record(left, paths=["/3303/*"], subscribe=subscribes):
        assert TEMPERATURES in client.subscriptions.rules.list()
    assert client.subscriptions.rules.list() == [PresubscriptionRule(endpoint_name="others")]
    assert not file_names.rules_path(left).exists()
    other = new_client()
    other.subscriptions.rules.replace([TEMPERATURES])
    with client.record(folder, paths=["/3303/*"], subscribe=True):
        shutil.copytree(file_names.sidecar_of(folder), file_names.sidecar_of(folder.with_name("noted")))
    other.record(folder.with_name("noted"), paths=["/3303/*"], subscribe=True).stop()
    assert other.subscriptions.rules.list() == [TEMPERATURES]


@pytest.fixture
def cut(mirror, client_of):
    """A network that can be interrupted before or after a request, a client that uses it, and one that does not."""
    network, key = SimpleNamespace(cuts=lambda request: None), mirror.new_key()

    def pass_on(request, answer=None):
        if network.cuts(request) == ("before" if answer is None else "after"):
            raise httpx.ConnectError("cut")
        return answer

    transport = Between(mirror, pass_on, before=pass_on)
    with MirrorClient(URL, key, transport=mirror.transport) as near:
        yield network, client_of(URL, key, transport=transport, max_retries=0), near


def test_rules_that_could_not_be_removed_are_removed_by_the_next_recorder(cut, sensors, folder, caplog):
    network, client, near = cut
    recorder = client.record(folder, paths=["/3303/*"], subscribe=True)
    network.cuts = lambda request: "before"
    recorder.stop()
    assert "still exist" in caplog.text
    assert near.subscriptions.rules.list() == [TEMPERATURES]
    network.cuts = lambda request: None
    client.record(folder, paths=["/3303/*"], subscribe=True).stop()
    assert near.subscriptions.rules.list() == []


@pytest.mark.parametrize(
    ("what", "when"),
    [("GET /v2/subscriptions", "before"), ("PUT /v2/subscriptions", "after"), ("GET /v3/devices", "before")],
)
def test_a_beginning_that_fails_leaves_no_rules(cut, sensors, folder, what, when):
    """The network is interrupted once, before or after a request. The state is read after the rules are added."""
    network, client, near = cut
    interrupted = []

    def cuts(request):
        if f"{request.method} {request.url.path}".startswith(what) and interrupted in ([], [request]):
            interrupted[:] = [request]
            # A killed recorder must leave a note of the rules that it was going to add.
            assert file_names.rules_path(folder).exists() or what == "GET /v2/subscriptions"
            return when
        return None

    network.cuts = cuts
    with pytest.raises(ConnectionFailed):
        client.record(folder, paths=["/3303/*"], subscribe=True)
    assert near.subscriptions.rules.list() == []
    client.record(folder, paths=["/3303/*"], subscribe=True).stop()


def test_invalid_rules_are_rejected_before_anything_is_created(client, folder):
    for options, words in (
        ({"paths": ["3303"]}, "'3303' matches no"),
        ({"paths": [f"/3303/{number}/*" for number in range(257)]}, "256"),
        ({"devices": [f"{number:032x}" for number in range(1025)]}, "devices: each of the 1025 devices needs a rule"),
    ):
        with pytest.raises(ValueError, match=words):
            client.record(folder, subscribe=True, **options)
    assert not folder.exists()


def test_a_key_that_may_not_subscribe_is_rejected_and_coverage_is_empty(new_client, sensors, folder):
    client = new_client(Scope.READ)
    with pytest.raises(AccessDenied, match="subscribe"):
        client.record(folder, paths=["/3303/*"], subscribe=True)
    (said,) = warned(client, folder, paths=["/3303/*"])
    assert said.startswith("cannot check whether a rule or a subscription covers /3303/*: 403 access_denied")


def test_a_damaged_note_is_named(plain, sensors, folder):
    plain.record(folder).stop()
    file_names.rules_path(folder).write_text('{"rules": [')
    with pytest.raises(RecordingDamaged, match=r"rules\.json is damaged, .* Remove the file\."):
        plain.record(folder)
    file_names.rules_path(folder).unlink()
    plain.record(folder).stop()


def test_a_recorder_that_ends_by_itself_removes_its_rules(cut, sensors, folder, monkeypatch):
    _, client, near = cut
    recorder = client.record(folder, paths=["/3303/*"], subscribe=True)

    def fail(*_):
        raise OSError("no more")

    monkeypatch.setattr("mirror_sdk.recording.folder.RecordingFolder.append", fail)
    near.subscribe("sensor-1", SWITCH)
    until(lambda: not recorder.is_running and near.subscriptions.rules.list() == [])
    with pytest.raises(OSError, match="no more"):
        recorder.stop()
