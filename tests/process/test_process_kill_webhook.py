"""``kill -9`` while a webhook is fed: the application gets its whole log in order, whatever was killed in between."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from process_load import SWITCH, Load, pending_without_command
from process_server import Application, ServerProcess, run_command, wait_until

pytestmark = pytest.mark.process

KILLS = 20
TEMPERATURE = "/3303/0/5700"


class Receiver:
    """An application's callback endpoint; it takes its time, and sometimes fails."""

    def __init__(self, seed: int) -> None:
        self.batches: list[list[str]] = []
        self.unexpected: list[str] = []
        chance, lock, receiver = random.Random(seed), threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                uids = [entry["uid"] for entries in message.values() for entry in entries]
                if "x-round" not in self.headers:
                    receiver.unexpected.append(str(self.headers))
                with lock:
                    fails = bool(uids) and chance.random() < 0.02
                    if uids and not fails:
                        receiver.batches.append(uids)
                try:
                    self.send_response(500 if fails else 204)
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


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(3)
    yield made
    made.close()


def register(application: Application, receiver: Receiver, number: int) -> dict[str, object]:
    """Put the webhook anew, with something in it that tells one registration from the other."""
    serialization = {"type": "v2", "max_chunk_size": 7, "cfg": {"include_uid": True}}
    body = {"url": receiver.url, "headers": {"x-round": str(number)}, "serialization": serialization}
    answer = application.http.put("/v2/notification/callback", json=body)
    assert answer.status_code == 204, answer.text
    return body


def numbers_of(application: Application) -> dict[str, int]:
    """The number of each entry of the log by its uid, in order; a message would list them by kind."""
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


def test_a_webhook_gets_the_whole_log_in_order_over_many_kills(start_server, receiver: Receiver) -> None:
    chance = random.Random(11)
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    device_ids = [
        application.add_device(
            f"load-{number}",
            {"path": SWITCH, "value": "0", "writable": True, "observable": True},
            {"path": TEMPERATURE, "value": "0", "observable": True},
        )
        for number in range(3)
    ]
    application.patch_device(device_ids[1], latency_seconds=0.01)
    callback = register(application, receiver, 0)
    loads = [Load(server, application.key, device_id, seed) for seed, device_id in enumerate(device_ids)]

    def accepted() -> int:
        return sum(len(load.accepted) for load in loads)

    def enough(wanted: int) -> bool:
        return accepted() >= wanted

    for number in range(1, KILLS + 1):
        rules = [{"endpoint-type": f"round-{number}"}]
        if number % 3 == 0:
            callback = register(application, receiver, number)
        application.json("PUT", "/v2/subscriptions", json=rules)
        path = f"/v2/subscriptions/{device_ids[number % 3]}{(SWITCH, TEMPERATURE)[number % 2]}"
        assert application.http.put(path).status_code == 200
        wait_until(partial(enough, accepted() + chance.randint(1, 60)), "requests to be accepted", seconds=20)
        server.kill()
        assert pending_without_command(server) == []
        server.start()
        assert application.json("GET", "/v2/subscriptions") == rules
        assert application.json("GET", "/v2/notification/callback") == callback
        assert application.http.get(path).status_code == 200
    for load in loads:
        load.stop()
    assert [load.unexpected for load in loads] == [[]] * 3

    placed = [async_id for load in loads for async_id in load.accepted]
    wait_until(lambda: len(application.responses()) >= len(placed), "all async responses", seconds=30)
    numbers = numbers_of(application)
    log = list(numbers)
    wait_until(lambda: log[-1] in {uid for batch in receiver.batches for uid in batch}, "the webhook to get all", 60)

    assert {async_id: len(found) for async_id, found in application.responses().items()} == dict.fromkeys(placed, 1)
    assert receiver.unexpected == []
    assert list(numbers.values()) == list(range(1, len(log) + 1))
    repeated = 0
    reached = 0
    for batch in receiver.batches:
        found = [numbers[uid] for uid in batch]
        assert sorted(found) == list(range(min(found), min(found) + len(found)))
        assert len(found) <= 7
        assert min(found) <= reached + 1, "a hole"
        repeated += min(found) <= reached
        reached = max(reached, *found)
    assert reached == len(log)
    # Only what was under way when the server was killed comes again.
    assert repeated <= KILLS
    assert server.stop() == 0
    assert "Traceback" not in server.stderr
    assert run_command("check", "--database", server.database_url).stdout == "all is well\n"
