"""Who hears of a value is looked up once, and again as soon as anything that decides it was written, by whomever."""

import threading
from collections.abc import Callable
from contextlib import closing
from copy import copy
from typing import Any

import databases
import pytest
from databases import ON_POSTGRESQL

from mirror_server.devices.link import Content, Observation
from mirror_server.store import devices, processes, subscriptions
from mirror_server.store.database import Database
from mirror_server.store.session import Session

TEMPERATURE = "/3303/0/5700"
DEVICE = (
    "INSERT INTO devices (device_id, endpoint_name, endpoint_type, registered, queue_mode, lifetime_seconds,"
    " created_at, updated_at, registration_expires_at) VALUES ('first', 'first', '', 1, 0, 60, 1, 1, 9)"
)


def known_and_stored(server, device) -> tuple[Any, Any]:
    """Who hears, as an observation would find it now, and as it stands in the database."""

    def work(session: Session) -> tuple[Any, Any]:
        wanted = [(device, TEMPERATURE)]
        known = copy(subscriptions.hearers(session, wanted).get(wanted[0]))
        session.hearings.forget()
        return known, copy(subscriptions.hearers(session, wanted).get(wanted[0]))

    return server.services.database.write(work)


def observe(server, device, value: str, at: int = 0) -> None:
    observation = Observation(device, TEMPERATURE, Content(value.encode()), server.now + at)
    server.services.devices.observed([observation]).result(60)


def stored(*statements: str) -> Callable[[Any, str, str, str], None]:
    """What a process beside the server writes, such as a command of an operator."""

    def change(server, _key, _other, device) -> None:
        databases.execute(server.settings.database_url, *(each.format(device=device) for each in statements))

    return change


CHANGES: dict[str, Callable[[Any, str, str, str], None]] = {
    "nothing": lambda *_: None,
    "another one subscribes": lambda server, _, other, device: server.subscribe(other, device),
    "the only one subscribes no more": lambda server, key, _, device: server.subscribe(key, device, method="DELETE"),
    "the device leaves": lambda server, key, _, device: server.registration(key, device, "DELETE"),
    "the device registers anew": lambda server, key, _, device: server.registration(key, device, "POST"),
    "the device is renamed": lambda server, _key, _other, device: server.services.database.write(
        lambda session: devices.rename(session, device, "renamed")
    ),
    "the device is deleted": lambda server, _key, _other, device: server.services.database.write(
        lambda session: devices.delete(session, device)
    ),
    "the resource becomes auto-observed": lambda server, _key, _other, device: server.services.database.write(
        lambda session: session.run("UPDATE resources SET auto_observed = 1 WHERE device_id = :device", device=device)
    ),
    "a rule of another one is applied": lambda server, _, other, _device: server.put_rules(
        other, {"endpoint-name": "sensor-*", "resource-path": [TEMPERATURE]}, query="?apply=now"
    ),
    "another process ends the subscription": stored("DELETE FROM subscriptions WHERE device_id = '{device}'"),
    "another process renames the device": stored(
        "UPDATE devices SET endpoint_name = 'elsewhere' WHERE device_id = '{device}'"
    ),
}


def forgotten(server, key, other, device) -> None:
    """What another process wrote, and then nothing of that process is left."""
    stored("DELETE FROM subscriptions WHERE device_id = '{device}'")(server, key, other, device)
    server.services.database.write(lambda session: processes.forget_before(session, 1))


CHANGES["another process that is forgotten ends the subscription"] = forgotten


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_decides_it_is_seen_by_the_next_value(server, key, other, device, change):
    server.subscribe(key, device)
    observe(server, device, "22")
    change(server, key, other, device)
    known, found = known_and_stored(server, device)
    assert known == found
    observe(server, device, "23")
    server.subscribe(other, server.add_device(key, "another"))
    known, found = known_and_stored(server, device)
    assert known == found


def test_who_subscribes_no_more_hears_no_more_and_who_came_hears(server, key, other, device):
    server.subscribe(key, device)
    observe(server, device, "22")
    server.subscribe(other, device)
    observe(server, device, "23")
    server.subscribe(key, device, method="DELETE")
    observe(server, device, "24")
    # What the device itself has is told at a subscription.
    assert [value for _, value in server.observed(key) if value != "21.5"] == ["22", "23"]
    assert [value for _, value in server.observed(other) if value != "21.5"] == ["23", "24"]


def test_no_time_is_told_before_the_last_one_also_where_that_was_undone(server, key, device):
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

    told = [entry["timestamp"] - server.now for kind, entry in server.log(key) if kind == "notifications"]
    assert told[1:] == [5000, 5000, 7000]


def test_while_nothing_decides_it_anew_it_is_looked_up_once(server, key, device, monkeypatch):
    server.subscribe(key, device)
    looked_up: list[object] = []
    look_up = subscriptions._rows_of_hearers

    def noted(session: Session, unknown: list[tuple[str, str]]) -> Any:
        looked_up.extend(unknown)
        return look_up(session, unknown)

    monkeypatch.setattr(subscriptions, "_rows_of_hearers", noted)
    for value in range(5):
        observe(server, device, str(value))
        server.place(key, device, f"read-{value}", "GET", TEMPERATURE)
    assert looked_up == [(device, TEMPERATURE)]


@pytest.mark.skipif(not ON_POSTGRESQL, reason="a SQLite file has one process")
def test_what_another_leader_told_meanwhile_is_known(server, key, device):
    """It writes nothing that decides who hears."""
    server.subscribe(key, device)
    observe(server, device, "22", at=5000)
    election = server.services.database._backend._election
    election.token = "led again"
    told_at = f"UPDATE resources SET changed_at = {server.now + 9000}"
    databases.execute(
        server.settings.database_url,
        f"{told_at} WHERE device_id = '{device}' AND path = '{TEMPERATURE}'",
        "UPDATE settings SET value = 'led again' WHERE name = 'duty'",
    )
    observe(server, device, "23", at=7000)
    told = [entry["timestamp"] - server.now for kind, entry in server.log(key) if kind == "notifications"]
    assert told[1:] == [5000, 9000]


@pytest.mark.skipif(not ON_POSTGRESQL, reason="a SQLite file has one process")
def test_who_decides_it_waits_for_no_other_process_that_does(server, device):
    """As long as they touch other devices."""
    goes_on, has_written = threading.Event(), threading.Event()

    def hold(session: Session) -> None:
        subscriptions.put_single(session, "application", "first", TEMPERATURE)
        has_written.set()
        assert goes_on.wait(60)

    def put(session: Session) -> None:
        subscriptions.put_single(session, "application", device, TEMPERATURE)

    databases.execute(server.settings.database_url, DEVICE)
    with closing(Database(server.settings.database_url)) as other:
        held = other.submit(hold, touched=["first"])
        assert has_written.wait(60)
        server.services.database.submit(put, touched=[device]).result(10)
        goes_on.set()
        held.result(60)
