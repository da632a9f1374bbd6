"""Entries of the log as events."""

from datetime import UTC, datetime

import pytest

from mirror_sdk.events import Event, EventKind, event_filter, read_events
from mirror_sdk.wire.log_entries import Batch, Entries, Gap, Unreadable

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
READING = {"ct": "text/plain", "payload": "MjEuNQ=="}
OBSERVATION = {"ep": "d1", "path": "/3303/0/5700", **READING, "timestamp": 1614180566644, "uid": "u"}
KINDS = "async_response async_response observation registration reg_update deregistration expired unknown"
MESSAGE = {
    "async-responses": [
        {"id": "a1", "status": 200, "payload": "My4zMQ==", "ct": "text/plain"},
        {"id": "a2", "status": 504, "error": "TIMEOUT", "payload": ""},
    ],
    "notifications": [OBSERVATION],
    "registrations": [{"ep": "d1", "ept": "Light", "resources": [{"path": "/3/0/0"}]}],
    "reg-updates": [{"ep": "d1"}],
    "de-registrations": ["d1"],
    "registrations-expired": ["d2"],
    "blips": [7],
}


def events(message: dict[str, object], gap: Gap | None = None) -> list[Event]:
    return list(read_events(Batch(tuple(Entries(message)), 9, gap), NOW))


def test_each_entry_is_an_event_of_its_kind_with_the_number_of_its_message():
    found = events(MESSAGE)
    assert " ".join(event.kind for event in found) == KINDS
    assert {(event.seq, event.received_at) for event in found} == {(9, NOW)}


def test_an_observation_has_its_typed_value_and_the_time_of_the_change():
    (event,) = events({"notifications": [OBSERVATION]})
    assert repr(event) == "<Event observation device_id=d1 path=/3303/0/5700 value=21.5 seq=9>"
    assert event.value is not None
    assert (event.value.python, event.uid) == (21.5, "u")
    assert event.changed_at == datetime(2021, 2, 24, 15, 29, 26, 644000, tzinfo=UTC)


def test_an_async_response_has_its_outcome_and_its_value_as_text():
    done, failed = events({"async-responses": MESSAGE["async-responses"]})
    assert done.value is not None
    assert (done.async_id, done.status, done.category, done.value.python) == ("a1", 200, None, "3.31")
    assert (failed.async_id, failed.status, failed.category, failed.value) == ("a2", 504, "TIMEOUT", None)


def test_unknown_members_of_an_entry_are_accessible():
    registration, unknown = events({"registrations": MESSAGE["registrations"], "blips": [7]})
    assert (registration.content.ept, unknown.content) == ("Light", Unreadable("blips", 7))


def test_gap_event_precedes_later_events_and_has_its_numbers():
    gap, observation = events({"notifications": [OBSERVATION]}, gap=Gap(3, 7))
    assert (gap.kind, gap.first_seq, gap.seq) == (EventKind.GAP, 3, 7)
    assert observation.kind == EventKind.OBSERVATION
    assert event_filter(["/3303/*"], ["d1"])(gap), "no filter hides a gap"


def test_impossible_times_do_not_stop_the_events():
    (event,) = events({"notifications": [OBSERVATION | {"timestamp": 10**18}]})
    assert event.changed_at is None
    assert event.value is not None


FILTERED = [
    (None, None, KINDS),
    (["/3303/*"], None, "observation unknown"),
    (["/3311/*", "/3303/0/5700"], None, "observation unknown"),
    (["/3311/*"], None, "unknown"),
    (None, {"d2"}, "expired unknown"),
    (None, {"d1"}, "observation registration reg_update deregistration unknown"),
    (["/3303/*"], ["d2"], "unknown"),
]


@pytest.mark.parametrize(("paths", "device_ids", "kinds"), FILTERED)
def test_filters_pass_selected_and_unknown_events(paths, device_ids, kinds):
    passed = filter(event_filter(paths, device_ids), events(MESSAGE))
    assert " ".join(event.kind for event in passed) == kinds
