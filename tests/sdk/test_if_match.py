"""``if_match``: a write that does not overwrite changes its writer has not seen."""

import json
import pickle

import httpx
import numpy as np
import pandas as pd
import pytest
from client_test_data import DIMMER, LAMP, add_lights
from resource_paths import LEVEL, SWITCH

from mirror_sdk import InvalidValue, PreconditionFailed
from mirror_sdk._protocol.request_options import expected_revision
from mirror_sdk.wire.device_object import DesiredStatus

REFUSED = {"object": "error", "code": 412, "type": "precondition_failed", "message": "seen is not what is"}


@pytest.fixture
def light(simulator):
    return add_lights(simulator, 1, resources=[DIMMER, LAMP])[0]


def test_write_with_the_current_revision_succeeds(client, light):
    resource = client.get_device(light)[LEVEL]
    client.write_value(light, LEVEL, 40, if_match=resource)
    desired = client.get_device(light)[LEVEL].desired
    client.write_value(light, LEVEL, 41, if_match=desired)
    revision = client.get_device(light)[LEVEL].desired.revision
    client.write_value(light, LEVEL, text="42", if_match=np.int64(revision))
    for frame in (client.fleet.snapshot(), client.state_frame()):
        table = frame.set_index("path")["desired_revision"]
        assert table[LEVEL] == client.get_device(light)[LEVEL].desired.revision > revision
        assert pd.isna(table[SWITCH])
    client.requests.begin_write(light, SWITCH, True, if_match=0).result()
    assert client.get_device(light)[LEVEL].desired_value == 42


def test_write_after_another_one_raises_with_the_current_resource(client, new_client, light):
    seen = client.get_device("light-0")[LEVEL]
    new_client().write_value(light, LEVEL, 40)
    for write in (client.write_value, client.requests.begin_write):
        with pytest.raises(PreconditionFailed) as caught:
            write("light-0", LEVEL, 70, if_match=seen)
        error = caught.value
        assert (error.status, error.reason) == (412, "DESIRED_CHANGED")
        assert error.resource == client.get_device(light)[LEVEL]
        assert (error.resource.desired_value, error.resource.desired.status) == (40, DesiredStatus.SUCCESS)
        assert "write with its current revision" in str(error)
    assert client.requests.list() == []
    client.write_value(light, LEVEL, 70, if_match=error.resource)
    assert client.get_device(light)[LEVEL].desired_value == 70
    assert pickle.loads(pickle.dumps(error)).resource.desired_value == 40


def test_a_repeated_request_returns_the_existing_one(client, new_client, light):
    handles = [client.requests.begin_write(light, LEVEL, 40, async_id="once", if_match=0) for _ in range(2)]
    new_client().write_value(light, LEVEL, 55)
    handles.append(client.requests.begin_write(light, LEVEL, 40, async_id="once", if_match=0))
    assert len({handle.accepted_at for handle in handles}) == 1
    assert all(handle.exception() is None for handle in handles)


def test_invalid_revision_is_rejected_before_any_request(client_of):
    for wrong in (True, "17", 17.0, pd.NA, None, [17], object()):
        with pytest.raises(TypeError, match="0 means that the resource was never written"):
            expected_revision(wrong)
    client = client_of(transport=httpx.MockTransport(lambda request: pytest.fail(f"sent {request}")))
    for wrong in (-1, 2**63):
        with pytest.raises(InvalidValue, match="is not a revision"):
            client.requests.begin_write("light-0", LEVEL, 40, if_match=wrong)


def test_if_match_is_not_sent_to_a_service_without_revisions(client_of):
    desired = {"value": "NDA=", "status": 1, "desired_at": "2026-11-20T12:37:49.000Z"}
    resource = {"resource_path": LEVEL, "subscribed": False, "reported": {}, "desired": desired}
    body = {"device_id": "0" * 32, "created_at": "2026-11-20T12:37:49.000Z", "resources": [resource]}
    client = client_of(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=body)))
    seen = client.get_device("0" * 32)[LEVEL]
    with pytest.raises(InvalidValue, match="has no revisions"):
        client.requests.begin_write("0" * 32, LEVEL, 70, if_match=seen)


def test_rejection_without_the_resource_is_raised_and_does_not_contain_the_key(client_of):
    def rejected(more):
        def respond(request):
            if request.url.path.endswith("/pull"):
                return httpx.Response(204, headers={"Mirror-Cursor": "0"})
            return httpx.Response(412, json=REFUSED | more)

        client = client_of(key="the-secret-key", transport=httpx.MockTransport(respond))
        with pytest.raises(PreconditionFailed, match="seen is not what is") as caught:
            client.requests.begin_write("0" * 32, LEVEL, 40, if_match=1)
        return caught.value

    for more in ({}, {"resource": None}, {"resource": {"resource_path": 7}}, {"resource": [1, 2]}):
        assert rejected(more).resource is None
    desired = {"value": "NDA=", "status": 2, "category": "the-secret-key", "revision": 7}
    error = rejected({"resource": {"resource_path": LEVEL, "subscribed": False, "reported": {}, "desired": desired}})
    assert "the-secret-key" not in repr(vars(error))
    assert "the-secret-key" not in json.dumps(error.resource.to_dict() if error.resource else None)
