"""Why a write failed is told to the application that placed it, and to no other. Source: specification 3.1, 7."""

import json

import pyarrow as pa
import pytest

from mirror_sdk.wire.device_object import DeviceObject
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, NDJSON
from mirror_server.arrow import stream
from mirror_server.service.keys import Scope
from mirror_server.views.event_stream import EventStream

READ_ONLY = "/3303/0/5700"
LEVEL = "/3311/0/5851"
CATEGORY = "METHOD_NOT_ALLOWED"
SNAPSHOT = "/v3/device-echo"


@pytest.fixture
def issuer(server):
    return server.key()


@pytest.fixture
def device(server, issuer):
    """A device with one write that failed, of the issuer."""
    resources = [
        {"path": READ_ONLY, "value": "21.5", "observable": True},
        {"path": LEVEL, "value": "0", "writable": True},
    ]
    device_id = server.add_device(issuer, "sensor-1", *resources)
    server.place(issuer, device_id, "w", "PUT", READ_ONLY, value="30")
    return device_id


def echo(server, key, device, tag=None):
    headers = None if tag is None else {"If-None-Match": tag}
    return server.call(key, "GET", f"/v3/devices/{device}/echo", headers=headers)


def category_in(server, key, device, path=READ_ONLY):
    desired = server.resource(key, device, path)["desired"]
    assert desired["status"] == 2
    return desired.get("category")


def snapshot_category(server, key, query=""):
    answer = server.call(key, "GET", f"{SNAPSHOT}{query}", headers={"Accept": NDJSON}, buffered=True)
    line, _ = answer.get_data().splitlines()
    resources = {one.resource_path: one for one in DeviceObject.model_validate_json(line, extra="forbid").resources}
    assert resources[READ_ONLY].desired.status == 2
    return resources[READ_ONLY].desired.category


@pytest.mark.parametrize("order", [("issuer", "other"), ("other", "issuer")])
def test_e1_tells_it_to_the_issuer_alone_whoever_asks_first(server, device, issuer, other, order):
    keys = {"issuer": issuer, "other": other}
    expected = {"issuer": CATEGORY, "other": None}
    for _ in range(2):
        for name in order:
            assert category_in(server, keys[name], device) == expected[name]


def test_a_tag_of_one_application_is_not_the_tag_of_another(server, device, issuer, other):
    tags = {key: echo(server, key, device).headers["ETag"] for key in (issuer, other)}
    assert tags[issuer] != tags[other]
    for asking in (issuer, other):
        codes = {key: echo(server, asking, device, tag).status_code for key, tag in tags.items()}
        assert codes == {issuer: 200, other: 200} | {asking: 304}


def test_applications_that_placed_nothing_share_what_was_encoded(server, device, other):
    third = server.key()
    assert echo(server, other, device).headers["ETag"] == echo(server, third, device).headers["ETag"]


def test_two_applications_are_each_told_of_their_own_write(server, device, issuer, other):
    server.patch(issuer, device, answer="reject")
    server.place(other, device, "w", "PUT", LEVEL, value="5")
    assert (category_in(server, issuer, device), category_in(server, issuer, device, LEVEL)) == (CATEGORY, None)
    assert (category_in(server, other, device), category_in(server, other, device, LEVEL)) == (None, "REJECTED")


def test_a_later_write_of_another_application_takes_it_over(server, device, issuer, other):
    assert category_in(server, issuer, device) == CATEGORY
    server.place(other, device, "w", "PUT", READ_ONLY, value="31")
    assert (category_in(server, issuer, device), category_in(server, other, device)) == (None, CATEGORY)


def test_after_a_restart_it_is_still_the_issuers_alone(server, device, issuer, other):
    server.restart()
    assert (category_in(server, other, device), category_in(server, issuer, device)) == (None, CATEGORY)


def test_the_snapshot_as_lines_tells_it_to_the_issuer_alone(server, device, issuer, other):
    for query in ("", f"?path={READ_ONLY}", "?changed_after=0"):
        assert [snapshot_category(server, key, query) for key in (issuer, other, issuer)] == [CATEGORY, None, CATEGORY]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_snapshot_as_a_table_has_it_for_nobody(server, device, issuer, other, compression):
    """A held page is the same for all: nothing in it belongs to one application."""
    url = f"{SNAPSHOT}?compression={compression}"
    for key in (issuer, other, issuer):
        answer = server.call(key, "GET", url, headers={"Accept": ARROW}, buffered=True)
        with pa.ipc.open_stream(answer.get_data()) as batches:
            table = batches.read_all()
        assert table.schema == stream.SCHEMA
        assert "METHOD_NOT_ALLOWED" not in str(table.to_pylist())
        (row,) = table.to_pylist()
        assert [desired["desired_status"] for desired in row["desired"]] == [2]


def test_the_event_stream_and_the_log_tell_it_to_the_issuer_alone(server, device, issuer, other):
    def streamed(key):
        return EventStream(server.services.log, key.split("_")[1], 0).begin()

    assert CATEGORY.encode() in streamed(issuer)
    assert CATEGORY.encode() not in streamed(other)
    assert CATEGORY in json.dumps(server.log(issuer))
    assert CATEGORY not in json.dumps(server.log(other))


def test_nothing_the_page_asks_for_tells_it_to_another(server, device, issuer, other):
    reader = server.key(Scope.READ)
    asked = [f"/v3/devices/{device}/echo", "/v3/devices", f"/v2/device-requests/{device}", f"/v2/endpoints/{device}"]
    for key, expected in ((issuer, True), (other, False), (reader, False)):
        told = [server.call(key, "GET", path).get_data() for path in asked]
        assert any(CATEGORY.encode() in body for body in told) is expected
