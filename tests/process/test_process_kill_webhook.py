"""``kill -9`` while a webhook is fed: the application gets its whole log in order, whatever was killed in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import pytest
from process_load import SWITCH, Load, pending_without_command
from process_receiver import Receiver, numbers_of, register
from process_server import CALLS_THIS_MACHINE, ServerProcess, run_command, wait_until

pytestmark = pytest.mark.process

KILLS = 5
TEMPERATURE = "/3303/0/5700"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(3)
    yield made
    made.close()


def test_a_webhook_gets_the_whole_log_in_order_over_many_kills(start_server, receiver: Receiver) -> None:
    chance = random.Random(11)
    server: ServerProcess = start_server("--simulate", "0", *CALLS_THIS_MACHINE)
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
        wait_until(partial(enough, accepted() + chance.randint(1, 60)), "requests to be accepted")
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
    wait_until(lambda: len(application.responses()) >= len(placed), "all async responses")
    numbers = numbers_of(application)
    log = list(numbers)
    wait_until(lambda: log[-1] in {uid for batch in receiver.batches for uid in batch}, "the webhook to get all")

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
