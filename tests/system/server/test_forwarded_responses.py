"""Responses of several servers on one PostgreSQL database are the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from devices_on_loopback import until
from flask.testing import FlaskClient

from mirror_server.clock import wall_time
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import DEFAULT_SCOPES, Scope
from mirror_server.store.backend import StorageFailed
from mirror_server.store.session import LEADER, Session
from mirror_server.web.flask_app import create_app


@pytest.fixture
def pair(open_services: Callable[..., Services]) -> tuple[Services, FlaskClient, FlaskClient]:
    """The services of the leader, a client of the leader, and a client of a follower."""
    opened = [open_services(), open_services()]
    first, second = (create_app(services).test_client() for services in opened)
    return opened[0], first, second


def get(client: FlaskClient, key: str, path: str) -> Any:
    return client.get(path, headers={"Authorization": f"Bearer {key}"})


def test_forwarded_response_has_each_header_once(pair):
    services, *clients = pair
    key = keys.create(services.database, "app", DEFAULT_SCOPES, wall_time())
    for client in clients:
        for path in ("/v2/notification/channel", "/v2/device-requests", "/v3/devices"):
            headers = get(client, key, path).headers
            for name in ("Cache-Control", "X-Content-Type-Options", "X-Request-ID", "Content-Type", "Content-Length"):
                assert len(headers.getlist(name)) == 1, (path, name)


def test_renewed_key_is_valid_at_all_processes_at_once(pair):
    services, *clients = pair
    old = keys.create(services.database, "app", DEFAULT_SCOPES, wall_time())

    def statuses(*tried_keys: str) -> list[int]:
        return [get(client, key, "/v3/devices").status_code for key in tried_keys for client in clients]

    assert statuses(old) == [200] * 2
    new = keys.renew(services.database, "app", 3600, wall_time())
    assert statuses(old, new) == [200] * 4
    newest = keys.renew(services.database, "app", 0, wall_time())
    assert statuses(old, new, newest) == [401] * 4 + [200] * 2


def test_forwarded_poll_of_ended_key_delivers_nothing_and_renewed_key_gets_events(pair):
    leader, _, follower = pair
    old = keys.create(leader.database, "app", DEFAULT_SCOPES, wall_time())
    app_id = keys.parse_key(old)[0]
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(get, follower, old, "/v2/notification/pull?hold=55")
        until(lambda: leader.log.open_polls)
        new = keys.renew(leader.database, "app", 0, wall_time())
        leader.database.write(lambda session: leader.log.append(session, "reg-updates", [(app_id, "d", {"ep": "d"})]))
        assert poll.result(60).status_code == 401
    assert get(follower, new, "/v2/notification/pull?hold=0").json["reg-updates"][0]["ep"] == "d"


def test_call_that_a_starting_leader_missed_is_processed_once(pair, monkeypatch):
    """A leader stores that it leads before it can process calls, and announces itself when it can."""
    leader, _, follower = pair
    key = keys.create(leader.database, "app", tuple(Scope), wall_time())
    responder = leader.coordinator.forwarder.responder
    missed: list[str] = []
    monkeypatch.setattr(responder, "handle", missed.append)
    body = {"endpoint_name": "sensor-1", "resources": []}
    headers = {"Authorization": f"Bearer {key}"}
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(follower.post, "/sim/v1/devices", json=body, headers=headers)
        until(lambda: missed)
        monkeypatch.undo()
        for _ in range(3):
            leader.coordinator.forwarder.announce_leader()
        assert call.result(60).status_code == 201
    assert [device["endpoint_name"] for device in get(follower, key, "/v3/devices").json["data"]] == ["sensor-1"]


def test_call_that_was_sent_to_a_former_leader_is_not_processed_by_the_next(pair, monkeypatch):
    """The next leader may also receive the signal of the call, if it has read its messages late."""
    leader, _, follower = pair
    key = keys.create(leader.database, "app", tuple(Scope), wall_time())
    handled: list[str] = []
    monkeypatch.setattr(leader.coordinator.forwarder.responder, "handle", handled.append)
    former = leader.coordinator.leadership.token
    # There is no leader when the call is stored.
    leader.database.write(lambda session: session.run("DELETE FROM settings WHERE name = :name", name=LEADER))
    headers = {"Authorization": f"Bearer {key}"}
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(follower.post, "/sim/v1/devices", json={"endpoint_name": "sensor-1"}, headers=headers)
        until(lambda: leader.database.query(lambda session: session.scalar("SELECT count(*) FROM relayed_calls")))
        lead(leader, former, monkeypatch)
        until(lambda: handled)
        lead(leader, "next", monkeypatch)
        leader.database.write(lambda session: session.publish("call", f"{handled[0]} {former}"))
        assert call.result(60).status_code == 503
    assert len(handled) == 1


def test_call_that_cannot_be_sent_again_fails(pair, monkeypatch):
    leader, _, follower = pair
    key = keys.create(leader.database, "app", tuple(Scope), wall_time())
    missed: list[str] = []
    monkeypatch.setattr(leader.coordinator.forwarder.responder, "handle", missed.append)
    resent: list[str] = []

    def fail(_session: Session, call_id: str, _pending: object) -> None:
        resent.append(call_id)
        raise StorageFailed("does not respond")

    headers = {"Authorization": f"Bearer {key}"}
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(follower.post, "/sim/v1/devices", json={"endpoint_name": "sensor-1"}, headers=headers)
        until(lambda: missed)
        monkeypatch.setattr("mirror_server.extensions.postgresql.forwarding._send", fail)
        leader.coordinator.forwarder.announce_leader()
        assert call.result(60).status_code == 503
    assert resent == missed


def lead(services: Services, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the leader become the next one, with another token."""
    monkeypatch.setattr(services.coordinator.leadership._election, "token", token)
    services.database.write(lambda session: session.put_setting(LEADER, token))
    services.coordinator.forwarder.announce_leader()
