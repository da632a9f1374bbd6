"""An application with a webhook, and checks of the messages that it receives."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from email.message import Message as Headers
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from process_server import Application, wait_until

Message = dict[str, list[dict[str, Any]]]


class CallbackServer:
    """A callback endpoint.

    Args:
        take: A function that is called with each message and its headers, on a separate thread. It returns the status.
    """

    def __init__(self, take: Callable[[Message, Headers], int]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                status = take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), self.headers)
                try:
                    self.send_response(status)
                    self.end_headers()
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/callback"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Receiver(CallbackServer):
    """An application's callback endpoint, which is slow and sometimes fails."""

    def __init__(self, seed: int) -> None:
        self.batches: list[list[str]] = []
        self.unexpected: list[str] = []
        chance, lock = random.Random(seed), threading.Lock()

        def take(message: Message, headers: Headers) -> int:
            uids = [entry["uid"] for entries in message.values() for entry in entries]
            if "x-round" not in headers:
                self.unexpected.append(str(headers))
            with lock:
                fails = bool(uids) and chance.random() < 0.02
                if uids and not fails:
                    self.batches.append(uids)
            return 500 if fails else 204

        super().__init__(take)


def register(application: Application, receiver: Receiver, number: int) -> dict[str, object]:
    """Register the webhook again, with a header that distinguishes the registrations."""
    serialization = {"type": "v2", "max_chunk_size": 7, "cfg": {"include_uid": True}}
    body = {"url": receiver.url, "headers": {"x-round": str(number)}, "serialization": serialization}
    answer = application.http.put("/v2/notification/callback", json=body)
    assert answer.status_code == 204, answer.text
    return body


def numbers_of(application: Application) -> dict[str, int]:
    """Return the number of each entry of the log by its uid, in order. A message would list them by kind."""
    last = int(application.poll(after="latest", hold=0).headers["Mirror-Cursor"])
    found: dict[str, int] = {}
    number = 0
    with application.http.stream("GET", "/v2/notification/events?after=0") as stream:
        for line in stream.iter_lines():
            if line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            elif line.startswith("data: "):
                found[json.loads(line.removeprefix("data: "))["uid"]] = number
                if number == last:
                    return found
    raise AssertionError("the stream ended")


def check_webhook(application: Application, receiver: Receiver) -> int:
    """Check that it received the entire log in order; return the number of repeated messages, as after a kill."""
    numbers = numbers_of(application)
    last = list(numbers)[-1]
    wait_until(lambda: last in {uid for batch in receiver.batches for uid in batch}, "the webhook to get all")
    assert receiver.unexpected == []
    repeated = reached = 0
    for batch in receiver.batches:
        found = [numbers[uid] for uid in batch]
        assert sorted(found) == list(range(min(found), min(found) + len(found)))
        assert min(found) <= reached + 1, "a hole"
        repeated += min(found) <= reached
        reached = max(reached, *found)
    assert reached == len(numbers)
    return repeated
