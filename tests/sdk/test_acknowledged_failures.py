"""Acknowledged failed writes do not count as failed until the next write."""

import json

import pandas as pd
import polars as pl
import pytest
from changed_responses import DIMMER, LEVEL

from mirror_sdk import Conflict, InvalidValue, NotFound


@pytest.fixture
def lights(client, simulator):
    """Three lights that rejected a write."""
    devices = [simulator.add_device(f"light-{number}", [DIMMER]) for number in range(3)]
    for device in devices:
        client.read_value(device, LEVEL)
        simulator.set_response_mode(device, "reject")
        assert client.requests.begin_write(device, LEVEL, 40).exception().category == "REJECTED"
    return devices


def failed(client, **options):
    return set(client.fleet.snapshot().mirror.drift(**options)["device_id"])


def test_an_acknowledged_failure_does_not_count_until_the_next_write(client, lights):
    before = client.fleet.snapshot()
    client.requests.acknowledge_failed_write(lights[0], LEVEL, by="night shift")
    assert failed(client) == set(lights[1:])
    assert failed(client, acknowledged=True) == set(lights)
    desired = client.get_device(lights[0])[LEVEL].desired
    assert desired.acknowledged_by == "night shift"
    assert desired.to_dict()["acknowledged_at"] is not None
    assert client.get_device(lights[1])[LEVEL].desired.acknowledged_at is None
    assert "by night shift, so it no longer counts." in str(client.devices.explain(lights[0], LEVEL))
    now = client.fleet.snapshot()
    pd.testing.assert_frame_equal(client.fleet.refresh(before), now)
    pd.testing.assert_frame_equal(client.state_frame(), now)
    assert client.requests.begin_write(lights[0], LEVEL, 41).exception().category == "REJECTED"
    assert failed(client) == set(lights)


def test_of_a_table_the_others_are_acknowledged(client, simulator, lights):
    simulator.set_response_mode(lights[1], "normal")
    client.write_value(lights[1], LEVEL, 40)
    with pytest.raises(Conflict, match="there is no failure to acknowledge") as caught:
        client.requests.acknowledge_failed_write(client.fleet.snapshot(), LEVEL)
    assert "1 of 3 resources were rejected" in caught.value.__notes__[0]
    assert failed(client) == set()


def test_another_write_than_the_caller_saw_is_not_acknowledged(client, lights):
    seen = client.get_device(lights[0])[LEVEL]
    client.requests.begin_write(lights[0], LEVEL, 41).exception()
    with pytest.raises(Conflict, match="read the resource again"):
        client.requests.acknowledge_failed_write(lights[0], LEVEL, if_match=seen)
    client.requests.acknowledge_failed_write(lights[0], LEVEL, if_match=client.get_device(lights[0])[LEVEL].desired)
    assert failed(client) == set(lights[1:])


@pytest.mark.parametrize(
    ("path", "in_form"),
    [
        (None, lambda table: table),
        (LEVEL, lambda table: table.drop(columns="path")),
        (None, lambda table: table.set_index(["device_id", "path"])),
        (None, lambda table: pl.from_pandas(table.drop(columns="age"))),
        (None, lambda table: table.astype({"desired_revision": "Float64"})),
    ],
    ids=["pandas", "without path", "index", "Polars", "floats"],
)
def test_a_table_does_not_acknowledge_a_failure_that_came_after_it(client, lights, path, in_form):
    seen = in_form(client.fleet.snapshot().mirror.drift().query("kind == 'failed'"))
    client.requests.begin_write(lights[1], LEVEL, 41).exception()
    with pytest.raises(Conflict, match="read the resource again") as caught:
        client.requests.acknowledge_failed_write(seen, path)
    assert (
        f"1 of 3 resources were rejected, and the call succeeded for the others: {LEVEL} of {lights[1]}"
        in caught.value.__notes__[0]
    )
    assert failed(client) == {lights[1]}


def test_a_table_that_shows_no_write_acknowledges_none_that_failed_after_it(client, simulator):
    device = simulator.add_device("light", [DIMMER])
    client.read_value(device, LEVEL)
    seen = client.fleet.snapshot()
    simulator.set_response_mode(device, "reject")
    client.requests.begin_write(device, LEVEL, 40).exception()
    for table, path in ((seen, None), (seen.assign(path="/3/0/0"), LEVEL)):
        with pytest.raises(Conflict, match="read the resource again"):
            client.requests.acknowledge_failed_write(table, path)
    assert failed(client) == {device}


def test_a_table_needs_no_revisions_and_those_it_has_are_numbers(client, lights):
    table = client.fleet.snapshot().mirror.drift()
    with pytest.raises(InvalidValue, match=r"pd\.to_numeric"):
        client.requests.acknowledge_failed_write(table.astype({"desired_revision": "string"}))
    assert failed(client) == set(lights)
    client.requests.acknowledge_failed_write(table[["device_id", "path"]])
    assert failed(client) == set()


def test_a_shell_acknowledges_only_the_displayed_failure(plain, shell, lights):
    rows = json.loads(shell("drift", "--json").stdout)
    displayed = next(str(row["desired_revision"]) for row in rows if row["device"] == "light-0")
    plain.requests.begin_write(lights[0], LEVEL, 41).exception()
    assert "read the resource again" in shell("acknowledge", "light-0", LEVEL, "--if-match", displayed).stderr
    now = str(plain.get_device(lights[0])[LEVEL].desired.revision)
    shell("acknowledge", "light-0", LEVEL, "--if-match", now)
    assert failed(plain) == set(lights[1:])
    for light in lights[1:]:
        plain.requests.acknowledge_failed_write(light, LEVEL)
    assert "--acknowledged also shows" in shell("drift").stderr
    assert "--acknowledged also shows" not in shell("drift", "--acknowledged").stderr


def test_acknowledging_a_request_without_failure_is_rejected(client, lights):
    with pytest.raises(NotFound):
        client.requests.acknowledge_failed_write("015f00000000000000000000000000ff", LEVEL)
    with pytest.raises(InvalidValue, match="if_match= cannot be combined with a table"):
        client.requests.acknowledge_failed_write(client.fleet.snapshot(), if_match=1)
