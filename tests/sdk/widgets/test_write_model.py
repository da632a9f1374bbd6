"""The model of the write panel, against the real app."""

import re
import threading
from datetime import UTC, datetime

import pandas as pd
import pytest
from client_test_data import DIMMER, OWN, URL
from resource_paths import LEVEL, SWITCH, TEMPERATURE
from thread_waits import until

from mirror_sdk import Event, EventKind, InvalidValue, MirrorClient
from mirror_sdk.frames import REQUESTS_SCHEMA
from mirror_sdk.object_definitions import ResourceType
from mirror_sdk.widgets.models.status import Status, Tone
from mirror_sdk.widgets.models.write_model import Stage, WriteLimits, WriteModel
from mirror_server.service.keys import Scope


@pytest.fixture
def new_model(client):
    def make(*arguments, **options):
        made = WriteModel(client, *arguments, **options)
        made.devices.load()
        return made

    return make


def requested(model, path=LEVEL, entry="40"):
    model.value.choose_path(path)
    model.value.enter(entry)
    return model


def previewed(model, path=LEVEL, entry="40"):
    requested(model, path, entry).preview()
    return model


def states(model):
    return [(row["device"], row["status"]) for row in model.rows]


def reasons(model):
    return {row["device"]: row["reason"] for row in model.rows}


def event(kind, **more):
    return Event(kind=kind, received_at=datetime.now(UTC), **more)


# Devices


def test_devices_passed_as_argument_are_the_only_candidates_and_selected(new_model, client, lights):
    selected = lights[:2]
    state = client.state_frame(paths=[LEVEL])
    for devices in (
        [*selected, selected[0]],
        [one for one in client.devices.list() if one.id in selected],
        state[state["device_id"].isin(selected)],
        state.mirror.wide().loc[selected],
        pd.Series(selected, name="device_id"),
    ):
        model = new_model(devices)
        assert sorted(model.devices.picked) == sorted(selected), devices
        assert {row["device"] for row in model.devices.rows} == {"light-0", "light-1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"devices": pd.DataFrame({"device": ["a"]})}, "pass a table with"),
        *(({"devices": devices}, "pass a device, its id or its endpoint name") for devices in ([3], [None])),
        *(
            ({"limits": limits}, "must be")
            for limits in (WriteLimits(expiry_seconds=0), WriteLimits(canary=-1), WriteLimits(max_failures=-1))
        ),
    ],
)
def test_invalid_device_or_limit_is_an_error_with_the_cure(client, arguments, message):
    with pytest.raises((InvalidValue, TypeError), match=message):
        WriteModel(client, **arguments)


def test_directory_that_could_not_be_read_is_not_called_empty(new_model, client):
    client.close()
    assert new_model().devices.text == "the directory could not be read"


def test_any_device_of_the_directory_can_be_picked(new_model, simulator, lights):
    simulator.add_device("sensor", endpoint_type="Sensor")
    model = new_model()
    assert model.devices.picked == []
    assert model.status_text == "To begin, pick at least one device."
    assert [(row["device"], row["type"]) for row in model.devices.rows[2:]] == [
        ("light-2", "Light"),
        ("sensor", "Sensor"),
    ]
    model.devices.pick([lights[2], lights[0]])
    assert model.devices.picked == [lights[0], lights[2]]
    assert model.devices.text == "2 of 4 devices picked"
    model.devices.pick([])
    assert model.devices.text == "0 of 4 devices picked"


def test_failed_reads_of_directory_and_resources_are_notices(new_model, client, lights):
    model = new_model()
    client.close()
    model.devices.pick([lights[0]])
    model.devices.load()
    assert [text.partition(": ")[0] for text in model.notices.texts] == [
        "Reading the resources of light-0",
        "Reading the directory",
    ]


# Resource and value


def test_only_possibly_writable_resources_are_offered_with_the_current_value(new_model, lights):
    model = new_model(lights)
    assert model.value.paths == [f"{SWITCH} · Light Control · On/Off", f"{LEVEL} · Light Control · Dimmer", OWN]
    assert model.value.paths_text == "the list has the resources of light-0 that may be writable"
    for path, chosen, type_, entry in (
        (LEVEL, LEVEL, ResourceType.INTEGER, "10"),
        (SWITCH, SWITCH, ResourceType.BOOLEAN, False),
        (" /3308/0/5900 ", "/3308/0/5900", ResourceType.FLOAT, ""),
        (model.value.paths[1], LEVEL, ResourceType.INTEGER, "10"),
    ):
        model.value.choose_path(path)
        assert (model.value.path, model.value.form.type, model.value.entry) == (chosen, type_, entry)
    assert model.value.text == "a whole number from 0 to 100 · light-0 last reported 10 % at 2026-01-05 08:00:00 UTC"


@pytest.mark.parametrize(
    ("path", "entry", "message"),
    [
        ("/3308/x", None, "write it like"),
        ("/3308/0", None, "is not a resource"),
        (TEMPERATURE, None, "/3303/0/5700 · Temperature · Sensor Value cannot be written; choose another resource"),
        (LEVEL, "140", "from 0 to 100"),
        (LEVEL, "4O", "whole number"),
        ("/3/0/13", "tomorrow", "2026-01-05T08:00:00Z"),
    ],
)
def test_an_invalid_path_or_value_is_displayed_and_prevents_a_preview(
    new_model, lights, transport, path, entry, message
):
    model = new_model(lights, path=path)
    if entry is not None:
        requested(model, path, entry)
    problem = model.value.path_problem or model.value.value_problem
    assert message in problem
    assert model.status_text == "To begin, correct the input."
    transport.requests.clear()
    model.preview()
    model.tick()
    assert transport.requests == []
    assert model.notices.texts == [f"No preview yet: {problem}"]
    # The typed text is retained.
    assert (model.value.path, model.value.entry, model.plan) == (path, entry or "", None)


@pytest.mark.parametrize(("typed", "entry"), [(None, "10"), ("55", "55")])
def test_the_value_of_the_device_is_filled_in_unless_something_was_typed(client, lights, later, typed, entry):
    model = WriteModel(client, lights, later, path=LEVEL)
    assert (model.value.path, model.value.entry) == (LEVEL, "")
    if typed:
        model.value.enter(typed)
    model.devices.load()
    later.make_all()
    assert (model.value.entry, model.missing) == (entry, "")


def test_reported_value_is_updated_and_typed_value_stays(new_model, client, simulator, lights, seconds):
    model = new_model(lights, path=LEVEL, clock=seconds)
    model.value.enter("33")
    client.subscribe(lights[0], LEVEL)
    simulator.set_value(lights[0], LEVEL, 20)
    model.receive([event(EventKind.OBSERVATION, device_id=lights[0], path=LEVEL)])
    model.tick()
    assert "last reported 10 %" in model.value.text
    seconds.now += 0.6
    model.tick()
    assert "last reported 20 %" in model.value.text
    assert model.value.entry == "33"


def test_input_sends_nothing_and_a_complete_preview_only_reads(new_model, lights, transport):
    for devices, problem in ((None, "pick at least one device"), (lights, "choose a resource")):
        model = new_model(devices)
        model.preview()
        assert model.notices.texts == [f"No preview yet: {problem}"]
    transport.requests.clear()
    requested(model, SWITCH, True)
    requested(model, LEVEL, "41")
    assert transport.requests == []
    model.preview()
    assert model.to_write == 3
    assert {request.partition(" ")[0] for request in transport.requests} == {"GET"}


# Preview


def test_a_preview_displays_changes_and_rejected_writes_with_reasons(new_model, client, simulator, lights):
    other = simulator.add_device("sensor", [{"path": TEMPERATURE, "value": "1"}])
    simulator.set_value(lights[1], LEVEL, 40)
    client.read_value(lights[1], LEVEL)
    simulator.deregister(lights[2])
    model = previewed(new_model([*lights, other, "f" * 32]))
    assert states(model) == [
        ("light-0", Status.TO_WRITE.text),
        ("light-1", Status.SKIPPED.text),
        ("light-2", Status.SKIPPED.text),
        ("sensor", Status.REJECTED.text),
        ("f" * 32, Status.REJECTED.text),
    ]
    reason_by_device = reasons(model)
    assert "has no resource" in reason_by_device["sensor"]
    assert "no such device" in reason_by_device["f" * 32]
    assert re.fullmatch(
        r"it has this value, reported at 2026-\d\d-\d\d \d\d:\d\d:\d\d UTC", reason_by_device["light-1"]
    )
    assert reason_by_device["light-2"] == "the device is not registered"
    assert [(row["before"], row["requested"]) for row in model.rows[::4]] == [
        ("10 %", "40 %"),
        ("no value yet", "40 %"),
    ]
    assert model.status_text == "Preview: 1 to write, 2 skipped, 2 rejected. Nothing was sent yet."
    assert model.plan_title == "/3311/0/5851 · Light Control · Dimmer"


def test_sleeping_devices_are_counted_separately_and_their_responses_displayed(new_model, simulator, lights):
    sleepers = [simulator.add_device(f"sleeper-{number}", [DIMMER], queue_mode=True) for number in range(2)]
    simulator.advance(11)
    model = previewed(new_model([*sleepers, *lights[:1]]))
    # The level of sleeping devices is unknown.
    assert [(row["device"], row["waits"], row["undo"]) for row in model.rows] == [
        ("light-0", "60 s", "yes"),
        ("sleeper-0", "3 days", "no"),
        ("sleeper-1", "3 days", "no"),
    ]
    assert reasons(model)["light-0"] == "goes first"
    assert "sleeps and receives it at its next contact; this write cannot be undone: " in reasons(model)["sleeper-0"]
    asleep = "2 devices sleep and receive their writes at their next contact, within 3 days."
    assert model.status_text == f"Preview: 3 to write. 2 cannot be undone. {asleep} Nothing was sent yet."
    model.apply()
    assert (model.counts[Status.ASLEEP], model.counts[Status.SUCCESS]) == (2, 1)
    assert model.status_text.startswith(
        "Done: 1 of 1 write ended, 1 succeeded; 2 devices sleep and receive their writes at"
    )
    assert "receives it at its next contact, by 2026-" in reasons(model)["sleeper-0"]
    simulator.advance(15 * 60)
    for request in model.plan.requests:
        model.receive([event(EventKind.ASYNC_RESPONSE, async_id=request.async_id)])
    model.tick()
    assert model.counts[Status.SUCCESS] == 3
    assert model.status_text == "Done: 3 of 3 writes ended, 3 succeeded."


def test_accepted_writes_are_displayed_before_rejected_ones(new_model, simulator, lights):
    sensors = [simulator.add_device(f"sensor-{number}") for number in range(4)]
    model = previewed(new_model([*sensors, *lights], limits=WriteLimits(canary=2)))
    assert model.status_text.startswith("Preview: 3 to write, 4 rejected.")
    assert [row["status"] for row in model.rows] == [Status.TO_WRITE.text] * 3 + [Status.REJECTED.text] * 4
    assert [row["device"] for row in model.rows if "goes first" in row["reason"]] == ["light-0", "light-1"]
    model.show_only(Status.REJECTED)
    assert {row["device"][:6] for row in model.rows} == {"sensor"}
    assert model.counts[Status.TO_WRITE] == 3
    model.apply()
    # A plan that is being applied is shown completely.
    assert (model.status, len(model.rows)) == (None, 7)
    assert [row["status"] for row in model.rows[:3]] == [Status.SUCCESS.text] * 3
    assert model.progress == (3, 3, Tone.GOOD)


def test_apply_needs_a_preview_of_this_very_input(new_model, client, lights):
    model = requested(new_model(lights))
    assert not model.can_apply
    model.apply()
    assert model.notices.texts == ["Nothing was sent: make a preview of this input first"]
    model.preview()
    assert model.can_apply
    for change in (
        lambda: model.value.enter("41"),
        lambda: model.devices.pick(lights[1:]),
        lambda: model.value.choose_path(SWITCH),
    ):
        change()
        assert not model.can_apply
        assert model.is_outdated
        assert model.status_text == "The input changed since this preview: make a new one."
        model.apply()
    assert client.requests.list() == []
    assert all(client.get_device(device_id)[LEVEL].desired is None for device_id in lights)
    previewed(model, SWITCH, True)
    # True is not 1.
    for entry, fits in (("1", False), (True, True)):
        model.value.enter(entry)
        assert model.can_apply == fits


@pytest.fixture
def later_model(client, lights, later):
    """A model with loaded devices, whose further calls are made on demand."""
    model = WriteModel(client, lights, later)
    model.devices.load()
    later.make_all()
    return model


def test_an_outdated_preview_is_not_displayed(later_model, later):
    model = previewed(later_model, LEVEL, "40")
    previewed(model, LEVEL, "50")
    assert model.stage is Stage.CHECKING
    later.make(1)
    later.make()
    assert model.rows[0]["requested"] == "50 %"
    assert model.can_apply
    model.preview()
    model.value.enter("41")
    later.make_all()
    assert (model.is_outdated, model.can_apply) == (True, False)


# Writing


def test_a_write_ends_as_a_requests_table(new_model, client, simulator, lights):
    simulator.set_response_mode(lights[1], "reject")
    model = new_model(lights, limits=WriteLimits(canary=0))
    assert list(model.result.columns) == REQUESTS_SCHEMA.names
    assert len(model.result) == 0
    previewed(model).apply()
    assert model.stage is Stage.ENDED
    assert model.result["status"].tolist() == ["success", "failure", "success"]
    assert states(model) == [
        ("light-0", Status.SUCCESS.text),
        ("light-1", Status.FAILED.text),
        ("light-2", Status.SUCCESS.text),
    ]
    assert reasons(model)["light-1"] == "REJECTED: the device rejected the request; its own log may say why"
    assert model.status_text == "Done: 3 of 3 writes ended, 2 succeeded, 1 failed."
    assert client.read_value(lights[0], LEVEL) == 40
    assert not model.can_apply
    assert model.plan is not None


def test_progress_is_seen_as_it_happens_and_stopped(client, simulator, lights, seconds):
    # With a clock that stands still, no periodic read becomes due, so the write has the only outcome.
    outcomes = []

    def run(call, then, failed):
        def make():
            outcome = call()
            outcomes.append(lambda: then(outcome))

        threading.Thread(target=make, daemon=True).start() if uses_thread else then(call())

    uses_thread = False
    model = WriteModel(client, lights, run, clock=seconds)
    model.devices.load()
    simulator.set_online(lights[1], False)
    previewed(model)
    uses_thread = True
    model.apply()
    assert model.stage is Stage.WRITING

    def displayed(*expected):
        model.tick()
        return [state for _, state in states(model)] == [one.text for one in expected]

    until(lambda: displayed(Status.SUCCESS, Status.PENDING, Status.SUCCESS))
    assert model.status_text == "Writing: 2 of 3 writes ended, 2 succeeded"
    model.stop()
    assert model.status_text == "Stopping: 2 of 3 writes ended, 2 succeeded"
    until(lambda: outcomes)
    outcomes.pop()()
    assert model.status_text == "Stopped: 2 of 3 writes ended, 2 succeeded, 1 without a response yet."
    assert reasons(model)["light-1"] == "no response yet"

    # Its response arrives after the end.
    simulator.set_online(lights[1], True)
    until(lambda: client.get_device(lights[1])[LEVEL].desired.status.name == "SUCCESS")
    uses_thread = False
    model.receive([event(EventKind.ASYNC_RESPONSE, async_id=model.result["async_id"][1])])
    model.tick()
    assert [state for _, state in states(model)] == [Status.SUCCESS.text] * 3
    assert model.result["status"].tolist() == ["success"] * 3


def test_stop_before_the_plan_has_started_is_not_lost(later_model, simulator, lights, later):
    model = previewed(later_model)
    later.make_all()
    simulator.set_online(lights[0], False)
    model.apply()
    model.stop()
    thread = threading.Thread(target=later.make, daemon=True)
    thread.start()

    def is_over():
        model.tick()
        return not thread.is_alive()

    until(is_over)
    assert model.status_text.startswith("Stopped: 0 of 3 writes ended")
    assert Status.SUCCESS.text not in dict(states(model)).values()


def test_key_without_write_access_is_a_notice(mirror, lights):
    with MirrorClient(URL, mirror.new_key(Scope.READ), transport=mirror.transport) as reader:
        model = WriteModel(reader, lights)
        model.devices.load()
        previewed(model).apply()
        assert model.stage is Stage.ENDED
        assert model.notices.texts[0].startswith("Writing ended: 403 access_denied")
        assert {state for _, state in states(model)} == {Status.UNSENT.text}
        assert not model.can_undo


# Undo


def test_undo_is_previewed_first_and_sent_by_apply(new_model, client, lights):
    model = previewed(new_model(lights))
    assert not model.can_undo
    model.apply()
    assert model.can_undo
    model.preview_undo()
    assert model.is_undo
    assert model.plan_title == "Undo: /3311/0/5851 · Light Control · Dimmer"
    assert {(row["before"], row["requested"]) for row in model.rows} == {("40 %", "10 %")}
    assert client.read_value(lights[0], LEVEL) == 40
    model.preview_undo()
    assert (model.to_write, model.is_undo, model.can_apply) == (3, True, True)
    model.apply()
    assert not model.can_apply
    assert model.value.text.endswith(", accepted 10 % since")
    assert [client.read_value(device_id, LEVEL) for device_id in lights] == [10] * 3
    assert model.result["requested_num"].tolist() == [10.0] * 3
    model.preview_undo()
    assert {row["requested"] for row in model.rows} == {"40 %"}
    # A change of the input discards it.
    model.value.enter("77")
    assert not model.can_apply
    model.apply()
    assert client.read_value(lights[0], LEVEL) == 10
    model.preview_undo()
    assert model.can_apply
