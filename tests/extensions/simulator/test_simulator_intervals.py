from __future__ import annotations

from itertools import pairwise
from unittest.mock import Mock

import pytest
from resource_paths import DOOR, HUMIDITY, TEMPERATURE

from mirror_server.devices.interface import (
    CancelObservation,
    Content,
    Execute,
    Observe,
    Outcome,
    Read,
    Write,
    WriteAttributes,
)

HALF_A_DAY = 12 * 3600


@pytest.fixture
def station(world) -> str:
    """A device that is always online. Its thermometer sends nothing without a subscription."""
    return world.seeded("weather-station-01", count=2)


@pytest.fixture
def thermometer(world) -> str:
    """A device that sleeps."""
    return world.seeded("thermometer-01")


def seconds_between(instants: list[int]) -> set[float]:
    return {(later - earlier) / 1000 for earlier, later in pairwise(instants)}


def test_observed_resource_is_sent_when_text_changed_at_its_period(world, station):
    world.advance(3600)
    assert world.diary.observations() == [], "nobody observes"
    first = world.send(station, Observe(TEMPERATURE)).content
    world.advance(3600)
    values = [first.payload.decode(), *world.diary.values(TEMPERATURE)]
    assert 10 < len(values) <= 61
    assert all(before != after for before, after in pairwise(values))
    assert {gap % 60 for gap in seconds_between(world.diary.times("observed"))} == {0}
    assert [o.changed_at for o in world.diary.observations()] == world.diary.times("observed")
    assert world.value(station, TEMPERATURE) == values[-1]


def test_changes_of_one_instant_are_in_one_call(world, station):
    world.send(station, Observe(TEMPERATURE))
    world.send(station, Observe(HUMIDITY))
    world.advance(3600)
    assert max(len(observations) for observations in world.diary.all("observed")) == 2
    assert len(set(world.diary.times("observed"))) == len(world.diary.times("observed"))


def test_canceled_observation_sends_nothing(world, station):
    world.send(station, Observe(TEMPERATURE))
    world.advance(600)
    sent = world.diary.values()
    assert world.send(station, CancelObservation(TEMPERATURE)).outcome is Outcome.DONE
    world.advance(3600)
    assert world.diary.values() == sent != []


def test_value_is_constant_between_measurements(world, station):
    world.send(station, Observe(TEMPERATURE))
    world.advance(120)
    measured = world.value(station, TEMPERATURE)
    changes = len(world.diary.observations())
    while len(world.diary.observations()) == changes:
        assert world.send(station, Read(TEMPERATURE)).content == Content(measured.encode())
        world.advance(1)
    assert world.value(station, TEMPERATURE) != measured


def test_command_at_measurement_does_not_delay_it(world, new_world):
    def sent(disturbed: bool) -> list[int]:
        world = new_world()
        station = world.seeded("weather-station-01")
        for second in range(601 if disturbed else 0):
            at = world.clock.now() + second * 1000
            world.clock.call_at(at, lambda: world.send(station, Observe("/3315/0/5700")))
        world.send(station, Observe(TEMPERATURE))
        world.advance(600)
        return [o.changed_at for o in world.diary.observations(TEMPERATURE)]

    assert sent(disturbed=True) == sent(disturbed=False) != []


def test_pmin_separates_notifications(world):
    """pmax sends a value that did not change."""
    device_id = world.add(temperature={"value": "20"})
    begin_at = world.clock.now()
    world.send(device_id, WriteAttributes(TEMPERATURE, "pmin=100&pmax=300"))
    world.send(device_id, Observe(TEMPERATURE))
    for value in ("21", "22", "23"):
        world.advance(10)
        world.simulator.set_value(device_id, TEMPERATURE, value=value)
    world.advance(700)
    assert world.diary.values(TEMPERATURE) == ["23"] * 3
    assert [(at - begin_at) / 1000 for at in world.diary.times("observed")] == [100, 400, 700]


def test_registration_is_updated_every_twelve_hours(world):
    device_id = world.add()
    world.advance(3 * HALF_A_DAY)
    assert world.diary.all("updated") == [(device_id, None)] * 3
    assert seconds_between(world.diary.times("updated")) == {HALF_A_DAY}
    world.simulator.set_behavior(device_id, online=False)
    world.advance(3 * HALF_A_DAY)
    assert len(world.diary.all("updated")) == 3


def test_sleeping_device_makes_contact_every_15_minutes(world):
    sleeping, always_on = world.add("sleeping", queue_mode=True), world.add("always on")
    world.advance(6 * 3600)
    assert world.diary.all("contact") == [sleeping] * 24
    assert seconds_between(world.diary.times("contact")) == {900}
    assert world.simulator.is_reachable(always_on)


def test_sleeping_device_is_reachable_for_ten_seconds_after_contact(world):
    def come_back() -> None:
        world.simulator.set_behavior(device_id, online=False)
        assert not world.simulator.is_reachable(device_id)
        world.simulator.set_behavior(device_id, online=True)

    def make_contact() -> None:
        contacts = len(world.diary.all("contact"))
        while len(world.diary.all("contact")) == contacts:
            world.advance(1)

    device_id = world.add(queue_mode=True)
    world.advance(10)
    register, update = world.simulator.register, world.simulator.update
    for wake in (lambda: register(device_id), lambda: update(device_id), come_back, make_contact):
        assert not world.simulator.is_reachable(device_id)
        wake()
        assert world.simulator.is_reachable(device_id)
        world.advance(9.999)
        assert world.simulator.is_reachable(device_id)
        world.advance(0.001)
    assert not world.simulator.is_reachable(device_id)


def test_sleeping_device_accepts_commands_during_contact(world, thermometer):
    take = Mock()
    world.diary.on_contact = lambda device_id: world.simulator.send(device_id, Read("/3/0/0"), take)
    world.advance(900)
    # The thermometer, and the door contact.
    assert [call.args[0].outcome for call in take.call_args_list] == [Outcome.DONE] * 2
    assert len(world.diary.all("contact")) == 2


def test_sleeping_device_reports_during_contact(world, thermometer):
    """There is no report at the due time of the update, if the device updated its registration earlier."""
    world.send(thermometer, Observe(TEMPERATURE))
    world.advance(HALF_A_DAY - 60)
    world.simulator.update(thermometer)
    world.advance(3600)
    kinds = {"contact": thermometer, "updated": (thermometer, None)}
    spoke = {at for name, at, what in world.diary.entries if what == kinds.get(name)}
    sent = {at for name, at, what in world.diary.entries if name == "observed" and what[0].device_id == thermometer}
    assert sent
    assert sent <= spoke


def test_auto_observable_resource_is_sent_without_subscription(world):
    world.simulator.start(6)
    values = [world.value(world.id_of("door-contact-01"), DOOR)]
    world.advance(24 * 3600)
    values += world.diary.values(DOOR)
    assert len(values) >= 5
    assert all(before != after for before, after in pairwise(values))
    assert {o.path for o in world.diary.observations()} == {DOOR}


def test_late_response_of_sleeping_device_arrives(world):
    device_id = world.add(queue_mode=True, temperature={"writable": True})
    world.simulator.set_behavior(device_id, latency_seconds=30)
    responses = world.send_all(device_id, Write(TEMPERATURE, Content(b"1")))
    world.advance(30)
    assert [response.outcome for response in responses] == [Outcome.DONE]


def test_silent_device_keeps_interval_after_execute(world, station):
    world.send(station, Observe(TEMPERATURE))
    world.send(station, Execute("/3/0/4", Content(b"")))
    world.simulator.set_behavior(station, answer="silent")
    world.advance(600)
    assert world.diary.values(TEMPERATURE)
