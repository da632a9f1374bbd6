"""Values that the interface rejects, and values just inside its limits."""

import re
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from mirror_sdk.wire.channel import CallbackRegistration, Channel, Serialization, SerializationConfig
from mirror_sdk.wire.device_object import Desired, DeviceObjectBody, Reported, ResourceState
from mirror_sdk.wire.device_requests import ASYNC_ID_PATTERN, DeviceRequestBody
from mirror_sdk.wire.directory import Device, DevicePage
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.notifications import AsyncResponse, Notification, NotificationMessage
from mirror_sdk.wire.presubscription_rules import PresubscriptionRules
from mirror_sdk.wire.simulator import (
    SimulatorAdvance,
    SimulatorDevicePatch,
    SimulatorNewDevice,
    SimulatorResourceBody,
)
from mirror_sdk.wire.subscriptions import PresubscriptionRule

READ = {"method": "GET", "uri": "/3303/0/5700"}
URL = {"url": "https://app.example/callback"}
PATHS = [f"/3303/{instance}/5700" for instance in range(257)]

Case = tuple[type[BaseModel], Any, tuple[str | int, ...]]

REFUSED: dict[str, Case] = {
    "a request without a method": (DeviceRequestBody, {"uri": "/3303/0/5700"}, ("method",)),
    "a request without a path": (DeviceRequestBody, {"method": "GET"}, ("uri",)),
    "deleting a resource": (DeviceRequestBody, {**READ, "method": "DELETE"}, ("method",)),
    "a method in small letters": (DeviceRequestBody, {**READ, "method": "get"}, ("method",)),
    "a query alone": (DeviceRequestBody, {**READ, "uri": "?pmin=5"}, ("uri",)),
    "no expiry at all": (DeviceRequestBody, {**READ, "expiry_seconds": 0}, ("expiry_seconds",)),
    "an expiry past 30 days": (DeviceRequestBody, {**READ, "expiry_seconds": 2592001}, ("expiry_seconds",)),
    "an expiry as text": (DeviceRequestBody, {**READ, "expiry_seconds": "60"}, ("expiry_seconds",)),
    "a payload that is not base64": (DeviceRequestBody, {**READ, "payload-b64": "te!st"}, ("payload-b64",)),
    "a payload that is a number": (DeviceRequestBody, {**READ, "payload-b64": 1}, ("payload-b64",)),
    "an empty content type": (DeviceRequestBody, {**READ, "content-type": ""}, ("content-type",)),
    "rules that are an object": (PresubscriptionRules, {}, ()),
    "1025 rules": (PresubscriptionRules, [{}] * 1025, ()),
    "a wrong second rule": (PresubscriptionRules, [{}, {"endpoint-type": 5}], (1, "endpoint-type")),
    "257 paths": (PresubscriptionRule, {"resource-path": PATHS}, ("resource-path",)),
    "a path of 129 characters": (PresubscriptionRule, {"resource-path": ["/" + "1" * 128]}, ("resource-path", 0)),
    "paths that are one text": (PresubscriptionRule, {"resource-path": "/3303/*"}, ("resource-path",)),
    "a * in the middle of a path": (PresubscriptionRule, {"resource-path": ["/3303/*/5700"]}, ("resource-path", 0)),
    "a * in the middle of a name": (PresubscriptionRule, {"endpoint-name": "sen*or"}, ("endpoint-name",)),
    "a name of 65 characters": (PresubscriptionRule, {"endpoint-name": "n" * 65}, ("endpoint-name",)),
    "a type of 65 characters": (PresubscriptionRule, {"endpoint-type": "t" * 65}, ("endpoint-type",)),
    "a callback without a URL": (CallbackRegistration, {"headers": {}}, ("url",)),
    "a callback URL past 400 characters": (CallbackRegistration, {"url": "http://" + "h" * 394}, ("url",)),
    "a header that is not a text": (CallbackRegistration, {**URL, "headers": {"x": 1}}, ("headers", "x")),
    "another serialization": (
        CallbackRegistration,
        {**URL, "serialization": {"type": "v3"}},
        ("serialization", "type"),
    ),
    "an empty chunk": (Serialization, {"max_chunk_size": 0}, ("max_chunk_size",)),
    "a chunk past 10000": (Serialization, {"max_chunk_size": 10001}, ("max_chunk_size",)),
    "a chunk that is a word": (Serialization, {"max_chunk_size": "many"}, ("max_chunk_size",)),
    "an option that is a word": (SerializationConfig, {"include_uid": "perhaps"}, ("include_uid",)),
    "a channel of another kind": (Channel, {"delivery_mechanism": "PIGEON"}, ("delivery_mechanism",)),
    "a value that is not base64": (Reported, {"value": "21.5"}, ("value",)),
    "a time without a zone": (Reported, {"reported_at": "2026-11-20T12:37:55.576"}, ("reported_at",)),
    "a time that is a word": (Desired, {"desired_at": "now"}, ("desired_at",)),
    "an unknown status": (Desired, {"status": 3}, ("status",)),
    "a resource without its desired half": (
        ResourceState,
        {"resource_path": "/3303/0/5700", "subscribed": False, "reported": {}},
        ("desired",),
    ),
    "another object than the device's": (
        DeviceObjectBody,
        {"object": "device", "device_id": "015f", "created_at": "2026-11-20T12:37:55.576Z", "resources": []},
        ("object",),
    ),
    "a page in another order": (
        DevicePage,
        {"data": [], "has_more": False, "limit": 50, "order": "RANDOM"},
        ("order",),
    ),
    "an async response without its id": (AsyncResponse, {"status": 200, "payload": ""}, ("id",)),
    "an async status that is a word": (AsyncResponse, {"id": "a", "status": "OK"}, ("status",)),
    "an observation without its path": (Notification, {"ep": "015f", "payload": ""}, ("path",)),
    "a notification list that is an object": (NotificationMessage, {"notifications": {}}, ("notifications",)),
    "a device without its state": (
        Device,
        {
            "id": "015f",
            "endpoint_name": "sensor-1",
            "created_at": "2026-11-20T12:37:55.576Z",
            "updated_at": "2026-11-20T12:37:55.576Z",
        },
        ("state",),
    ),
    "an error whose code is a word": (ErrorBody, {"code": "bad", "type": "t", "message": "m"}, ("code",)),
    "a device without a name": (SimulatorNewDevice, {"endpoint_name": ""}, ("endpoint_name",)),
    "a device name of 65 characters": (SimulatorNewDevice, {"endpoint_name": "n" * 65}, ("endpoint_name",)),
    "a value that is a number": (SimulatorResourceBody, {"value": 21.5}, ("value",)),
    "an unknown response mode": (SimulatorDevicePatch, {"answer": "maybe"}, ("answer",)),
    "a response before the request": (SimulatorDevicePatch, {"latency_seconds": -0.1}, ("latency_seconds",)),
    "a clock that stands still": (SimulatorAdvance, {"advance_seconds": 0}, ("advance_seconds",)),
    "a clock that advances by more": (SimulatorAdvance, {"advance_seconds": 366 * 24 * 3600 + 1}, ("advance_seconds",)),
}

AT_THE_LIMIT: dict[str, tuple[type[BaseModel], Any]] = {
    "a clock that advances by a leap year": (SimulatorAdvance, {"advance_seconds": 366 * 24 * 3600}),
    "an expiry of one second": (DeviceRequestBody, {**READ, "expiry_seconds": 1}),
    "an expiry of 30 days": (DeviceRequestBody, {**READ, "expiry_seconds": 30 * 24 * 3600}),
    "1024 rules": (PresubscriptionRules, [{}] * 1024),
    "256 paths": (PresubscriptionRule, {"resource-path": PATHS[:256]}),
    "a path of 128 characters": (PresubscriptionRule, {"resource-path": ["/" + "1" * 127]}),
    "a name of 64 characters": (PresubscriptionRule, {"endpoint-name": "n" * 64}),
    "a type of 64 characters": (PresubscriptionRule, {"endpoint-type": "t" * 63 + "*"}),
    "a callback URL of 400 characters": (CallbackRegistration, {"url": "http://" + "h" * 393}),
    "a device name of 64 characters": (SimulatorNewDevice, {"endpoint_name": "n" * 64}),
}


@pytest.mark.parametrize(("model", "wire", "location"), REFUSED.values(), ids=REFUSED.keys())
def test_invalid_member_is_rejected_by_name(model: type[BaseModel], wire: Any, location: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(wire, extra="forbid", by_alias=True, by_name=False)
    assert [error["loc"] for error in caught.value.errors()] == [location]


@pytest.mark.parametrize(("model", "wire"), AT_THE_LIMIT.values(), ids=AT_THE_LIMIT.keys())
def test_value_at_the_limit_is_valid(model: type[BaseModel], wire: Any) -> None:
    read = model.model_validate(wire, extra="forbid", by_alias=True, by_name=False)
    assert read.model_dump(mode="json", by_alias=True, exclude_unset=True) == wire


def test_async_id_has_1_to_64_letters_digits_and_dashes() -> None:
    for async_id in ("a", "A-9_z", "-", "x" * 64):
        assert re.fullmatch(ASYNC_ID_PATTERN, async_id)
    for async_id in ("", "x" * 65, "a b", "a/b", "a.b", "ä", "a\n", "٣"):
        assert re.fullmatch(ASYNC_ID_PATTERN, async_id) is None


def test_registration_may_write_booleans_and_numbers_as_text() -> None:
    text = {"include_timestamp": "true", "include_uid": "false", "include_original_ep": "True"}
    serialization = {"type": "v2", "max_chunk_size": "100", "cfg": {**text, "deregistrations_as_object": "1"}}
    read = CallbackRegistration.model_validate({**URL, "serialization": serialization}, extra="forbid")
    cfg = {name: name != "include_uid" for name in serialization["cfg"]}
    assert read.to_wire() == {**URL, "serialization": {"type": "v2", "max_chunk_size": 100, "cfg": cfg}}


def test_registration_has_no_options_by_default() -> None:
    serialization = Serialization.model_validate({"type": "v2"})
    assert serialization.max_chunk_size == 10000
    assert set(serialization.cfg.model_dump().values()) == {False}
