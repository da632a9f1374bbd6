"""The order of changes within one millisecond in objects, tables, drift, explanations, plans. Source: wire.md 1."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product

import pandas as pd
import pytest
from changed_responses import response_with, without_arrow
from client_test_data import DIMMER, LAMP
from resource_paths import LEVEL, SWITCH

from mirror_sdk.device import DeviceObject
from mirror_sdk.frames import drift_frame, state_frame
from mirror_sdk.wire import device_object as wire
from mirror_sdk.wire.snapshot import NDJSON

AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
BEFORE, AFTER = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
REVISIONS = ["reported_revision", "desired_revision"]


@pytest.fixture
def light(simulator):
    """A light on a clock that stands still."""
    return simulator.add_device("light-01", [DIMMER | {"value": "94"}, LAMP])


def device_of(reported, desired, *, status=1, value=b"94", desired_value=b"40"):
    """Return a device object with a resource; each argument is (time, revision) of the reported or desired value."""
    parts = {"resource_path": LEVEL, "subscribed": False, "reported": {}, "desired": {}}
    if reported is not None:
        at, revision = reported
        parts["reported"] = {"value": value, "content_type": "text/plain", "reported_at": at, "revision": revision}
    if desired is not None:
        at, revision = desired
        parts["desired"] = {"value": desired_value, "status": status, "desired_at": at, "revision": revision}
    body = {"device_id": "d1", "endpoint_name": "d", "created_at": AFTER, "resources": [parts]}
    return DeviceObject.from_wire(wire.DeviceObjectBody.model_validate(body))


@pytest.mark.parametrize(
    ("reported", "desired", "is_since"),
    [
        pytest.param((AT, 7), (AT, 9), False, id="the revisions, in one millisecond"),
        pytest.param((AT, 9), (AT, 7), True, id="the revisions, the other way round"),
        pytest.param((BEFORE, 9), (AT, 7), True, id="the revisions, where a clock went back"),
        pytest.param((AFTER, 7), (AT, 9), False, id="the revisions, where a clock went ahead"),
        pytest.param((None, 9), (None, 7), True, id="the revisions, where there are no times"),
        pytest.param((AFTER, None), (AT, None), True, id="the times, without revisions"),
        pytest.param((BEFORE, None), (AT, None), False, id="the times, the other way round"),
        pytest.param((AFTER, None), (AT, 9), True, id="the times, where one part alone has a revision"),
        pytest.param((BEFORE, 7), (AT, 7), False, id="the times, where both have the same"),
        pytest.param((AT, None), (AT, None), None, id="nothing, in one millisecond"),
        pytest.param((None, None), (AT, None), None, id="nothing, without a time"),
        pytest.param(None, (AT, 9), None, id="nothing, where no value was reported before"),
        pytest.param((AT, 9), None, None, id="nothing, if nothing was written"),
    ],
)
def test_order_of_report_and_write(reported, desired, is_since):
    assert device_of(reported, desired)[LEVEL].is_reported_after_write is is_since


def test_the_drift_of_a_table_knows_the_order_as_a_device_object_does():
    parts = [None, *product([BEFORE, AT], [7, 9, None])]
    for reported, desired in product(parts, parts):
        device = device_of(reported, desired)
        kinds = drift_frame(state_frame([device], taken_at=AFTER), unconfirmed=True)["kind"].tolist()
        if desired is None:
            assert kinds == []
        elif reported is None:
            assert kinds == ["never_reported"]
        else:
            assert kinds == ["reverted" if device[LEVEL].is_reported_after_write else "unconfirmed"], (
                reported,
                desired,
            )


@pytest.mark.parametrize(
    ("status", "value", "kind"),
    [(0, b"40", "pending"), (1, b"40", None), (1, b"94", "unconfirmed"), (2, b"94", "failed"), (2, b"40", None)],
)
def test_older_report_is_not_drift(status, value, kind):
    state = state_frame([device_of((AT, 7), (AT, 9), status=status, value=value)], taken_at=AFTER)
    all_drift = drift_frame(state, unconfirmed=True)
    assert all_drift["kind"].tolist() == ([] if kind is None else [kind])
    assert drift_frame(state)["kind"].tolist() == ([] if kind in {None, "unconfirmed"} else [kind])
    if kind == "unconfirmed":
        assert (all_drift["since"].iloc[0], all_drift["age"].iloc[0]) == (pd.Timestamp(AT), pd.Timedelta(seconds=1))


def test_equal_times_without_revisions_are_not_drift():
    """Older services send no revisions."""
    parts = [((AT, 9), (AT, 7), []), ((AFTER, 9), (AT, 7), ["reverted"]), ((BEFORE, 7), (AT, 9), [])]
    for reported, desired, kinds in parts:
        state = state_frame([device_of(reported, desired)], taken_at=AFTER)
        state[REVISIONS] = pd.NA
        assert drift_frame(state)["kind"].tolist() == kinds


# Against the server


def kinds(client, light, **options):
    """Return the kinds of drift, which must be the same in each table of a client."""
    tables = [client.fleet.snapshot(), client.state_frame([light]), client.get_device(light).to_frame(raw=True)]
    found = [table.mirror.drift(**options)["kind"].tolist() for table in tables]
    assert found[0] == found[1] == found[2]
    return found[0]


def test_observation_during_a_write_is_not_drift(client, simulator, light, settle):
    def change(value):
        simulator.set_value(light, LEVEL, value)
        settle()

    client.subscribe(light, LEVEL)
    settle()
    simulator.set_latency_seconds(light, 10)
    request = client.requests.begin_write(light, LEVEL, 40)
    settle()
    change(7)
    during = client.get_device(light)[LEVEL]
    assert (during.reported.value.python, during.is_reported_after_write) == (7, True)
    assert kinds(client, light) == ["pending"]
    simulator.advance(10)
    request.result(timeout=60)
    settle()
    after = client.get_device(light)[LEVEL]
    # The device notifies its subscriber of the new value after its response to the write.
    assert (after.reported.value.python, after.is_reported_after_write) == (40, True)
    assert kinds(client, light, unconfirmed=True) == []
    change(8)
    assert kinds(client, light) == ["reverted"]


def test_plan_uses_the_latest_value(client, simulator, light):
    """A write and a read of another value within one millisecond: the device has the other value."""
    client.write_value(light, LEVEL, 40)
    simulator.set_value(light, LEVEL, 5)
    client.read_value(light, LEVEL)
    (again, other) = client.plan([(light, LEVEL, 40), (light, SWITCH, True)]).planned
    assert (again.check.value, again.before.python) == ("ok", 5)
    assert other.check.value == "ok"
    client.write_value(light, LEVEL, 40)
    (planned,) = client.plan([(light, LEVEL, 40)]).planned
    assert (planned.check.value, planned.before.python) == ("already_so", 40)


# Services of other versions


def stripped(body):
    for resource in body.get("resources", []):
        for part in (resource["reported"], resource["desired"]):
            part.pop("revision", None)
    return body


def from_earlier_version(request, answer):
    """Change the responses to those of a service that supports neither Arrow nor revisions of values."""
    response = without_arrow(request, answer)
    if response.status_code != 200 or "echo" not in request.url.path:
        return response
    lines = [json.dumps(stripped(json.loads(line))).encode() for line in response.content.splitlines()]
    return response_with(response, b"\n".join(lines) + (b"\n" if response.headers["Content-Type"] == NDJSON else b""))


def test_older_service_without_revisions_has_no_false_drift(client_over, plain, simulator, light):
    plain.read_value(light, LEVEL)
    plain.write_value(light, LEVEL, 40)
    other = client_over(from_earlier_version)
    assert other.fleet.snapshot()[REVISIONS].isna().all(axis=None)
    assert kinds(other, light) == []
    assert kinds(other, light, unconfirmed=True) == ["unconfirmed"]
    assert "may be older, because their order is unknown" in str(other.devices.explain(light, LEVEL))
    simulator.set_value(light, LEVEL, 5)
    simulator.advance(1)
    plain.read_value(light, LEVEL)
    assert kinds(other, light) == ["reverted"]
    assert "another value since" in str(other.devices.explain(light, LEVEL))
