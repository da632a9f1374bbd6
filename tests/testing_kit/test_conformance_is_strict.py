"""The conformance tests detect every single mistake of a server."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from mirror_sdk.testing.in_process import InProcessServer

ROOT = Path(__file__).parents[2]
RULES, OBJECT, REQUESTS, SUBSCRIPTIONS, NOTIFICATIONS, DIRECTORY, OLDER = (
    f"mirror_sdk.testing.conformance.test_conforms_{part}"
    for part in (
        "rules",
        "device_object",
        "device_requests",
        "subscriptions",
        "notifications",
        "directory",
        "older_calls",
    )
)


class Exchange:
    """A request and its response, which the test changes for the worse."""

    def __init__(self, environ: dict[str, Any], status: int, headers: dict[str, str], body: bytes) -> None:
        self.method: str = environ["REQUEST_METHOD"]
        self.path: str = environ["PATH_INFO"]
        self.query: str = environ["QUERY_STRING"]
        self.status = status
        self.headers = headers
        self.body = body

    def edit(self, change: Callable[[Any], None]) -> None:
        """Change the JSON of a body that has one."""
        if self.body and self.headers.get("Content-Type") == "application/json":
            content = json.loads(self.body)
            change(content)
            self.body = json.dumps(content).encode()

    def edit_resources(self, change: Callable[[Any], None]) -> None:
        """Change each resource of a device object."""
        if self.path.endswith("/echo") and self.status == 200:
            self.edit(lambda content: [change(resource) for resource in content["resources"]])

    def edit_entries(self, kind: str, change: Callable[[Any], None]) -> None:
        """Change each entry of notification messages."""
        if self.path.endswith("/pull") and self.status == 200:
            self.edit(lambda content: [change(entry) for entry in content.get(kind, [])])


def replace_status(code: int, other: int) -> Callable[[Exchange], None]:
    def spoil(exchange: Exchange) -> None:
        exchange.status = other if exchange.status == code else exchange.status

    return spoil


def lose_request_ids(exchange: Exchange) -> None:
    exchange.headers.pop("X-Request-ID")


def write_status_as_a_word(exchange: Exchange) -> None:
    words = ["pending", "success", "failure"]
    exchange.edit_resources(
        lambda resource: resource["desired"] and resource["desired"].update(status=words[resource["desired"]["status"]])
    )


def write_times_with_an_offset(exchange: Exchange) -> None:
    if exchange.path.endswith("/echo"):
        exchange.edit(lambda content: content.update(created_at="2026-01-05T08:00:00+00:00"))


def send_payloads_in_the_clear(exchange: Exchange) -> None:
    exchange.edit_entries("async-responses", lambda entry: entry.update(payload="21.5"))


def lose_error_categories(exchange: Exchange) -> None:
    exchange.edit_entries("async-responses", lambda entry: entry.pop("error", None))


def count_cursors_wrong(exchange: Exchange) -> None:
    if exchange.query.startswith("after=") and exchange.status == 200:
        exchange.headers["Mirror-Cursor"] = str(int(exchange.headers["Mirror-Cursor"]) + 1)


def forget_rules(exchange: Exchange) -> None:
    if (exchange.method, exchange.path) == ("GET", "/v2/subscriptions"):
        exchange.body = b"[]"


def end_after_first_page(exchange: Exchange) -> None:
    if exchange.path == "/v3/devices" and exchange.status == 200:
        exchange.edit(lambda content: content.update(has_more=False))


def wake_all_endpoints(exchange: Exchange) -> None:
    if exchange.path == "/v2/endpoints":
        exchange.edit(lambda content: [endpoint.update(q=False) for endpoint in content])


def change_nothing(exchange: Exchange) -> None:
    pass


SPOILT = [
    (lose_request_ids, RULES, "test_each_response_has_a_request_id_of_its_own"),
    (replace_status(401, 403), RULES, "test_a_request_without_a_key_is_401"),
    (write_times_with_an_offset, OBJECT, "test_times_are_utc_with_milliseconds"),
    (replace_status(202, 200), REQUESTS, "test_a_read_is_accepted_under_its_async_id"),
    (replace_status(409, 202), REQUESTS, "test_a_repeated_request_is_queued_once"),
    (lose_error_categories, REQUESTS, "test_a_write_that_the_device_rejects_is_a_failure"),
    (write_status_as_a_word, REQUESTS, "test_a_write_is_pending_and_then_a_success"),
    (send_payloads_in_the_clear, REQUESTS, "test_a_read_returns_and_stores_the_value"),
    (forget_rules, SUBSCRIPTIONS, "test_a_put_replaces_all_rules"),
    (count_cursors_wrong, NOTIFICATIONS, "test_the_entries_are_numbered_without_a_gap"),
    (end_after_first_page, DIRECTORY, "test_pages_follow_each_other_in_both_orders"),
    (wake_all_endpoints, OLDER, "test_an_endpoint_in_queue_mode_is_marked"),
    (replace_status(205, 200), OLDER, "test_cache_only_reads_the_mirror"),
]


class SpoiltServer:
    """A WSGI wrapper around a real server that corrupts its responses."""

    def __init__(self, folder: Path, spoil: Callable[[Exchange], None]) -> None:
        folder.mkdir()
        self.folder = folder
        self._server = InProcessServer(folder)
        self._spoil = spoil
        self.key = self._server.new_key(["read", "write", "subscribe", "admin"])
        self._http = make_server("127.0.0.1", 0, self._respond, threaded=True)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self._server.stop()

    def _respond(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        heads: list[Any] = []
        chunks = self._server.app(environ, lambda *head: heads.append(head))
        body = b"".join(chunks)
        if hasattr(chunks, "close"):
            # Like a server: notify the code that waits for the end of the response.
            chunks.close()
        status, headers = int(heads[0][0][:3]), dict(heads[0][1])
        exchange = Exchange(environ, status, headers, body)
        self._spoil(exchange)
        exchange.headers["Content-Length"] = str(len(exchange.body))
        start_response(f"{exchange.status} Spoilt", list(exchange.headers.items()))
        yield exchange.body


def judge(server: SpoiltServer, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *tests: str) -> Any:
    """Return the result of the conformance tests for a server."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("API_HOST", server.url)
    monkeypatch.setenv("API_KEY", server.key)
    plugin = ["-p", "mirror_sdk.testing.plugin", "-p", "no:cacheprovider"]
    return pytester.runpytest_inprocess("-q", "-rfs", "--tb=short", "--maxfail=20", *plugin, "--pyargs", *tests)


def test_the_wrapped_server_conforms_if_nothing_is_spoilt(pytester, monkeypatch, tmp_path):
    server = SpoiltServer(tmp_path / "well", change_nothing)
    try:
        said = judge(server, pytester, monkeypatch, "mirror_sdk.testing.conformance")
    finally:
        server.close()
    assert said.ret == 0, said.stdout.str()
    assert "skipped" not in said.stdout.str()


@pytest.mark.parametrize(
    ("spoil", "module", "test"), SPOILT, ids=[f"{number}-{test}" for number, (_, _, test) in enumerate(SPOILT)]
)
def test_a_spoilt_response_is_detected(pytester, monkeypatch, tmp_path, spoil, module, test):
    server = SpoiltServer(tmp_path / "spoilt", spoil)
    try:
        said = judge(server, pytester, monkeypatch, f"{module}::{test}")
    finally:
        server.close()
    assert said.ret == pytest.ExitCode.TESTS_FAILED, said.stdout.str()
    assert f"::{test}" in said.stdout.str()
