"""Rows of the history: one per event, with its own time, and none if the history is disabled."""

from collections.abc import Callable
from typing import Any

import pytest
from device_resources import sensor, setting
from histories import tail

from mirror_server.devices.dispatch import Job
from mirror_server.devices.interface import Content, DeviceResponse, Observation, Observe, Outcome
from mirror_server.extensions.history.store.history import StoredHistoryRow

PATH = "/3303/0/5700"


def rows_of(server: Any) -> list[StoredHistoryRow]:
    assert server.services.database.settle(60)
    with server.services.database.read() as session:
        return tail(session)


@pytest.fixture
def server(new_server: Callable[..., Any]) -> Any:
    return new_server(keep_history_seconds=86_400)


@pytest.fixture
def device(server: Any, key: str) -> str:
    return server.add_device(key, "sensor-1", sensor(PATH), setting("/3303/0/5603", "1"))


def test_disabled_history_writes_nothing(new_server: Callable[..., Any]) -> None:
    server = new_server()
    key = server.key()
    device = server.add_device(key, "sensor-1")
    server.subscribe(key, device)
    server.set_value(key, device, "22")
    server.registration(key, device, "DELETE")
    assert rows_of(server) == []


def test_registration_changes_are_history_rows(server: Any, key: str, device: str) -> None:
    server.advance(key, 1)
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    server.registration(key, device, "POST")
    server.advance(key, 1)
    server.patch(key, device, online=False)
    found = rows_of(server)
    # The rows of a past day may be in a file.
    server.advance(key, 86_400)
    found += rows_of(server)[-1:]
    assert [row.what for row in found] == ["registration", "reg_update", "deregistration", "registration", "expired"]
    assert {(row.device_id, row.endpoint_name, row.path, row.origin) for row in found} == {
        (device, "sensor-1", None, None)
    }
    assert found[1].changed_at == found[0].changed_at + 1000 == found[1].received_at


def test_finished_superseded_and_failed_writes_are_rows(server: Any, key: str, device: str) -> None:
    server.submit(key, device, "failed", "PUT", PATH, value="30")
    server.patch(key, device, online=False)
    for value in ("1", "2", "3"):
        server.advance(key, 1)
        server.submit(key, device, f"write-{value}", "PUT", "/3303/0/5603", value=value)
    server.advance(key, 10)
    server.patch(key, device, online=True)
    server.advance(key, 120)
    failed, *found = [row for row in rows_of(server) if row.what == "desired"]
    assert (failed.status, failed.category) == (2, "METHOD_NOT_ALLOWED")
    assert [(row.value, row.status, row.category) for row in found] == [(each, 1, None) for each in (b"1", b"2", b"3")]
    assert [row.requested_at for row in found] == [found[0].requested_at + 1000 * each for each in range(3)]
    assert {(row.origin, row.app_id) for row in found} == {("write", key.split("_")[1])}
    assert server.resource(key, device, "/3303/0/5603")["desired"]["revision"] == found[-1].revision


def test_values_of_one_group_have_their_own_times(server: Any, key: str, device: str) -> None:
    now = server.now
    observations = [
        Observation(device, PATH, Content(b"1"), now - 5000),
        Observation(device, PATH, Content(b"2"), now - 9000, is_unsolicited=True),
        Observation("nobody", PATH, Content(b"x"), now),
        Observation(device, "/3303/1/5700", Content(b"\xff", "application/octet-stream"), now, True, is_published=True),
        Observation(device, PATH, Content(b"3"), now),
    ]
    server.services.devices.observed(observations).result(60)
    server.submit(key, device, "read", "GET", PATH)
    *found, read = rows_of(server)[1:]
    assert (read.value, read.origin, read.content_type) == (b"21.5", "read", "text/plain")
    assert [(row.value, row.changed_at, row.origin) for row in found] == [
        (b"1", now - 5000, "observation"),
        (b"2", now - 9000, "auto_observation"),
        (b"\xff", now, "registration"),
        (b"3", now, "observation"),
    ]
    assert found[2].content_type == "application/octet-stream"
    assert [row.revision for row in found] == list(range(found[0].revision, found[0].revision + 4))
    assert server.resource(key, device)["reported"]["revision"] == read.revision
    # The device did not announce this resource.
    assert server.resource(key, device, "/3303/1/5700")["reported"]["revision"] == found[2].revision
    with server.services.database.read(with_revision=True) as session:
        assert session.last_revision() == read.revision


def test_read_response_has_time_of_device(server: Any, key: str, device: str) -> None:
    responded_at = server.now - 7000
    answer = DeviceResponse(Outcome.DONE, Content(b"20"), responded_at)
    services = server.services
    services.database.write(lambda session: services.subscriptions.finish(session, Job(device, Observe(PATH)), answer))
    row = rows_of(server)[-1]
    assert (row.changed_at, row.received_at, row.origin) == (responded_at, server.now, "observation")
