from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from resource_paths import TEMPERATURE

from mirror_server.devices.interface import Outcome, Read
from mirror_server.extensions.simulator.fleet import Outbox

WAIT_SECONDS = 60


def _run(*actions) -> None:
    with ThreadPoolExecutor(len(actions)) as threads:
        for done in [threads.submit(action) for action in actions]:
            done.result(WAIT_SECONDS)


def test_calls_of_several_threads_are_made_in_order():
    outbox, said = Outbox(), []
    calling, added = threading.Event(), threading.Event()

    def slow() -> None:
        calling.set()
        assert added.wait(WAIT_SECONDS)
        said.append("first")

    def first() -> None:
        outbox.add([slow])
        outbox.drain()

    def second() -> None:
        assert calling.wait(WAIT_SECONDS)
        number = outbox.add([lambda: said.append("second")])
        outbox.drain()
        assert said == []
        added.set()
        outbox.wait_until_called(number)
        assert said == ["first", "second"]

    _run(first, second)
    assert said == ["first", "second"]


def test_nested_drain_does_not_wait_for_itself(caplog):
    outbox, said = Outbox(), []

    def nested() -> None:
        number = outbox.add([lambda: said.append("inner")])
        outbox.drain()
        outbox.wait_until_called(number)
        said.append("outer")

    outbox.add([nested])
    outbox.drain()
    assert said == ["outer", "inner"]
    assert caplog.records == [], "a wait that takes too long is logged"


def test_failing_call_is_logged_and_others_continue(caplog):
    outbox, said = Outbox(), []
    number = outbox.add([lambda: 1 / 0, lambda: said.append("next")])
    outbox.drain()
    outbox.wait_until_called(number)
    assert said == ["next"]
    assert "ZeroDivisionError" in caplog.text


def test_last_value_of_service_is_that_of_device(world):
    device_id = world.add(temperature={"value": "start", "auto_observable": True})

    def change(name: str) -> None:
        for number in range(200):
            world.simulator.set_value(device_id, TEMPERATURE, value=f"{name}{number}")

    _run(*(lambda name=name: change(name) for name in "abcd"))
    values = world.diary.values(TEMPERATURE)
    assert len(values) == 800
    assert values[-1] == world.value(device_id, TEMPERATURE)


def test_calls_of_service_are_made_without_lock(world):
    device_id = world.add(temperature={"value": "20"})
    outcomes = []

    def read_on_another_thread(contacted: str) -> None:
        read = Read(TEMPERATURE), lambda answer: outcomes.append(answer.outcome)
        _run(lambda: world.simulator.send(contacted, *read), world.simulator.list_states)

    world.diary.on_contact = read_on_another_thread
    world.simulator.set_behavior(device_id, online=False)
    world.simulator.set_behavior(device_id, online=True)
    assert outcomes == [Outcome.DONE]
