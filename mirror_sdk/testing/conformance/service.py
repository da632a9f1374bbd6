"""The server under test, as these tests talk to it: plain HTTP, with what holds of every answer checked on the way."""

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
    """A payload as it travels."""
    return base64.b64encode(text.encode()).decode()


def decoded(payload: object) -> bytes:
    """The payload, which is base64 and nothing else. Source: wire.md 1, 5."""
    assert isinstance(payload, str), f"a payload is a text, not {payload!r}"
    assert _BASE64.fullmatch(payload), f"{payload!r} is not base64"
    return base64.b64decode(payload)


def new_async_id() -> str:
    """An async-id nobody used."""
    return f"conformance-{uuid.uuid4().hex}"


class Service:
    """A server and the key of one application.

    Args:
        url: Its address.
        key: The key.
    """

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.http: httpx.Client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60, follow_redirects=True
        )
        self._received: list[tuple[str, Entry]] = []

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; its answer is named, and its body is JSON where it is no list of paths. Source: wire.md 0."""
        answer = self.http.request(method, path, **options)
        assert answer.headers.get(REQUEST_ID_HEADER), f"{method} {path}: the answer has no {REQUEST_ID_HEADER}"
        assert answer.status_code < 500, f"{method} {path}: {answer.status_code} {answer.text}"
        kind = answer.headers.get("Content-Type", "").partition(";")[0]
        assert not answer.content or kind in {"application/json", "text/uri-list"}, f"{method} {path}: {kind}"
        return answer

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of an answer that is a success."""
        answer = self.call(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def refused(self, code: int, method: str, path: str, **options: Any) -> Any:
        """The error body of an answer that has to be refused with this code. Source: wire.md 0."""
        answer = self.call(method, path, **options)
        assert answer.status_code == code, f"{method} {path}: {answer.status_code} instead of {code}; {answer.text}"
        body = answer.json()
        assert (body["object"], body["code"]) == ("error", code)
        assert body["type"] in {ERROR_TYPES[code], *(["validation_error"] if code == 400 else [])}
        assert body["message"]
        assert all(isinstance(one["name"], str) and isinstance(one["message"], str) for one in body["fields"])
        assert _REQUEST_ID.fullmatch(body["request_id"])
        assert body["request_id"] == answer.headers[REQUEST_ID_HEADER]
        return body

    def place(self, device_id: str, method: str, path: str, async_id: str, **members: Any) -> httpx.Response:
        """Place a device request; ``value`` is a text to write. Source: specification E2; wire.md 2."""
        if "value" in members:
            members["payload-b64"] = encoded(members.pop("value"))
        body = {"method": method, "uri": path, **members}
        return self.call("POST", f"/v2/device-requests/{device_id}", params={"async-id": async_id}, json=body)

    def outcome(self, async_id: str) -> Entry:
        """The async response of a request, waited for. Source: specification 6; wire.md 5."""
        response: Entry = self.wait_for("async-responses", lambda entry: entry["id"] == async_id)
        return response

    def ask(self, device_id: str, method: str, path: str, **members: Any) -> Entry:
        """Place a device request and wait for its async response."""
        async_id = new_async_id()
        answer = self.place(device_id, method, path, async_id, **members)
        assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
        return self.outcome(async_id)

    def resource(self, device_id: str, path: str) -> Entry:
        """One resource of E1."""
        listed = self.json("GET", f"/v3/devices/{device_id}/echo")["resources"]
        found: Entry = next(resource for resource in listed if resource["resource_path"] == path)
        return found

    def wait_for(self, kind: str, wanted: Callable[[Any], bool]) -> Any:
        """The first entry of this kind that is wanted, of all that came by plain polls. Source: wire.md 4."""
        end_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end_at:
            found = [entry for entry in self.received(kind) if wanted(entry)]
            if found:
                return found[0]
            self._poll(hold=2)
        message = f"no entry in {kind} that was wanted within {PATIENCE_SECONDS} s; there are {self.received(kind)}"
        raise AssertionError(message)

    def received(self, kind: str) -> list[Any]:
        """The entries of this kind that came so far."""
        return [entry for key, entry in self._received if key == kind]

    def look(self) -> None:
        """Take what has come by now."""
        self._poll(hold=0)

    def _poll(self, hold: int) -> None:
        answer = self.call("GET", PULL, params={"hold": hold})
        assert answer.status_code in {200, 204}, f"{answer.status_code} {answer.text}"
        message = answer.json() if answer.status_code == 200 else {}
        self._received += [(kind, entry) for kind, entries in message.items() for entry in entries]

    def read_log(self, after: int | str, hold: int = 0) -> httpx.Response:
        """A poll with a position of its own. Source: wire.md 4."""
        return self.call("GET", PULL, params={"after": after, "hold": hold})

    def log_end(self) -> int:
        """Number of the newest entry of the log."""
        return int(self.read_log("latest").headers[CURSOR_HEADER])

    def log_entries(self, after: int) -> Iterator[tuple[str, Any]]:
        """All entries behind a position."""
        while (answer := self.read_log(after)).status_code == 200:
            entries = [(kind, entry) for kind, listed in answer.json().items() for entry in listed]
            cursor = int(answer.headers[CURSOR_HEADER])
            assert len(entries) == cursor - after, "the numbers of the log have a hole, or the cursor is wrong"
            yield from entries
            after = cursor
