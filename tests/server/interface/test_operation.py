"""Readiness of the server, and logs of keys without access to notifications."""

import threading

from mirror_sdk.wire.errors import ErrorBody
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import logs
from mirror_server.views.deferred_responses import DEFER


def test_server_that_cannot_store_is_not_ready_and_probes_share_one_write(server, monkeypatch):
    monkeypatch.setattr("mirror_server.views.operation._READY_TIMEOUT_SECONDS", 0.05)
    blocked, go_on = threading.Event(), threading.Event()
    server.services.database.submit(lambda _: (blocked.set(), go_on.wait(60)))
    assert blocked.wait(60)
    before = server.services.database.count_waiting()
    deferred_responses = []
    for _ in range(50):
        server.call(None, "GET", "/readyz", environ_overrides={DEFER: deferred_responses.append})
    assert server.call(None, "GET", "/healthz").status_code == 200
    response = server.call(None, "GET", "/readyz")
    assert server.services.database.count_waiting() == before + 1
    go_on.set()
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert ErrorBody.model_validate(response.json, extra="forbid").type == "unavailable"
    assert [deferred.future.result(60) for deferred in deferred_responses] == [None] * 50
    response = server.call(None, "GET", "/readyz")
    assert (response.status_code, response.json) == (200, {"status": "ready"})


def test_key_without_access_to_notifications_has_no_log(server):
    operator = keys.create(server.services.database, "operator", [Scope.ADMIN], server.now)
    assert server.call(operator, "GET", "/v3/api-keys/me").status_code == 200
    assert server.services.database.settle(60)
    with server.services.database.read() as session:
        assert logs.applications(session) == []
