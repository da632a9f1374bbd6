"""Rules that are put with ``apply=now`` are applied a part at a time, and none is lost. Source: wire.md 3."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import pytest
from device_resources import sensor

from mirror_server.service import rule_applier
from mirror_server.service.rule_applier import RuleApplier
from mirror_server.service.rule_matcher import RuleMatcher
from mirror_server.store import devices as stored_devices
from mirror_server.store import subscriptions
from mirror_server.store.devices import DeviceRow
from mirror_server.store.subscriptions import Matched

PATHS = [f"/3303/{number}/5700" for number in range(5)]
NOW = "?apply=now"


@pytest.fixture
def fleet(server: Any, key: str) -> list[str]:
    """Five devices with five resources each, in the order of their ids."""
    resources = [sensor(path, "1") for path in PATHS]
    return sorted(server.add_device(key, f"sensor-{number}", *resources) for number in range(5))


def all_subscribed(server: Any, key: str, fleet: list[str]) -> list[list[str]]:
    return [server.subscribed(key, device) for device in fleet]


@pytest.mark.parametrize(("read_at_once", "stored_at_once"), [(1, 1), (3, 2), (26, 25), (100, 100)])
def test_rules_of_two_applications_are_applied_in_small_transactions(
    server: Any, key: str, other: str, fleet: list[str], monkeypatch: Any, read_at_once: int, stored_at_once: int
) -> None:
    monkeypatch.setattr(rule_applier, "_RESOURCES_AT_ONCE", read_at_once)
    monkeypatch.setattr(rule_applier, "_STORED_AT_ONCE", stored_at_once)
    sizes: list[int] = []
    add = subscriptions.add_presubscribed_later

    def noted(session: Any, app_id: str, matched: list[Matched]) -> None:
        sizes.append(len(matched))
        add(session, app_id, matched)

    monkeypatch.setattr(subscriptions, "add_presubscribed_later", noted)
    server.put_rules(key, {"resource-path": ["/3303/*"]}, query=NOW)
    server.put_rules(other, {"endpoint-name": fleet[3]}, query=NOW)
    assert all_subscribed(server, key, fleet) == [PATHS] * 5
    assert server.observed(other) == [(fleet[3], "1")] * 5
    assert (sum(sizes), max(sizes)) == (30, min(read_at_once, stored_at_once, 25))


def test_response_does_not_wait_for_rules_that_a_slow_disk_applies_for_long(
    server: Any, key: str, fleet: list[str], monkeypatch: Any
) -> None:
    """A client that gets a 503 may put them again, and they would be applied from the start."""
    monkeypatch.setattr(rule_applier, "_RESOURCES_AT_ONCE", 5)
    monkeypatch.setattr(rule_applier, "_WAITED_SECONDS", 0)
    applier = server.services.subscriptions._applier
    apply_part, is_answered = applier._apply_part, threading.Event()

    def apply_slowly(after: str) -> str | None:
        assert is_answered.wait(60)
        return cast("str | None", apply_part(after))

    monkeypatch.setattr(applier, "_apply_part", apply_slowly)
    server.put_rules(key, {}, query=NOW)
    is_answered.set()
    monkeypatch.setattr(rule_applier, "_WAITED_SECONDS", 60)
    server.put_rules(server.key(), query=NOW)
    assert all_subscribed(server, key, fleet) == [PATHS] * 5


def test_rules_that_are_put_while_the_thread_ends_are_applied_before_the_response(
    server: Any, monkeypatch: Any
) -> None:
    applier = RuleApplier(server.services.database, RuleMatcher())
    # The thread has found no rules, and takes the lock before ``start`` does.
    monkeypatch.setattr(applier, "start", lambda: None)
    stored = Future[None]()
    applied = applier.applied(stored)
    stored.set_result(None)
    assert not applier._is_over(found_none=True), "it looks once more"
    assert not applied.done()
    assert applier._is_over(found_none=True)
    assert applied.done()


def test_rules_are_applied_from_where_the_server_ended(server: Any, key: str, fleet: list[str]) -> None:
    server.services.subscriptions.stop()
    server.put_rules(key, {}, query=NOW)

    def apply_some(session: Any) -> None:
        pending = subscriptions.next_to_apply(session, "")
        assert pending is not None
        assert subscriptions.note_applied(session, pending, (fleet[2], PATHS[1]), is_all=False)
        # Another process that did the same is too late.
        assert not subscriptions.note_applied(session, pending, (fleet[2], PATHS[1]), is_all=False)

    server.services.database.write(apply_some)
    server.restart()
    server.put_rules(server.key(), query=NOW)
    assert all_subscribed(server, key, fleet) == [[], [], PATHS[2:], PATHS, PATHS]


def test_other_rules_end_the_application_of_those_before(server: Any, key: str, fleet: list[str]) -> None:
    for method, body in (("PUT", [{}]), ("PUT", []), ("DELETE", None)):
        server.services.subscriptions.stop()
        server.put_rules(key, {}, query=NOW)
        server.call(key, method, "/v2/subscriptions", json=body)
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
        subscriptions.add_presubscribed_later(session, "app", matched)
        found = subscriptions.paths(session, "app", device)
        session.run("UPDATE devices SET registered = 1")
        session.run("UPDATE resources SET present = 1")
        return found

    for table, change in changes:
        assert server.services.database.write(partial(work, table=table, change=change)) == [], change
