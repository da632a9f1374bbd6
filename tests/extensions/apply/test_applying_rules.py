"""Rules that are stored with ``apply=now`` are applied in batches, and none is lost. Source: wire.md 3."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from device_resources import sensor
from waits import wait_until

from mirror_server.extensions.apply import applier as rule_applier
from mirror_server.extensions.apply import store
from mirror_server.extensions.apply.applier import RuleApplier
from mirror_server.extensions.apply.store import Matched
from mirror_server.store import devices as stored_devices
from mirror_server.store import subscriptions
from mirror_server.store.backend import StorageFailed
from mirror_server.store.devices import DeviceRow

PATHS = [f"/3303/{number}/5700" for number in range(5)]
RULES = "/v2/subscriptions"
NOW = "?apply=now"


@pytest.fixture
def fleet(server: Any, key: str) -> list[str]:
    """Five devices with five resources each, in the order of their ids."""
    resources = [sensor(path, "1") for path in PATHS]
    return sorted(server.add_device(key, f"sensor-{number}", *resources) for number in range(5))


def all_subscribed(server: Any, key: str, fleet: list[str]) -> list[list[str]]:
    return [server.subscribed(key, device) for device in fleet]


def state_of(server: Any, key: str, device: str) -> str:
    return cast("str", server.call(key, "GET", f"{RULES}/{device}{PATHS[0]}").headers["Mirror-Subscription"])


@pytest.mark.parametrize(("read_at_once", "stored_at_once"), [(1, 1), (3, 2), (26, 25), (100, 100)])
def test_rules_of_two_applications_are_applied_in_small_transactions(
    server: Any, key: str, other: str, fleet: list[str], monkeypatch: Any, read_at_once: int, stored_at_once: int
) -> None:
    monkeypatch.setattr(rule_applier, "_RESOURCES_PER_BATCH", read_at_once)
    monkeypatch.setattr(rule_applier, "_STORED_PER_TRANSACTION", stored_at_once)
    sizes: list[int] = []
    add = store.add_matched

    def noted(session: Any, app_id: str, matched: list[Matched]) -> None:
        sizes.append(len(matched))
        add(session, app_id, matched)

    monkeypatch.setattr(store, "add_matched", noted)
    server.put_rules(key, {"resource-path": ["/3303/*"]}, query=NOW)
    server.put_rules(other, {"endpoint-name": fleet[3]}, query=NOW)
    assert all_subscribed(server, key, fleet) == [PATHS] * 5
    assert server.observed(other) == [(fleet[3], "1")] * 5
    assert (sum(sizes), max(sizes)) == (30, min(read_at_once, stored_at_once, 25))


def test_response_does_not_wait_for_rules_that_a_slow_disk_applies_for_long(
    server: Any, key: str, fleet: list[str], monkeypatch: Any
) -> None:
    """A client that gets a 503 may store them again, and they would be applied from the start."""
    monkeypatch.setattr(rule_applier, "_RESOURCES_PER_BATCH", 5)
    monkeypatch.setattr(rule_applier, "_MAX_WAIT_SECONDS", 0)
    applier = server.services.part(RuleApplier)
    apply_batch, response_received = applier._apply_batch, threading.Event()
    # The thread of the start has ended. Otherwise it could be in a batch when the rules arrive.
    wait_until(lambda: applier._thread is None)

    def apply_slowly(after: str) -> str | None:
        assert response_received.wait(60)
        return cast("str | None", apply_batch(after))

    monkeypatch.setattr(applier, "_apply_batch", apply_slowly)
    server.put_rules(key, {}, query=NOW)
    response_received.set()
    monkeypatch.setattr(rule_applier, "_MAX_WAIT_SECONDS", 60)
    server.put_rules(server.key(), query=NOW)
    assert all_subscribed(server, key, fleet) == [PATHS] * 5


def test_rules_that_are_put_while_the_thread_ends_are_applied_before_the_response(
    server: Any, monkeypatch: Any
) -> None:
    services = server.services
    applier = RuleApplier(services.database, services.subscriptions, services.is_leader)
    # The thread has found no rules, and takes the lock before ``start`` does.
    monkeypatch.setattr(applier, "start", lambda: None)
    applied = Future[None]()
    applier._start_waiting(applied)
    assert not applier._is_over(found_none=True), "it looks once more"
    assert not applied.done()
    assert applier._is_over(found_none=True)
    assert applied.done()


def test_rules_are_applied_from_where_the_server_ended(server: Any, key: str, fleet: list[str]) -> None:
    server.services.part(RuleApplier).stop()
    server.put_rules(key, {}, query=NOW)

    def apply_some(session: Any) -> None:
        pending = store.next_to_apply(session, "")
        assert pending is not None
        assert store.advance(session, pending, (fleet[2], PATHS[1]), is_all=False)
        # Another process with the same change is too late.
        assert not store.advance(session, pending, (fleet[2], PATHS[1]), is_all=False)

    server.services.database.write(apply_some)
    server.restart()
    server.put_rules(server.key(), query=NOW)
    assert all_subscribed(server, key, fleet) == [[], [], PATHS[2:], PATHS, PATHS]


def test_rules_are_applied_when_the_database_responds_again(
    server: Any, key: str, fleet: list[str], monkeypatch: Any, caplog: Any
) -> None:
    def fail(_: str) -> str | None:
        raise StorageFailed("cannot reach its database")

    database = server.services.database
    with monkeypatch.context() as out:
        out.setattr(server.services.part(RuleApplier), "_apply_batch", fail)
        database.interrupted()
        server.put_rules(key, {}, query=NOW)
    assert all_subscribed(server, key, fleet) == [[]] * 5
    assert "cannot apply presubscription rules: cannot reach its database" in caplog.text
    assert "Traceback" not in caplog.text
    database.resumed()
    wait_until(lambda: all_subscribed(server, key, fleet) == [PATHS] * 5)


def test_new_rules_stop_the_application_of_earlier_rules(server: Any, key: str, fleet: list[str]) -> None:
    for method, body in (("PUT", [{}]), ("PUT", []), ("DELETE", None)):
        server.services.part(RuleApplier).stop()
        server.put_rules(key, {}, query=NOW)
        server.call(key, method, "/v2/subscriptions", json=body)
        with server.services.database.read() as session:
            assert store.next_to_apply(session, "") is None, "what is read of them is not stored any more"
        server.restart()
        server.put_rules(server.key(), query=NOW)
        assert all_subscribed(server, key, fleet) == [[]] * 5


def test_rules_that_were_put_without_the_extension_are_not_applied(server: Any, key: str, fleet: list[str]) -> None:
    server.services.part(RuleApplier).stop()
    server.put_rules(key, {"resource-path": ["/1/*"]}, query=NOW)
    usual, server.settings = server.settings, replace(server.settings, without=("apply",))
    server.restart()
    server.put_rules(key, {})
    server.settings = usual
    server.restart()
    server.put_rules(server.key(), query=NOW)
    assert all_subscribed(server, key, fleet) == [[]] * 5


def test_device_that_changed_since_it_was_matched_is_left_to_its_registration(server: Any, device: str) -> None:
    changes = [
        ("devices", "registered = 0"),
        ("devices", "endpoint_type = 'another'"),
        ("devices", "endpoint_name = 'another'"),
        ("resources", "present = 0"),
        ("resources", "observable = 0"),
    ]

    def work(session: Any, table: str, change: str) -> list[str]:
        row = stored_devices.find(session, device)
        assert isinstance(row, DeviceRow)
        matched = [Matched(0, device, "/3303/0/5700", row.endpoint_name, row.endpoint_type)]
        session.run(f"UPDATE {table} SET {change}")
        store.add_matched(session, "app", matched)
        found = subscriptions.paths(session, "app", device)
        session.run("UPDATE devices SET registered = 1")
        session.run("UPDATE resources SET present = 1")
        return found

    for table, change in changes:
        assert server.services.database.write(partial(work, table=table, change=change)) == [], change


def test_rules_are_applied_to_the_devices_that_are_registered(server: Any, key: str, fleet: list[str]) -> None:
    server.registration(key, fleet[0], "DELETE")
    server.put_rules(key, {"endpoint-name": fleet[1], "resource-path": PATHS[:1]})
    assert all_subscribed(server, key, fleet) == [[]] * 5
    server.put_rules(key, {}, query=NOW)
    assert all_subscribed(server, key, fleet) == [[], *[PATHS] * 4]
    assert len(server.observed(key)) == 20


@pytest.mark.parametrize(("answer", "state"), [("reject", "refused"), ("silent", "asked")])
def test_subscriptions_that_were_rejected_or_timed_out_are_retried(
    server: Any, key: str, device: str, answer: str, state: str
) -> None:
    server.patch(key, device, answer=answer)
    server.put_rules(key, {}, query=NOW)
    server.advance(key, 120)
    assert state_of(server, key, device) == state
    server.patch(key, device, answer="normal")
    server.advance(key, 3600)
    assert state_of(server, key, device) == state
    server.put_rules(key, {}, query=NOW)
    assert state_of(server, key, device) == "active"
    assert server.observed(key) == [(device, "21.5")]


def test_rules_with_an_outdated_etag_are_412_and_not_applied(
    server: Any, key: str, device: str, check_error: Any
) -> None:
    answer = server.call(key, "PUT", RULES + NOW, headers={"If-Match": '"other"'}, json=[{}])
    assert check_error(answer, 412, "If-Match").reason == "RULES_CHANGED"
    assert server.call(key, "GET", RULES).json == []
    assert server.subscribed(key, device) == []


def test_invalid_apply_parameter_is_400_with_the_cure(server: Any, key: str, check_error: Any) -> None:
    for query, field, cure in (
        ("apply=now&apply=now", "apply", "send it only once"),
        ("apply=later", "apply", "use now"),
        ("aply=now", "aply", "supported: apply"),
        ("apply=now&x=1", "x", "supported: apply"),
    ):
        assert cure in check_error(server.call(key, "PUT", f"{RULES}?{query}", json=[{}]), 400, field).message
    assert server.call(key, "GET", RULES).json == []


@pytest.mark.with_extension("openapi")
def test_description_names_the_parameter(server: Any) -> None:
    described = server.app.test_client().get("/openapi.json").json["paths"][RULES]["put"]
    assert [each["name"] for each in described["parameters"]] == ["apply", "If-Match"]
    assert "apply=now" in described["description"]


def test_rules_of_one_application_retry_no_subscriptions_of_another(
    server: Any, key: str, other: str, device: str
) -> None:
    server.patch(key, device, answer="reject")
    server.subscribe(key, device)
    server.patch(key, device, answer="normal")
    server.put_rules(other, {"resource-path": ["/3303/1/*"]}, query=NOW)
    assert state_of(server, key, device) == "refused"
    server.put_rules(other, {}, query=NOW)
    # The device already observes the resource for another application.
    assert state_of(server, key, device) == "active"


def test_a_sleeping_device_is_subscribed_at_its_next_contact(server: Any, key: str) -> None:
    sleeper = server.add_device(key, "sleeper", sensor(PATHS[0]), queue_mode=True)
    server.advance(key, 60)
    server.put_rules(key, {}, query=NOW)
    assert server.subscribed(key, sleeper) == []
    server.registration(key, sleeper, "PUT")
    assert server.subscribed(key, sleeper) == [PATHS[0]]
