"""The subscribers of a resource are cached until any process changes them."""

from collections.abc import Callable
from copy import copy
from typing import Any

import databases
import pytest
from databases import ON_POSTGRESQL
from resource_paths import TEMPERATURE

from mirror_server.devices.interface import Content, Observation
from mirror_server.store import devices, subscriptions
from mirror_server.store.session import Session


def known_and_stored(server, device) -> tuple[Any, Any]:
    """Return the subscribers that an observation would find, and those in the database."""

    def work(session: Session) -> tuple[Any, Any]:
        keys = [(device, TEMPERATURE)]
        cached = copy(subscriptions.subscribers(session, keys).get(keys[0]))
        session.subscribers.clear()
        return cached, copy(subscriptions.subscribers(session, keys).get(keys[0]))

    return server.services.database.write(work)


def observe(server, device, value: str, at: int = 0) -> None:
    observation = Observation(device, TEMPERATURE, Content(value.encode()), server.now + at)
    server.services.devices.observed([observation]).result(60)


def stored(*statements: str) -> Callable[[Any, str, str, str], None]:
    """A write of another process, such as a command of an operator."""

    def change(server, _key, _other, device) -> None:
        databases.execute(server.settings.database_url, *(each.format(device=device) for each in statements))

    return change


def apply_rule(server: Any, key: str, other: str, device: str) -> None:
    server.put_rules(other, {"endpoint-name": "sensor-*", "resource-path": [TEMPERATURE]})
    server.registration(key, device, "PUT")


CHANGES: dict[str, Callable[[Any, str, str, str], None]] = {
    "another one subscribes": lambda server, _, other, device: server.subscribe(other, device),
    "the only one subscribes no more": lambda server, key, _, device: server.subscribe(key, device, method="DELETE"),
    "the device leaves": lambda server, key, _, device: server.registration(key, device, "DELETE"),
    "the device is deleted": lambda server, _key, _other, device: server.services.database.write(
        lambda session: devices.delete(session, device)
    ),
    "the resource becomes auto-observed": lambda server, _key, _other, device: server.services.database.write(
        lambda session: session.run("UPDATE resources SET auto_observed = 1 WHERE device_id = :device", device=device)
    ),
    "a rule of another one is applied": apply_rule,
    "another process ends the subscription": stored("DELETE FROM subscriptions WHERE device_id = '{device}'"),
    "another process renames the device": stored(
        "UPDATE devices SET endpoint_name = 'elsewhere' WHERE device_id = '{device}'"
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_next_value_sees_every_subscription_change(server, key, other, device, change):
    server.subscribe(key, device)
    observe(server, device, "22")
    change(server, key, other, device)
    cached, found = known_and_stored(server, device)
    assert cached == found
    observe(server, device, "23")
    server.subscribe(other, server.add_device(key, "another"))
    cached, found = known_and_stored(server, device)
    assert cached == found


def test_times_never_decrease_even_after_a_rollback(server, key, device):
    server.subscribe(key, device)
    observe(server, device, "22", at=5000)
    observe(server, device, "23", at=1000)

    def broken(session: Session) -> None:
        observation = Observation(device, TEMPERATURE, Content(b"never"), server.now + 90_000)
        server.services.devices._observe(session, [observation])
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        server.services.database.write(broken)
    observe(server, device, "24", at=7000)

    times = [entry["timestamp"] - server.now for kind, entry in server.log(key) if kind == "notifications"]
    assert times[1:] == [5000, 5000, 7000]


@pytest.mark.skipif(ON_POSTGRESQL, reason="PostgreSQL has no cheap check for changes")
def test_subscribers_are_queried_once_while_nothing_changes(server, key, device, monkeypatch):
    server.subscribe(key, device)
    statements: list[str] = []
    rows_of = Session.rows_of
    monkeypatch.setattr(
        Session,
        "rows_of",
        lambda self, statement, values: statements.append(statement) or rows_of(self, statement, values),
    )
    for value in range(5):
        observe(server, device, str(value))
        server.submit(key, device, f"read-{value}", "GET", TEMPERATURE)
    # Device requests are stored by such statements too.
    assert sum("JOIN subscriptions" in statement for statement in statements) == 1
