"""The metrics for Prometheus."""

import pytest
from asgi_requests import check_off_the_loop
from operator_commands import done
from prometheus_client.parser import text_string_to_metric_families

from mirror_server.core.errors import CannotServe
from mirror_server.service.keys import Scope
from mirror_server.store import logs


@pytest.fixture
def metric(server):
    """Return a function that reads a metric by its name and labels."""
    scraper = server.key(Scope.ADMIN)

    def read(name, **labels):
        answer = server.call(scraper, "GET", "/metrics")
        assert answer.mimetype == "text/plain"
        return sum(
            sample.value
            for family in text_string_to_metric_families(answer.get_data(as_text=True))
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    return read


def test_requests_are_counted_by_their_rule_and_status(server, key, device, metric):
    for _ in range(3):
        server.call(key, "GET", f"/v3/devices/{device}/echo")
    server.call(key, "GET", "/v3/devices/nobody/echo")
    rule = {"method": "GET", "route": "/v3/devices/<device_id>/echo"}
    assert metric("mirror_requests_total", **rule, status="200") == 3
    assert metric("mirror_requests_total", **rule, status="404") == 1
    assert metric("mirror_request_seconds_count", **rule) == 4
    assert 0 < metric("mirror_request_seconds_sum", **rule) < 10
    for path in ("/a", "/b", "/v3/devices"):
        server.call(key, "STRANGE", path)
    assert metric("mirror_requests_total", method="", route="") == 3
    assert metric("mirror_requests_total", method="STRANGE") == 0


def test_devices_queues_and_logs_are_counted(server, key, device, metric):
    deregistered = server.add_device(key, "gone")
    server.registration(key, deregistered, "DELETE")
    server.patch(key, device, online=False)
    before = metric("mirror_notification_log_bytes"), metric("mirror_notification_log_entries")
    for number in range(3):
        assert server.submit(key, device, f"r{number}", "GET", "/3303/0/5700").status_code == 202
    assert metric("mirror_devices", state="registered") == 1
    assert metric("mirror_devices", state="deregistered") == 1
    assert metric("mirror_waiting_device_requests") == 3
    assert metric("mirror_longest_device_queue") == 3
    server.patch(key, device, online=True)
    assert metric("mirror_waiting_device_requests") == 0
    assert metric("mirror_notification_log_bytes") > before[0]
    assert metric("mirror_notification_log_entries") == before[1] + 3


def test_open_polls_and_failing_webhooks_are_counted(server, key, metric):
    polls, app_id = server.services.polls, key.split("_")[1]
    more = polls.open("somebody")
    assert metric("mirror_open_polls") == 1
    polls.close("somebody", more)
    assert metric("mirror_open_polls") == metric("mirror_webhooks") == 0

    def fail(session):
        logs.put_webhook(session, app_id, "{}", at=0)
        logs.webhook_failed(session, app_id, failures=4, error="no answer", at=0, next_attempt_at=0)

    server.services.database.write(fail)
    names = ("mirror_webhooks", "mirror_failing_webhooks", "mirror_webhook_failures")
    assert [metric(name) for name in names] == [1, 1, 4]
    server.add_device(key, "d")
    assert metric("mirror_webhook_backlog_entries") == len(server.log(key))


def test_restored_database_has_the_same_counter_values(server, key, metric):
    def counted():
        names = ("notification_log_entries", "notification_log_bytes", "webhooks", "webhook_backlog_entries")
        return [metric(f"mirror_{name}") for name in names]

    def put(session):
        logs.put_webhook(session, key.split("_")[1], '{"url":"http://127.0.0.1:1/"}', at=0)

    server.add_device(key, "d")
    server.services.database.write(put)
    before = counted()
    assert all(before)
    server.services.close()
    done(server.settings.database_url, "mark-restored")
    server.open()
    assert counted() == before


@pytest.mark.anyio
async def test_loop_serves_others_while_metrics_are_counted(server, key, bridge):
    await check_off_the_loop(server, bridge, key, "/metrics")


@pytest.mark.parametrize("name", ["mirror_devices", "mirror_requests", "python_info"])
def test_metric_name_conflict_with_the_server_prevents_the_start(install, new_server, name):
    install(
        "greeting",
        f"""
from mirror_server.hooks import Measurement, extends


@extends
def measurements():
    return [Measurement("{name}", "Another one.", 1)]
""",
    )
    why = f"the server and the extension greeting both have the metric {name}; rename"
    with pytest.raises(CannotServe, match=why):
        new_server()
