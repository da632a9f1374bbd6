"""The pure core: commands, the desired table, messages, errors, retention, callbacks, the manual clock."""

import dataclasses
import itertools
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from state_diagram import diagram

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.clock import ManualClock
from mirror_server.core import commands, desired, messages
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.desired import TRANSITIONS, IllegalTransition
from mirror_server.core.messages import CURSOR_EXTRAS, LogEntry, MessageExtras, compose, first_message
from mirror_server.core.timestamps import after_seconds, from_datetime, months_before, to_datetime
from mirror_server.notifications.webhooks import delay_seconds, is_abandoned
from mirror_server.service.housekeeping import DeadlineTimer

INSTANTS = st.integers(0, 4_000_000_000_000)


def test_command_expiry_defaults_to_2_hours_or_3_days_in_queue_mode():
    for requested, queue_mode, seconds in (
        (None, False, 7200),
        (None, True, 3 * 86_400),
        (1, False, 1),
        (60, True, 60),
    ):
        assert commands.expires_at(5, requested, queue_mode=queue_mode) == 5 + seconds * 1000, (requested, queue_mode)


def test_retries_default_to_two_in_queue_mode_and_zero_for_execute():
    for method, requested, queue_mode, retries in (
        ("PUT", None, False, 0),
        ("PUT", None, True, 2),
        ("GET", None, True, 2),
        ("POST", None, True, 0),
        ("POST", 1, True, 1),
        ("PUT", 0, True, 0),
        ("PUT", 10, False, 10),
    ):
        result = commands.retries(requested, CommandRequest(method, "/3/0/4"), queue_mode=queue_mode)
        assert result == retries, (method, requested, queue_mode)


def test_retry_needs_a_remaining_retry_and_remaining_time():
    request = CommandRequest("GET", "/3/0/0")
    for failed_before, now, may in ((0, 9, True), (1, 9, True), (2, 9, False), (1, 10, False), (3, 11, False)):
        command = Command(1, "a", "x", "d", request, 0, 10, retries=2, attempts=failed_before)
        assert commands.may_try_again(command, now) is may, (failed_before, now)


def test_only_put_without_notification_rules_sets_a_desired_value():
    assert CommandRequest("PUT", "/3311/0/5850", payload=b"1").is_write
    assert not CommandRequest("PUT", "/3311/0/5850", query="pmin=5").is_write
    assert not any(CommandRequest(method, "/3/0/4").is_write for method in ("GET", "POST"))


class DesiredMachine(RuleBasedStateMachine):
    """One resource with any sequence of writes and outcomes, including those of superseded commands."""

    def __init__(self):
        super().__init__()
        self.value = None
        self.waiting = []
        self.submitted = 0
        self.now = 0

    @rule(payload=st.binary(max_size=3))
    def submit_write(self, payload):
        self.submitted += 1
        self.now += 1
        self.value = desired.write_accepted(
            self.value, command_id=self.submitted, app_id="a", value=payload, content_type="text/plain", at=self.now
        )
        self.waiting.append(self.submitted)
        assert (self.value.status, self.value.value) == (DesiredStatus.PENDING, payload)
        assert self.value.desired_at == self.value.requested_at == self.now
        assert self.value.status_updated_at is None
        assert self.value.category is None

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), category=st.sampled_from([None, "REQUEST_EXPIRED", "REJECTED"]))
    def end(self, data, category):
        command_id = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(command_id)
        self.now += 1
        after = desired.write_finished(self.value, command_id=command_id, category=category, at=self.now)
        if command_id != self.submitted:
            assert after is None
            return
        assert after.status is (DesiredStatus.SUCCESS if category is None else DesiredStatus.FAILURE)
        assert after.category == category
        assert after.desired_at == after.status_updated_at == self.now
        assert (after.requested_at, after.value) == (self.value.requested_at, self.value.value)
        self.value = after

    @precondition(lambda self: self.value is not None and self.submitted not in self.waiting)
    @rule()
    def end_again(self):
        with pytest.raises(IllegalTransition):
            desired.write_finished(self.value, command_id=self.submitted, category=None, at=self.now)

    @invariant()
    def pending_exactly_while_the_newest_command_waits(self):
        pending = self.value is not None and self.value.status is DesiredStatus.PENDING
        assert pending == (self.submitted in self.waiting)


TestDesiredMachine = DesiredMachine.TestCase
TestDesiredMachine.settings = settings(max_examples=20, stateful_step_count=20)


def test_state_diagram_has_a_note_for_accepted_writes_and_a_line_for_each_other_transition():
    title, first, note, *others = diagram().splitlines()
    assert (title, first) == ("stateDiagram-v2", "    [*] --> pending")
    assert note.endswith("each accepted write (202) sets the status to pending")
    assert "    pending --> failure: device rejects, deregisters or does not respond in time" in others
    assert len(others) == sum(event is not desired.DesiredEvent.WRITE_ACCEPTED for _, event in TRANSITIONS)


def test_outcome_of_an_unknown_write_changes_nothing():
    assert desired.write_finished(None, command_id=1, category=None, at=1) is None


def response(seq, status):
    return LogEntry(seq, "async-responses", {"id": str(seq), "status": status, "uid": "u", "timestamp": 1}, 1)


def is_server_error(entry):
    return entry.body.get("status", 0) >= 500


@given(st.lists(st.sampled_from([None, 200, 404, 499, 500, 504]), max_size=20))
def test_messages_contain_all_entries_in_order_and_server_errors_alone(statuses):
    entries = [response(seq, status) if status else NOTIFICATION for seq, status in enumerate(statuses, 1)]
    messages = []
    rest = entries
    while rest:
        message = first_message(rest)
        assert message
        messages.append(message)
        rest = rest[len(message) :]
    assert [entry for message in messages for entry in message] == entries
    assert all(len(message) == 1 for message in messages if any(map(is_server_error, message)))
    assert all(is_server_error(a[0]) or is_server_error(b[0]) for a, b in itertools.pairwise(messages))


def test_async_response_has_error_only_on_failure_and_content_type_only_with_payload():
    common = {"async_id": "a", "device_id": "d", "endpoint_name": "n", "path": "/3/0/4", "at": 7}
    where = {"timestamp": 7, "ep": "d", "original-ep": "n", "path": "/3/0/4"}
    read = {"payload": b"3.31", "content_type": "text/plain", "max_age_seconds": None}
    nothing = {"payload": b"", "content_type": None, "max_age_seconds": 60}
    expected = {"id": "a", "status": 200, "payload": "My4zMQ==", "ct": "text/plain", "max-age": 0}
    assert messages.async_response(**common, **read, status=200, category=None) == expected | where
    failed = {"id": "a", "status": 504, "error": "TIMEOUT", "payload": ""}
    assert messages.async_response(**common, **nothing, status=504, category="TIMEOUT") == failed | where
    fresh = messages.async_response(**common, **read | {"max_age_seconds": 60}, status=200, category=None)
    assert fresh["max-age"] == 60


def test_observation_has_device_time_and_numeric_max_age():
    event_data = {"device_id": "d", "endpoint_name": "n", "path": "/3303/0/5700", "payload": b"406", "changed_at": 7}
    entry = {"ep": "d", "original-ep": "n", "path": "/3303/0/5700", "payload": "NDA2", "timestamp": 7}
    for seconds, age in ((None, 0), (60, 60)):
        event = messages.notification(**event_data, content_type="text/plain", max_age_seconds=seconds)
        assert event == entry | {"ct": "text/plain", "max-age": age}


def test_registration_lists_resources_and_deregistration_names_the_device():
    resources = [("/3303/0/5700", "temperature", "text/plain", True), ("/3/0/4", "", "", False)]
    named = {"device_id": "d", "endpoint_name": "n", "at": 7}
    deregistration = {"ep": "d", "original-ep": "n", "timestamp": 7}
    listed = [
        {"path": "/3303/0/5700", "rt": "temperature", "ct": "text/plain", "obs": True},
        {"path": "/3/0/4", "rt": "", "ct": "", "obs": False},
    ]
    registration = messages.registration(**named, endpoint_type="Light", queue_mode=True, resources=resources)
    assert registration == deregistration | {"ept": "Light", "q": True, "resources": listed}
    assert messages.deregistration(**named) == deregistration


OF_A_DEVICE = {"ep": "d", "original-ep": "n", "uid": "u", "timestamp": 1}
NOTIFICATION = LogEntry(1, "notifications", OF_A_DEVICE, 5)
REGISTRATION = LogEntry(2, "registrations", OF_A_DEVICE, 5)
RESPONSE = LogEntry(4, "async-responses", {**OF_A_DEVICE, "id": "a", "status": 200, "path": "/3/0/4"}, 5)


def test_message_contains_only_requested_extras():
    for extras, of_notification, of_registration, of_response in (
        (MessageExtras(), "", "", ""),
        (MessageExtras(include_uid=True), "uid", "uid", "uid"),
        (MessageExtras(include_timestamp=True), "timestamp", "", "timestamp"),
        (MessageExtras(include_original_ep=True), "original-ep", "", ""),
        (MessageExtras(include_seq=True), "seq logged-at", "seq logged-at", "ep path seq logged-at"),
        (
            CURSOR_EXTRAS,
            "original-ep timestamp uid seq logged-at",
            "uid seq logged-at",
            "ep original-ep path timestamp uid seq logged-at",
        ),
    ):
        update = dataclasses.replace(REGISTRATION, kind="reg-updates")
        message = compose([NOTIFICATION, REGISTRATION, update, RESPONSE], extras)
        registration = {"ep", "timestamp", "original-ep", *of_registration.split()}
        assert set(message["notifications"][0]) == {"ep", *of_notification.split()}, extras
        assert set(message["registrations"][0]) == set(message["reg-updates"][0]) == registration
        assert set(message["async-responses"][0]) == {"id", "status", *of_response.split()}


def test_deregistration_message_is_an_id_or_an_object():
    for extras, deregistration in (
        (MessageExtras(), "d"),
        (MessageExtras(True, True, True, include_seq=True), "d"),
        (MessageExtras(True, True, True, True), {"ep": "d"}),
        (MessageExtras(deregistrations_as_object=True, include_seq=True), {"ep": "d", "seq": 3, "logged-at": 5}),
        (CURSOR_EXTRAS, {**OF_A_DEVICE, "seq": 3, "logged-at": 5}),
    ):
        for kind in ("de-registrations", "registrations-expired"):
            assert compose([LogEntry(3, kind, OF_A_DEVICE, 5)], extras) == {kind: [deregistration]}, extras


def test_six_months_are_calendar_months():
    for now, before in (
        ("2026-07-05T08Z", "2026-01-05T08Z"),
        ("2026-03-15T00Z", "2025-09-15T00Z"),
        ("2026-08-31T00Z", "2026-02-28T00Z"),
        ("2028-08-31T00Z", "2028-02-29T00Z"),
    ):
        at, earlier = (from_datetime(datetime.fromisoformat(text)) for text in (now, before))
        assert months_before(at, 6) == earlier, now


@given(INSTANTS)
def test_instants_round_trip_and_six_months_are_half_a_year(instant):
    assert from_datetime(to_datetime(instant)) == instant
    if instant > 20_000_000_000:
        assert 181 <= (instant - months_before(instant, 6)) / 86_400_000 <= 184


def test_instants_are_integer_milliseconds_since_1970():
    for seconds, later in ((0.25, 250), (0.0004, 0), (0.0006, 1), (-0.5, -500)):
        assert (after_seconds(5, seconds), type(after_seconds(5, seconds))) == (5 + later, int)
    assert to_datetime(1) == datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)
    at = datetime(2026, 7, 5, 8, 0, 0, 1999, tzinfo=UTC)
    assert to_datetime(from_datetime(at)) == at.replace(microsecond=1000)


def test_webhook_delay_doubles_from_1_to_120_seconds():
    assert [delay_seconds(failures) for failures in range(1, 10)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]
    assert delay_seconds(10**18) == 120
    assert not is_abandoned(0, 24 * 3600 * 1000 - 1)
    assert is_abandoned(0, 24 * 3600 * 1000)


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=20), st.lists(st.integers(0, 30), max_size=5))
def test_manual_clock_makes_each_call_once_in_order_at_its_instant(calls, steps):
    clock = ManualClock(0)
    made = []
    for number, (due_at, cancelled) in enumerate(calls):
        timer = clock.call_at(due_at, lambda number=number: made.append((clock.now(), number)))
        if cancelled:
            timer.cancel()
    for step in steps:
        clock.advance(step)
    expected = sorted((due_at, number) for number, (due_at, cancelled) in enumerate(calls) if not cancelled)
    assert made == [entry for entry in expected if entry[0] <= clock.now()] if steps else made == []
    assert clock.now() == sum(steps)


@given(st.lists(st.integers(1, 100), min_size=1))
def test_deadline_timer_calls_at_the_earliest_requested_instant(instants):
    clock = ManualClock(0)
    made = []
    deadline = DeadlineTimer(clock, lambda: made.append(clock.now()))
    for instant in instants:
        deadline.at_latest(instant)
    deadline.at_latest(None)
    clock.advance(200)
    assert made == [min(instants)]
