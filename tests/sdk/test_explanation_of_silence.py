"""Explanations of a silent device: by its reporting interval, its last contact and the application."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from resource_paths import TEMPERATURE

from mirror_sdk.value_explanation import reporting_interval

RESOURCES = [{"path": TEMPERATURE, "value": "20", "observable": True}]
BEGIN_AT = datetime(2026, 1, 5, 8, tzinfo=UTC)
CUT_OFF = "it seems cut off"
EVERY_MINUTE = "It usually reports to this application every 60 s"
NOTHING_TO_DO = "nothing needs to be done"


@pytest.fixture
def device_id(simulator):
    return simulator.add_device("sensor-1", RESOURCES)


def report(simulator, device_id, *, every_seconds=60):
    """Let the device report a value repeatedly. It is silent after the last report."""
    for number in range(5):
        simulator.advance(every_seconds)
        simulator.set_value(device_id, TEMPERATURE, f"{simulator.get_clock():%H%M}{number}")


def explain(client, device_id):
    explanation = client.devices.explain(device_id, TEMPERATURE)
    return str(explanation), explanation.refresh


def test_explanation_of_a_device_that_reports_and_then_loses_its_connection(client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    report(simulator, device_id)
    words, refresh = explain(client, device_id)
    assert f"{EVERY_MINUTE} and was last seen at 2026-01-05T08:05:00.000Z, 0 s ago, as expected." in words
    later = f"{NOTHING_TO_DO} for later changes: the device sends them"
    assert refresh == (f"client.read_value('{device_id}', '{TEMPERATURE}')", later)
    simulator.set_online(device_id, False)
    simulator.advance(timedelta(minutes=2))
    assert "its longest silence before was 60 s" in explain(client, device_id)[0]
    simulator.advance(timedelta(hours=3))
    words, refresh = explain(client, device_id)
    last_seen = "was last seen at 2026-01-05T08:05:00.000Z, 3 hours ago"
    assert f"{EVERY_MINUTE} and {last_seen}: {CUT_OFF}, unless nothing has changed since." in words
    assert NOTHING_TO_DO not in words
    assert "the device sends them" not in words
    assert "which waits for the next contact if the device is cut off" in refresh[0]
    assert refresh[1] == "later changes arrive by themselves once the device is in contact again"
    simulator.set_online(device_id, True)
    assert CUT_OFF not in explain(client, device_id)[0], "it is in contact again"


def test_silence_within_and_beyond_the_reporting_interval(client, simulator):
    sleeper = simulator.add_device("sleeper-1", RESOURCES, queue_mode=True)
    client.subscribe(sleeper, TEMPERATURE)
    report(simulator, sleeper, every_seconds=900)
    simulator.advance(timedelta(minutes=15))
    words, refresh = explain(client, sleeper)
    assert "The device sleeps" in words
    assert "It usually reports to this application every 15 min and was last seen at" in words
    assert CUT_OFF not in words
    assert refresh[0].endswith("which waits until the device next makes contact")
    assert refresh[1].startswith(NOTHING_TO_DO)
    simulator.advance(timedelta(hours=2))
    assert CUT_OFF not in explain(client, sleeper)[0], "it still makes contact, by the directory"
    simulator.set_online(sleeper, False)
    simulator.advance(timedelta(hours=2))
    words, refresh = explain(client, sleeper)
    assert CUT_OFF in words
    assert NOTHING_TO_DO not in words


def test_unknown_reporting_interval_is_not_guessed(client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    simulator.set_online(device_id, False)
    simulator.advance(timedelta(hours=3))
    words, refresh = explain(client, device_id)
    assert "It was last seen at 2026-01-05T08:00:00.000Z, 3 hours ago; its reporting interval is unknown." in words
    assert CUT_OFF not in words
    assert refresh[1] == f"{NOTHING_TO_DO} for later changes: the device sends them, as long as it is in contact"


def test_notifications_of_other_applications_do_not_count_for_the_interval(client, new_client, simulator, device_id):
    other = new_client()
    other.subscribe(device_id, TEMPERATURE)
    report(simulator, device_id)
    assert "08:05:00.000Z, 0 s ago; its reporting interval is unknown" in explain(client, device_id)[0]
    assert EVERY_MINUTE in explain(other, device_id)[0]


@pytest.fixture
def reporting(client, simulator, device_id):
    """The device after it has reported to the client."""
    client.subscribe(device_id, TEMPERATURE)
    report(simulator, device_id)
    return device_id


def test_expired_registration_is_not_a_contact(client, simulator, reporting):
    simulator.set_online(reporting, False)
    simulator.advance(timedelta(days=2))
    words, _ = explain(client, reporting)
    assert CUT_OFF not in words
    assert "Its last registration event was at 2026-01-06T08:00:00.000Z" in words, "its registration expired"
    assert "It was last seen at 2026-01-05T08:05:00.000Z, 2 days ago." in words


def test_nothing_counts_as_read_by_an_explanation(client, mirror, reporting):
    def read():
        mirror.services.log.store_read()
        mirror.services.database.settle(10)
        return mirror.services.database.query(lambda session: session.rows("SELECT app_id, read_seq FROM logs"))

    before = read()
    assert CUT_OFF not in explain(client, reporting)[0]
    assert read() == before


def test_service_without_device_contacts(client_over, simulator, device_id):
    def remove_contacts(request, answer):
        if request.url.path.endswith("/contacts"):
            answer.status_code = 404
        return answer

    client = client_over(remove_contacts)
    client.subscribe(device_id, TEMPERATURE)
    report(simulator, device_id)
    assert "its reporting interval is unknown" in explain(client, device_id)[0]


@given(st.lists(st.integers(1, 10**6), min_size=5, max_size=20))
def test_reporting_interval_does_not_depend_on_the_order_of_pauses(seconds):
    contacts = [BEGIN_AT + timedelta(seconds=at) for at in accumulate(seconds, initial=0)]
    interval = reporting_interval(contacts)
    assert interval == reporting_interval(reversed(contacts)) == reporting_interval([*contacts, *contacts])
    assert interval.usual.total_seconds() in seconds
    assert interval.usual <= interval.longest == timedelta(seconds=max(seconds))
    assert not interval.is_late(3 * interval.longest)
    assert interval.is_late(3 * interval.longest + timedelta(seconds=1))


@given(st.lists(st.integers(1, 10**6), max_size=4))
def test_four_pauses_are_too_few_for_an_interval(seconds):
    assert reporting_interval(BEGIN_AT + timedelta(seconds=at) for at in accumulate(seconds, initial=0)) is None


def test_values_of_one_contact_are_no_pauses():
    minutes = [BEGIN_AT + timedelta(minutes=number, milliseconds=ms) for number in range(6) for ms in (0, 4, 30)]
    interval = reporting_interval(minutes)
    assert timedelta(seconds=59) < interval.usual < timedelta(seconds=60)
    assert reporting_interval(minutes[:3]) is None
