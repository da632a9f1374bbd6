"""Access to the server under test over plain HTTP, with checks that apply to every response."""

from __future__ import annotations

import base64
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.routes import CURSOR_HEADER, PULL, REQUEST_ID_HEADER

PATIENCE_SECONDS = 20.0
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")

Entry = dict[str, Any]


def encoded(text: str) -> str:
    """Encode a payload for JSON."""
    return base64.b64encode(text.encode()).decode()


def decoded(payload: object) -> bytes:
    """Decode a payload in strict base64. Source: wire.md 1, 5."""
    assert isinstance(payload, str), f"a payload is a string, not {payload!r}"
    assert _BASE64.fullmatch(payload), f"{payload!r} is not base64"
    return base64.b64decode(payload)


def new_async_id() -> str:
    """Return an unused async-id."""
    return f"conformance-{uuid.uuid4().hex}"


def in_words(response: httpx.Response) -> str:
    """Describe the response for the error message of a failed test."""
    return f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text}"


class Service:
    """A server, and the access key of one application.

    Args:
        url: The address of the server.
        key: The access key.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self.http: httpx.Client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, follow_redirects=True
        )
        self._received: list[tuple[str, Entry]] = []

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request and return the response.

        The response must have a request id, and a body of JSON or a list of paths. Source: wire.md 0.
        """
        response = self.http.request(method, path, **options)
        assert response.headers.get(REQUEST_ID_HEADER), f"no {REQUEST_ID_HEADER}: {in_words(response)}"
        assert response.status_code < 500, in_words(response)
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        assert not response.content or kind in {"application/json", "text/uri-list"}, in_words(response)
        return response

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request that must succeed, and return the JSON of the response."""
        response = self.call(method, path, **options)
        assert response.is_success, in_words(response)
        return response.json()

    def rejected(self, code: int, method: str, path: str, **options: Any) -> Any:
        """Send a request that must be rejected with this status, and return the error body. Source: wire.md 0."""
        response = self.call(method, path, **options)
        assert response.status_code == code, in_words(response)
        body = response.json()
        assert (body["object"], body["code"]) == ("error", code)
        assert body["type"] in {ERROR_TYPES[code], *(["validation_error"] if code == 400 else [])}
        assert body["message"]
        assert all(isinstance(one["name"], str) and isinstance(one["message"], str) for one in body["fields"])
        assert _REQUEST_ID.fullmatch(body["request_id"])
        assert body["request_id"] == response.headers[REQUEST_ID_HEADER]
        return body

    def submit(self, device_id: str, method: str, path: str, async_id: str, **members: Any) -> httpx.Response:
        """Submit a device request. ``value`` is a string to write. Source: specification E2; wire.md 2."""
        if "value" in members:
            members["payload-b64"] = encoded(members.pop("value"))
        body = {"method": method, "uri": path, **members}
        return self.call("POST", f"/v2/device-requests/{device_id}", params={"async-id": async_id}, json=body)

    def begin(self, device_id: str, method: str, path: str, **members: Any) -> str:
        """Submit a device request that must be accepted, and return the async-id."""
        async_id = new_async_id()
        response = self.submit(device_id, method, path, async_id, **members)
        assert response.status_code == 202, in_words(response)
        return async_id

    def outcome(self, async_id: str) -> Entry:
        """Wait for the async response of a request, and return it. Source: specification 6; wire.md 5."""
        response: Entry = self.wait_for("async-responses", lambda entry: entry["id"] == async_id)
        return response

    def perform(self, device_id: str, method: str, path: str, **members: Any) -> Entry:
        """Submit a device request, and return its async response."""
        return self.outcome(self.begin(device_id, method, path, **members))

    def resource(self, device_id: str, path: str) -> Entry:
        """Return one resource of the device object."""
        listed = self.json("GET", f"/v3/devices/{device_id}/echo")["resources"]
        found: Entry = next(resource for resource in listed if resource["resource_path"] == path)
        return found

    def wait_for(self, kind: str, is_match: Callable[[Any], bool]) -> Any:
        """Poll until an entry of this kind matches, and return that entry. Source: wire.md 4."""
        end_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end_at:
            found = [entry for entry in self.received(kind) if is_match(entry)]
            if found:
                return found[0]
            self._poll(hold=2)
        message = f"no entry in {kind} matched within {PATIENCE_SECONDS} s; there are {self.received(kind)}"
        raise AssertionError(message)

    def received(self, kind: str) -> list[Any]:
        """Return the entries of this kind that were received so far."""
        return [entry for key, entry in self._received if key == kind]

    def poll_now(self) -> None:
        """Receive the entries that are available now."""
        self._poll(hold=0)

    def _poll(self, hold: int) -> None:
        response = self.call("GET", PULL, params={"hold": hold})
        assert response.status_code in {200, 204}, in_words(response)
        message = response.json() if response.status_code == 200 else {}
        self._received += [(kind, entry) for kind, entries in message.items() for entry in entries]

    def read_log(self, after: int | str, hold: int = 0) -> httpx.Response:
        """Poll from this position in the log, without changing the position that the server stores.

        Source: wire.md 4.
        """
        return self.call("GET", PULL, params={"after": after, "hold": hold})

    def log_end(self) -> int:
        """Return the number of the newest entry of the log."""
        return int(self.read_log("latest").headers[CURSOR_HEADER])

    def log_entries(self, after: int) -> Iterator[tuple[str, Any]]:
        """Return all entries after a position."""
        while (response := self.read_log(after)).status_code == 200:
            entries = [(kind, entry) for kind, listed in response.json().items() for entry in listed]
            cursor = int(response.headers[CURSOR_HEADER])
            assert len(entries) == cursor - after, "the numbers of the log have a gap, or the cursor is wrong"
            yield from entries
            after = cursor
