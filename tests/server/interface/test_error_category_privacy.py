"""Only the application that submitted a write gets its error category. Source: specification 3.1, 7."""

import json

import pytest
from device_resources import sensor, setting
from resource_paths import LEVEL

from mirror_server.service.keys import Scope

READ_ONLY = "/3303/0/5700"
CATEGORY = "METHOD_NOT_ALLOWED"


@pytest.fixture
def issuer(server):
    return server.key()


@pytest.fixture
def device(server, issuer):
    """A device with one failed write of the issuer."""
    resources = [sensor(READ_ONLY), setting(LEVEL)]
    device_id = server.add_device(issuer, "sensor-1", *resources)
    server.submit(issuer, device_id, "w", "PUT", READ_ONLY, value="30")
    return device_id


def category_in(server, key, device, path=READ_ONLY):
    desired = server.resource(key, device, path)["desired"]
    assert desired["status"] == 2
    return desired.get("category")


def test_device_object_has_category_only_for_the_issuer_in_any_request_order(server, device, issuer, other):
    def echo(key, tag=""):
        return server.call(key, "GET", f"/v3/devices/{device}/echo", headers={"If-None-Match": tag})

    for key, expected in ((issuer, CATEGORY), (other, None)) * 2:
        assert category_in(server, key, device) == expected
    tags = {key: echo(key).headers["ETag"] for key in (issuer, other)}
    for reader in (issuer, other):
        codes = {key: echo(reader, tag).status_code for key, tag in tags.items()}
        assert codes == {issuer: 200, other: 200} | {reader: 304}
    # Applications that issued nothing share one representation.
    assert echo(server.key()).headers["ETag"] == tags[other]
    server.restart()
    for key, expected in ((other, None), (issuer, CATEGORY)):
        assert category_in(server, key, device) == expected


def test_each_application_gets_the_category_of_its_own_last_write(server, device, issuer, other):
    server.patch(issuer, device, answer="reject")
    server.submit(other, device, "w", "PUT", LEVEL, value="5")
    assert (category_in(server, issuer, device), category_in(server, issuer, device, LEVEL)) == (CATEGORY, None)
    assert (category_in(server, other, device), category_in(server, other, device, LEVEL)) == (None, "REJECTED")
    server.patch(issuer, device, answer="normal")
    server.submit(other, device, "later", "PUT", READ_ONLY, value="31")
    assert (category_in(server, issuer, device), category_in(server, other, device)) == (None, CATEGORY)


def test_log_has_category_only_for_the_issuer(server, device, issuer, other):
    assert CATEGORY in json.dumps(server.log(issuer))
    assert CATEGORY not in json.dumps(server.log(other))


def test_page_routes_have_category_only_for_the_issuer(server, device, issuer, other):
    paths = [f"/v3/devices/{device}/echo", "/v3/devices", f"/v2/device-requests/{device}", f"/v2/endpoints/{device}"]
    for key, expected in ((issuer, True), (other, False), (server.key(Scope.READ), False)):
        bodies = [server.call(key, "GET", path).get_data() for path in paths]
        assert any(CATEGORY.encode() in body for body in bodies) is expected
