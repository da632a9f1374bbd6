"""Every call raises UnknownResource for a missing resource, which is also the error type of earlier versions."""

import pytest

from mirror_sdk import APIError, BadRequest, MirrorError, ResourceNotFound, UnknownResource

UNKNOWN, LOST = "/3303/9/5700", "/3311/0/5850"

CALLS = {
    "read_value": (lambda c, d, p: c.read_value(d, p), BadRequest),
    "begin_read": (lambda c, d, p: c.requests.begin_read(d, p), BadRequest),
    "write_value": (lambda c, d, p: c.write_value(d, p, 1.5, allow_read_only=True), BadRequest),
    "begin_write": (lambda c, d, p: c.requests.begin_write(d, p, 1.5, allow_read_only=True), BadRequest),
    "execute": (lambda c, d, p: c.execute(d, p), BadRequest),
    "begin_execute": (lambda c, d, p: c.requests.begin_execute(d, p), BadRequest),
    "subscribe": (lambda c, d, p: c.subscribe(d, p), BadRequest),
    "explain": (lambda c, d, p: c.devices.explain(d, p), KeyError),
    "get_device": (lambda c, d, p: c.get_device(d)[p], KeyError),
}


@pytest.mark.parametrize("device", ["sensor-1", None], ids=["name", "id"])
def test_a_resource_that_a_device_never_had_is_unknown(client, device_id, device):
    for call, (function, before) in CALLS.items():
        with pytest.raises(UnknownResource, match=UNKNOWN) as caught:
            function(client, device or device_id, UNKNOWN)
        assert {before, KeyError, MirrorError} <= set(type(caught.value).__mro__), call
        assert not str(caught.value).startswith(("'", '"')), call
        if isinstance(caught.value, APIError):
            assert (caught.value.status, caught.value.reason) == (400, "RESOURCE_NOT_FOUND"), call
            assert f"; client.devices.resources('{device_id}') lists its resources (" in str(caught.value), call


def failure_of(client, device, path):
    raise client.requests.begin_read(device, path).exception()


LATE = {
    "read_value": lambda c, d, p: c.read_value(d, p),
    "write_value": lambda c, d, p: c.write_value(d, p, True),
    "result": lambda c, d, p: c.requests.begin_read(d, p).result(),
    "exception": failure_of,
    "resume_request": lambda c, d, p: c.requests.resume(c.requests.begin_read(d, p).async_id, d, p).result(),
}


@pytest.mark.parametrize("device", ["sensor-1", None], ids=["name", "id"])
def test_a_resource_that_a_device_lost_is_unknown(client, simulator, device_id, device):
    simulator.remove_resource(device_id, LOST)
    for call, function in LATE.items():
        with pytest.raises(UnknownResource, match=LOST) as caught:
            function(client, device or device_id, LOST)
        assert type(caught.value) is ResourceNotFound, call
        assert isinstance(caught.value, KeyError)
        assert (caught.value.category, caught.value.path) == ("RESOURCE_NOT_FOUND", LOST)


def test_it_is_subscribed_until_the_directory_knows_that_it_is_lost(client, simulator, device_id):
    simulator.remove_resource(device_id, LOST)
    client.subscribe(device_id, LOST)
    simulator.update_registration(device_id)
    with pytest.raises(UnknownResource, match=LOST):
        client.subscribe(device_id, LOST)


def test_it_says_that_an_object_instance_of_a_simulated_device_is_no_resource(client, device_id):
    instance = LOST.rpartition("/")[0]
    for call in (
        lambda: client.read_value(device_id, instance),
        lambda: client.write_value(device_id, instance, b"1"),
    ):
        with pytest.raises(UnknownResource, match=f"{instance} is an object instance, which only a real device"):
            call()


def test_a_plan_rejects_it_in_its_row_or_reports_it_in_the_result(client, simulator, device_id):
    plan = client.plan([(device_id, "/3311/9/5850", True), ("sensor-1", LOST, True)])
    assert plan.frame["check"].tolist() == ["unknown_resource", "ok"]
    simulator.remove_resource(device_id, LOST)
    assert plan.apply()["category"].tolist() == ["RESOURCE_NOT_FOUND"]
