"""A concurrent recording has the same history as the service. Source: wire.md 10."""

import random
from contextlib import suppress
from datetime import timedelta

import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE

from mirror_sdk.errors import MirrorError
from mirror_sdk.recording import Recording

VALUES = {TEMPERATURE: ["21.5", "22.5", "warm"], LIGHT: ["0", "1"], "/3/0/0": ["one", "two"]}
MILLISECOND = timedelta(milliseconds=1)
# Ignore rows that the log does not contain.
COMPARED_COLUMNS = [
    "device_id",
    "endpoint_name",
    "path",
    "unit",
    "changed_at",
    "event",
    "value_num",
    "value_text",
    "value_bool",
]
COMPARED_COLUMNS += ["value_kind", "origin"]
REPORTED = ["device_id", "path", "reported_num", "reported_text", "reported_bool"]

pytestmark = [pytest.mark.keeps_history, pytest.mark.filterwarnings("ignore::mirror_sdk.NotSubscribedWarning")]


def play(client, simulator, ids, dice):
    """Cause events of some devices. There are no reads, whose log entry has the time of the response."""
    for _ in range(25):
        device_id, path = dice.choice(ids), dice.choice(list(VALUES))
        step = dice.choice(["set"] * 6 + ["advance"] * 4 + ["online", "write", "register", "update", "deregister"])
        # Writes to offline devices do not matter here.
        with suppress(MirrorError):
            if step == "set":
                simulator.set_value(device_id, path, dice.choice(VALUES[path]))
            elif step == "advance":
                simulator.advance(dice.choice([0.001, 1, 2]))
            elif step == "online":
                simulator.set_online(device_id, dice.random() < 0.5)
            elif step == "write":
                client.requests.begin_write(device_id, LIGHT, dice.random() < 0.5, expiry_seconds=5)
            else:
                {"register": simulator.register, "update": simulator.update_registration}.get(
                    step, simulator.deregister
                )(device_id)
    for device_id in ids:
        simulator.set_online(device_id, True)
    simulator.advance(1)


def rows_of(frame, *names):
    chosen = frame[list(names or frame.columns)].astype(object)
    return chosen.where(chosen.notna(), None).to_numpy().tolist()


def reported_rows(source, begin):
    frame = source.history(begin=begin)
    return rows_of(frame[~frame["event"].isin(["write", "gap"])], *COMPARED_COLUMNS)


def reported(source, instant):
    frame = source.as_of(instant)
    return sorted(rows_of(frame[frame["value_kind"] != "none"], *REPORTED))


@pytest.mark.parametrize("seed", range(3))
def test_a_concurrent_recording_has_the_same_rows(plain, simulator, folder, last_poll_soon, seed):
    plain.subscriptions.rules.replace([{"resource_path": ["*"]}])
    ids = [simulator.add_device(name, RESOURCES) for name in ("a", "b")]
    simulator.advance(2)
    begin = simulator.get_clock()
    with plain.record(folder):
        simulator.advance(1)
        play(plain, simulator, ids, random.Random(seed))
    recording = Recording(folder)
    assert reported_rows(recording, begin + MILLISECOND) == reported_rows(plain, begin + MILLISECOND) != []
    for instant in recording.history(begin=begin)["changed_at"].dropna().unique()[::4]:
        for at in (instant - MILLISECOND, instant):
            assert reported(recording, at) == reported(plain, at)
            assert rows_of(recording.changes(begin, at)) == rows_of(plain.changes(begin, at))
