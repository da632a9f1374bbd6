"""Reads of the fleet have the category of a failed write only for the application that submitted it."""

import itertools

import pytest
from device_resources import sensor, setting
from fleet_reads import HISTORY, SNAPSHOT, arrow_of, get, instant, lines_of
from resource_paths import LEVEL

from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, NDJSON
from mirror_server.service.keys import Scope

READ_ONLY = "/3303/0/5700"
CATEGORY = "METHOD_NOT_ALLOWED"


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=86_400)


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


def test_category_is_in_fleet_reads_of_issuer_only_and_never_in_arrow_snapshots(server, device, issuer, other):
    """A cached page of a table is the same for all applications, so it contains nothing of a single one."""
    reader = server.key(Scope.READ)
    server.advance(issuer, 1)
    for query in ("", f"?path={READ_ONLY}", "?changed_after=0", f"?as_of={instant(server.now)}", "/history"):
        for form, key in itertools.product((NDJSON, ARROW), (issuer, other, reader, issuer)):
            content = get(server, key, SNAPSHOT + query, form).get_data()
            has_it = key == issuer and (form == NDJSON or query == "/history")
            assert (CATEGORY.encode() in content) is has_it, (query, form)
            assert form == ARROW or b'"status":2' in content
            assert issuer.split("_")[1].encode() not in content
    for compression in COMPRESSIONS:
        rows, _ = arrow_of(server, issuer, f"compression={compression}")
        assert CATEGORY not in str(rows)
        assert [desired["desired_status"] for desired in rows[0]["desired"]] == [2]


def test_category_is_in_history_of_issuer_only(server, device, issuer, other):
    server.submit(other, device, "w", "PUT", READ_ONLY, value="31")
    for key, read in itertools.product((issuer, other), (lines_of, arrow_of)):
        failed = [row for row in read(server, key, path=HISTORY)[0] if row.get("status") == 2]
        assert [row.get("category") for row in failed] == [
            CATEGORY if key == each else None for each in (issuer, other)
        ]
