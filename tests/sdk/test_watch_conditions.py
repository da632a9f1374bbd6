"""Alarms of ``client.watch_conditions()`` on a real server: over outages, losses, restarts and late values."""

import json
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import httpx
import pandas as pd
import pytest
from changed_responses import Between
from client_test_data import URL
from hypothesis import given, settings
from hypothesis import strategies as st
from resource_paths import SET_POINT, SWITCH, TEMPERATURE
from waits import wait_until

from mirror_sdk import (
    Condition,
    ConditionWarning,
    ConnectionFailed,
    GapWarning,
    InvalidValue,
    NotSubscribedWarning,
)
from mirror_sdk.arrow_tables.events import build_events
from mirror_sdk.arrow_tables.history import history_of_events
from mirror_sdk.conditions.live import LiveConditions, WatchSettings
from mirror_sdk.events import EventKind, read_events
from mirror_sdk.recording import Recording
from mirror_sdk.table_formats import to_pandas
from mirror_sdk.testing.mirror import Mirror
from mirror_sdk.wire.log_entries import Batch, Entries, Gap

HOT = Condition("/3303/*/5700", above=25, for_="10min", until_below=24)


def kinds(alarms):
    return [(alarm.kind.value, alarm.value) for alarm in alarms]


@pytest.fixture
def report(simulator, device_id):
    """Let the device report values, and let some seconds pass after each of them."""

    def report(*values, seconds=1):
        for value in values:
            simulator.set_value(device_id, TEMPERATURE, value)
            simulator.advance(seconds)

    return report


@pytest.fixture
def watch(client, tmp_path):
    """Watch a condition up to the present, with a state file."""

    def watch(condition=HOT, **options):
        arguments = {"subscribe": True, "timeout": 0, "state_file": tmp_path / "state.json"} | options
        return client.watch_conditions([condition], **arguments)

    return watch


@pytest.mark.both_clients
def test_alarm_starts_after_its_duration_and_ends(client, simulator, device_id, report):
    begin = simulator.get_clock()
    with client.watch_conditions([HOT], subscribe=True, timeout=0) as alarms:
        assert list(alarms) == []
        report(26.5, 27.0, seconds=200)
        assert list(alarms) == []
        simulator.advance(200)
        (started,) = alarms
        report(24.5, 23.5)
        (ended,) = alarms
        assert list(alarms) == []
    assert list(alarms) == []
    assert (started.kind, started.device_id, started.path) == ("started", device_id, TEMPERATURE)
    assert (started.value, started.extreme, started.gap) == (27.0, 27.0, False)
    assert (started.begin - begin, started.at - begin) == (timedelta(0), timedelta(minutes=10))
    assert (ended.kind, ended.value, ended.extreme, ended.id) == ("ended", 23.5, 27.0, started.id)
    assert ended.at - begin == timedelta(seconds=601)
    assert json.loads(started.to_json())["condition"] == str(HOT)
    assert str(started).endswith(f"started {started.endpoint_name} {TEMPERATURE}: {HOT}, value 27.0")


def test_current_values_count_from_the_start(client, simulator, device_id, report):
    client.subscribe(device_id, TEMPERATURE)
    report(30.0)
    with client.watch_conditions([HOT], timeout=0, devices=[device_id]) as alarms:
        assert list(alarms) == []
        simulator.advance(600)
        (started,) = alarms
    assert (started.value, started.gap) == (30.0, True)


def test_silence_counts_from_the_last_report(client, simulator, device_id, report, tmp_path):
    client.subscribe(device_id, TEMPERATURE)
    report(30.0, seconds=7200)
    silent, begin = Condition(TEMPERATURE, silent_for="1h"), simulator.get_clock()
    with (
        client.record(tmp_path / "run.parquet"),
        client.watch_conditions([silent], timeout=0) as alarms,
    ):
        (started,) = alarms
        simulator.advance(60)
        report(31.0)
        (ended,) = alarms
    assert (started.at, started.at - started.begin, started.gap) == (begin, timedelta(hours=2), True)
    recording = Recording(tmp_path / "run.parquet")
    history = recording.history()
    state = recording.as_of(history.attrs["mirror"]["oldest_at"])
    (found,) = silent.intervals(history, state=state).to_dict("records")
    assert (found["id"], found["begin"], found["end"]) == (ended.id, ended.begin, ended.at)


@pytest.mark.both_clients
def test_program_continues_after_a_restart(client, watch, simulator, report):
    with watch() as alarms:
        assert list(alarms) == []
    report(26.0, seconds=600)
    with watch() as alarms:
        assert kinds(alarms) == [("started", 26.0)]
    report(20.0, 30.0, seconds=600)
    with watch() as alarms:
        assert kinds(alarms) == [("ended", 20.0), ("started", 30.0)]
    with watch() as alarms:
        assert list(alarms) == []


def test_first_alarm_is_repeated_with_the_same_id(client, watch, device_id, report):
    client.subscribe(device_id, TEMPERATURE)
    report(30.0)
    alarms = watch(Condition(TEMPERATURE, above=25))
    started = next(alarms)
    # The program is killed during the first alarm.
    alarms.close()
    report(31.0)
    with watch(Condition(TEMPERATURE, above=25)) as alarms:
        assert next(alarms) == started


@pytest.mark.both_clients
def test_alarm_that_was_not_processed_is_repeated(client, watch, report):
    with watch() as alarms:
        assert list(alarms) == []
    report(26.0, seconds=600)
    report(20.0)
    alarms = watch()
    started = next(alarms)
    # The program crashes.
    alarms.close()
    with watch() as alarms:
        assert next(alarms) == started
        ended = next(alarms)
        assert (ended.kind, ended.id) == ("ended", started.id)
    report(26.0, seconds=600)
    with suppress(ZeroDivisionError), watch() as alarms:
        started = next(alarms)
        raise ZeroDivisionError
    with watch() as alarms:
        assert list(alarms) == [started]


def test_state_file_belongs_to_one_program_and_its_conditions(client, watch, tmp_path, device_id):
    path = tmp_path / "state.json"
    with watch() as alarms:
        assert list(alarms) == []
        with pytest.raises(InvalidValue, match=r"state\.json is in use by another program or watch"):
            watch()
    with pytest.raises(InvalidValue, match="belongs to a watch with conditions="):
        watch(Condition(TEMPERATURE, above=1))
    with pytest.raises(InvalidValue, match="belongs to a watch with devices=None"):
        watch(devices=[device_id])
    stored = json.loads(path.read_text())
    for damaged, message in (
        ("{", "is not a state file"),
        (json.dumps(stored | {"version": 9}), "unsupported format version 9"),
        (json.dumps(stored | {"evaluator": {}}), "is damaged"),
        (json.dumps(stored | {"pending": [["x"]]}), "is damaged"),
    ):
        path.write_text(damaged)
        with pytest.raises(InvalidValue, match=message):
            watch()
    path.unlink()
    with watch() as alarms:
        assert list(alarms) == []
    with pytest.raises(InvalidValue, match="the folder does not exist"):
        watch(state_file=tmp_path / "missing" / "state.json")


@pytest.mark.parametrize(
    ("conditions", "error", "message"),
    [
        (HOT, TypeError, "write .condition."),
        (str(HOT), TypeError, "must be a list of Condition"),
        ([5], TypeError, "must be a Condition or its text"),
        ([HOT, str(HOT)], InvalidValue, "contains a condition twice"),
        ([], InvalidValue, "conditions is empty"),
        ([HOT, HOT], InvalidValue, "contains a condition twice"),
    ],
)
def test_invalid_conditions_are_rejected(client, conditions, error, message):
    with pytest.raises(error, match=message):
        client.watch_conditions(conditions)


def test_events_during_an_outage_count_at_their_own_times(mirror, client_of, report):
    is_down = False

    def fail(request):
        if is_down and "after" in request.url.params:
            raise httpx.ConnectError("no route")

    client = client_of(URL, mirror.new_key(), transport=Between(mirror, before=fail))
    with client.watch_conditions([HOT], subscribe=True, timeout=0) as alarms:
        assert list(alarms) == []
        is_down = True
        # Above 25 for nine minutes at a time. Without the values in between, it would be an hour.
        for _ in range(6):
            report(26.0, seconds=540)
            report(20.0, seconds=60)
        with pytest.raises(ConnectionFailed):
            next(alarms)
        # The client pauses after a failure.
        alarms_reader_of(alarms)._resume_at = 0
        is_down = False
        report(27.0, seconds=600)
        assert kinds(alarms) == [("started", 27.0)]


def test_outage_does_not_end_a_watch_that_reads_the_state(mirror, client_of):
    failures = []

    def fail(request):
        if request.url.path.startswith("/v3/devices") and not failures:
            failures.append(request)
            raise httpx.ConnectError("no route")

    client = client_of(URL, mirror.new_key(), max_retries=0, transport=Between(mirror, before=fail))
    silent = Condition(TEMPERATURE, silent_for="1d")
    with client.watch_conditions([silent], subscribe=True, timeout=0.1, outage_timeout=60) as alarms:
        assert list(alarms) == []
    assert failures


def alarms_reader_of(alarms):
    return getattr(alarms, "_events", alarms)._reader


def test_wait_ends_at_the_deadline(mirror, client_of, simulator, report):
    holds = []

    def note(request):
        hold = int(request.url.params.get("hold", 0))
        if hold:
            holds.append(hold)
            simulator.advance(1)

    client = client_of(URL, mirror.new_key(), transport=Between(mirror, before=note))
    soon = Condition(TEMPERATURE, above=25, for_="1500ms")
    with client.watch_conditions([soon], subscribe=True, timeout=60) as alarms:
        report(26.0)
        assert next(alarms).kind == "started"
    assert holds
    assert max(holds) <= 2


def test_deadline_that_passed_between_two_runs_is_reported_at_once(mirror, client_of, simulator, report, tmp_path):
    holds = []
    note = Between(mirror, before=lambda request: holds.append(request.url.params.get("hold")))
    client = client_of(URL, mirror.new_key(), transport=note)
    options = {"subscribe": True, "state_file": tmp_path / "state.json"}
    with client.watch_conditions([HOT], timeout=0, **options) as alarms:
        report(26.0)
        assert list(alarms) == []
    simulator.advance(700)
    holds.clear()
    with client.watch_conditions([HOT], timeout=60, **options) as alarms:
        assert next(alarms).kind == "started"
    assert {one for one in holds if one is not None} == {"0"}


def test_lost_entries_are_a_gap_after_which_the_state_is_read(watch, tmp_path, simulator, report):
    path = tmp_path / "state.json"
    with watch() as alarms:
        assert list(alarms) == []
        report(26.0, seconds=600)
        assert kinds(alarms) == [("started", 26.0)]
    # Simulate a service that was restored from an older backup.
    path.write_text(json.dumps((stored := json.loads(path.read_text())) | {"position": stored["position"] + 100}))
    simulator.advance(60)
    with watch() as alarms, pytest.warns(GapWarning):
        assert list(alarms) == []
    report(20.0)
    with watch() as alarms:
        (ended,) = alarms
    assert (ended.kind, ended.gap) == ("ended", True)
    assert ended.hidden == timedelta(seconds=60)
    assert ended.at - ended.begin == timedelta(seconds=660)


def test_value_of_another_type_warns_once(watch, report):
    text = Condition(TEMPERATURE, equals="on")
    with watch(text) as alarms:
        report(26.0)
        with pytest.warns(ConditionWarning, match="does not apply to 26.0") as warned:
            assert list(alarms) == []
        report(27.0)
        assert list(alarms) == []
    assert len(warned) == 1


def test_path_that_no_device_has_warns(watch, device_id):
    with (
        pytest.warns(ConditionWarning, match="no registered device has /3303/7/5700, so"),
        watch(HOT | Condition("/3303/7/5700", above=1)) as alarms,
    ):
        assert list(alarms) == []


@pytest.mark.filterwarnings("ignore:no registered device has")
def test_path_without_a_subscription_warns(client, device_id):
    other = Condition(SET_POINT, above=1)
    with pytest.warns(NotSubscribedWarning, match=rf"covers {SET_POINT}, /3303/\*/5700, so"):
        list(client.watch_conditions([other | Condition("/3303/*/5700", above=1)], timeout=0))
    client.subscribe(device_id, TEMPERATURE)
    # The device confirms the subscription later.
    wait_until(lambda: client.get_device(device_id).resources[TEMPERATURE].subscribed)
    with pytest.warns(NotSubscribedWarning, match=rf"covers {SET_POINT}, so"):
        list(client.watch_conditions([other | Condition("/3303/*/5700", above=1)], timeout=0))


def test_desired_values_are_compared(client, simulator, device_id):
    client.subscribe(device_id, SWITCH)
    client.read_value(device_id, SWITCH)
    differs = Condition(SWITCH, differs_from_desired_for="5min")
    with client.watch_conditions([differs], timeout=0) as alarms:
        client.write_value(device_id, SWITCH, True)
        assert list(alarms) == []
        simulator.set_value(device_id, SWITCH, False)
        simulator.advance(300)
        (started,) = alarms
    assert (started.kind, started.path, started.value) == ("started", SWITCH, False)


def test_alarms_equal_the_intervals_of_a_recording_and_of_the_history(client, simulator, device_id, report, tmp_path):
    conditions = [HOT, Condition(TEMPERATURE, changed=True), Condition(TEMPERATURE, silent_for="5min")]
    with (
        client.record(tmp_path / "run.parquet", paths=None) as recorder,
        client.watch_conditions(conditions, subscribe=True, timeout=0) as alarms,
    ):
        assert list(alarms) == []
        report(20.0, 26.0, seconds=200)
        found = list(alarms)
        report(27.0, seconds=400)
        simulator.deregister(device_id)
        simulator.advance(100)
        simulator.register(device_id)
        report(28.0, 24.5, 20.0, 20.0, seconds=350)
        found += alarms
        recorder.stop()
        found += alarms
    recorded = Recording(tmp_path / "run.parquet")
    for condition in conditions:
        ids = [alarm.id for alarm in found if alarm.condition == str(condition) and alarm.kind == "ended"]
        assert ids
        for table in (recorded.history(), recorded.events()):
            ended = condition.intervals(table).dropna(subset="end")
            assert ended.sort_values("end")["id"].tolist() == ids


def device_of(device_id, at, path=TEMPERATURE, reported=None, desired=None):
    """Return the state of a device with one resource."""
    found = SimpleNamespace(
        subscribed=True,
        reported=reported and SimpleNamespace(value=value_of(reported), reported_at=at),
        desired=desired and SimpleNamespace(value=value_of(desired)),
    )
    return SimpleNamespace(device_id=device_id, endpoint_name=None, updated_at=at, resources={path: found})


def value_of(number):
    batch = Batch(Entries(message_of(1, 1, "observation", "d1", TEMPERATURE, number, 0)), 1)
    return next(read_events(batch, START)).value


def observe(live, seq, second, value, *, device="d1", path=TEMPERATURE, gap=None):
    batch = Batch(Entries(message_of(seq, second, "observation", device, path, value, 0)), seq, gap)
    live.accept(batch, seq, START, None)


def drain(live):
    found = []
    while live.alarm is not None:
        found.append(live.alarm)
        live.pop()
    return kinds(found)


@pytest.mark.parametrize("is_reset", [False, True])
def test_clock_that_is_set_back_after_the_state_loses_no_entry(is_reset):
    watch = WatchSettings("s", "k", [], None)
    live = LiveConditions([Condition(TEMPERATURE, above=25)], ["d1"], None)
    live.start(0, START)
    live.accept_state([device_of("d1", START + timedelta(seconds=50), reported=20.0)], reported=True)
    if is_reset:
        observe(live, 1, 1, 30.0, gap=Gap(None, None))
    else:
        # An entry of another device is sufficient.
        observe(live, 1, 51, 20.0, device="d2")
        assert json.loads(live.dump(watch))["state_times"] == []
        observe(live, 2, 1, 30.0)
    assert drain(live) == [("started", 30.0)]


def test_resources_without_a_condition_are_not_stored():
    live = LiveConditions([Condition(TEMPERATURE, above=25)], None, None)
    live.start(0, START)
    for seq, path in enumerate((SWITCH, SET_POINT, TEMPERATURE), 1):
        observe(live, seq, seq, 30.0, path=path)
    assert list(live._evaluator._resources) == [("d1", TEMPERATURE)]


def test_desired_value_that_was_removed_is_forgotten():
    live = LiveConditions([Condition(TEMPERATURE, differs_from_desired_for="1s")], None, None)
    live.start(0, START)
    live.accept_state([device_of("d1", START, reported=20.0, desired=30.0)], reported=True)
    live.accept(Batch(), 0, START, START + timedelta(seconds=2))
    assert drain(live) == [("started", 20.0)]
    live.accept_state([device_of("d1", START, reported=20.0)], reported=False)
    assert drain(live) == [("ended", 20.0)]


@pytest.mark.both_clients
def test_only_the_selected_devices_are_read(mirror, client_of, simulator, device_id, monkeypatch):
    monkeypatch.setattr("mirror_sdk._protocol.operations.DEVICES_AT_A_TIME", 1)
    resources = [{"path": TEMPERATURE, "value": "20", "observable": True}]
    second, other = (simulator.add_device(name, resources) for name in ("sensor-2", "sensor-3"))
    requests = []
    client = client_of(URL, mirror.new_key(), transport=Between(mirror, before=requests.append))
    selected = sorted([device_id, second])
    with client.watch_conditions([HOT], subscribe=True, timeout=0, devices=selected) as alarms:
        assert list(alarms) == []
    listed = [one.url.params for one in requests if one.url.path == "/v3/devices"]
    assert [(one["state__eq"], one["id__in"]) for one in listed] == [("registered", one) for one in selected]
    assert not [one for one in requests if other in str(one.url)]


def test_entries_that_precede_the_state_are_ignored():
    """The state is read after the position in the log, so the log contains older values, too."""
    live, settings = LiveConditions([Condition(TEMPERATURE, above=25)], None, None), WatchSettings("s", "k", [], None)
    entries = [(1, "leaves", None, None), (2, "observation", TEMPERATURE, 20.0), (3, "observation", TEMPERATURE, 30.0)]
    batches = [Batch(Entries(message_of(seq, seq, kind, "d1", *rest, 0)), seq) for seq, kind, *rest in entries]
    (newest,) = read_events(batches[-1], START)
    at = START + timedelta(seconds=3)
    reported = SimpleNamespace(value=newest.value, reported_at=at)
    resource = SimpleNamespace(subscribed=True, desired=None, reported=reported)
    device = SimpleNamespace(device_id="d1", endpoint_name=None, updated_at=at, resources={TEMPERATURE: resource})
    live.start(0, START)
    live.accept_state([device], reported=True)
    stored, live = live.dump(settings), LiveConditions([Condition(TEMPERATURE, above=25)], None, None)
    live.load(stored, settings, "state.json")
    for batch in batches:
        live.accept(batch, batch.seq, at, None)
    assert live.alarm.kind == "started"
    live.pop()
    assert live.alarm is None
    live.accept(Batch(Entries(message_of(4, 4, "observation", "d1", TEMPERATURE, 20.0, 0)), 4), 4, at, None)
    assert (live.alarm.kind, live.alarm.gap, live.alarm.hidden) == ("ended", True, timedelta(0))


def test_log_that_was_reset_may_have_an_earlier_clock():
    live = LiveConditions([Condition(TEMPERATURE, above=25)], None, None)
    live.start(9, START + timedelta(days=1))
    live.accept(Batch(Entries({}), 1, Gap(None, None)), 1, START, START)
    assert live.now == START


KINDS = {"observation": "notifications", "leaves": "de-registrations", "returns": "registrations"}
LIVE = [
    Condition("/3303/*/5700", above=0, for_="4s", until_below=-1),
    Condition("/3303/0/5700", outside=(-1, 1)),
    Condition("/3303/1/5700", changed=True),
    Condition("/3303/*/5700", silent_for="6s"),
    Condition("/3303/0/5700", above=0, for_="2s") & Condition("/3303/1/5700", below=1),
]


@st.composite
def logs(draw):
    """Generate entries of the log in seconds, and losses between them. Devices' clocks may be wrong by years."""
    wrong = st.one_of(st.just(0), st.sampled_from([-3, 2, -(10**8), 10**8]))
    entry = st.tuples(
        st.sampled_from(["observation"] * 6 + ["leaves", "returns"]),
        st.sampled_from(["d1", "d2"]),
        st.sampled_from(["/3303/0/5700", "/3303/1/5700"]),
        st.sampled_from([-2.0, -0.5, 0.5, 1.5]),
        wrong,
    )
    seconds = sorted(draw(st.sets(st.integers(1, 60), max_size=25)))
    return [(second, *draw(entry), draw(st.integers(0, 9)) == 0) for second in seconds]


def message_of(seq, second, kind, device, path, value, wrong):
    body = {
        "ep": device,
        "timestamp": 1000 * (ORIGIN + second + wrong),
        "seq": seq,
        "logged-at": 1000 * (ORIGIN + second),
    }
    if kind == "observation":
        body |= {"path": path, "ct": "text/plain", "payload": b64encode(str(value).encode()).decode()}
    return {KINDS[kind]: [body]}


ORIGIN = 1_700_000_000
START = datetime.fromtimestamp(ORIGIN, UTC)


@pytest.mark.filterwarnings("ignore::mirror_sdk.EmptyTableWarning")
@settings(max_examples=50)
@given(logs(), st.data())
def test_live_alarms_equal_the_intervals_of_the_recorded_events(entries, data):
    """Batches, waits, restarts, late values, wrong clocks and losses do not change the alarms."""
    watch = WatchSettings("server", "key", [], None)
    live, found, events, gaps = LiveConditions(LIVE, None, None), [], [], []
    live.start(0, START)
    now = 0
    for seq, (second, *entry, is_after_loss) in enumerate(entries, 1):
        now = data.draw(st.integers(now, second - is_after_loss), "wait until")
        live.accept(Batch(), seq - 1, START, START + timedelta(seconds=now))
        if data.draw(st.booleans(), "restart"):
            stored, live = live.dump(watch), LiveConditions(LIVE, None, None)
            live.load(stored, watch, "state.json")
        if is_after_loss:
            gaps.append((START + timedelta(seconds=now), START + timedelta(seconds=second)))
        batch = Batch(Entries(message_of(seq, second, *entry)), seq, Gap(None, None) if is_after_loss else None)
        # The clock of this machine is wrong, too.
        received_at = START + timedelta(days=365, seconds=seq)
        live.accept(batch, seq, received_at, START + timedelta(seconds=second))
        events += [event for event in read_events(batch, received_at) if event.kind is not EventKind.GAP]
        now = second
        while (alarm := live.alarm) is not None:
            found.append(alarm)
            live.pop()
    ends = [START, START + timedelta(seconds=now)]
    begin, end = (one.isoformat() for one in ends)
    table = history_of_events(build_events(events, raw=False).finish(server="", position=None)[0][0], gaps)
    frame = to_pandas([table], {"taken_at": end, "begin": begin, "oldest_at": begin})
    for condition in LIVE:
        expected = condition.intervals(frame)
        alarms = [alarm for alarm in found if alarm.condition == str(condition)]
        started = {(one.id, one.begin, one.at) for one in alarms if one.kind == "started"}
        ended = {(one.id, one.at, one.extreme, one.hidden, one.gap) for one in alarms if one.kind == "ended"}
        assert len(alarms) == len(started) + len(ended)
        assert started == set(zip(expected["id"], expected["begin"], expected["started_at"], strict=True))
        closed = expected.dropna(subset="end").astype({"extreme": object})
        columns = (
            closed["id"],
            closed["end"],
            closed["extreme"].replace({pd.NA: None}),
            closed["hidden"],
            closed["gap"],
        )
        assert ended == set(zip(*columns, strict=True))


def test_watch_continues_after_a_restart_of_the_server(tmp_path):
    with Mirror(tmp_path) as mirror:
        device = mirror.simulator.add_device("sensor-1", [{"path": TEMPERATURE, "value": "20", "observable": True}])
        with mirror.client.watch_conditions([HOT], subscribe=True, timeout=0) as alarms:
            assert list(alarms) == []
            mirror.simulator.set_value(device, TEMPERATURE, 26.0)
            assert list(alarms) == []
            mirror.faults.restart_server()
            mirror.simulator.advance(600)
            # The time of the service advances when all of its work is done.
            assert wait_until(lambda: kinds(alarms)) == [("started", 26.0)]
