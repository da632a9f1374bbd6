"""The temperature of a room follows its set-point, which a write changes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resource_paths import SET_POINT, TEMPERATURE

from mirror_server.devices.interface import Content, Observe, Outcome, Write
from mirror_server.extensions.simulator import models
from mirror_server.extensions.simulator.device import SimulatedDevice, seeded_device

THERMOSTAT = 5
MINUTE, HOUR = 60_000, 3_600_000
BEGIN_AT = 1_795_176_000_000
"""An afternoon during which the curve of the set-point is constant for hours."""

NOISE = 0.35
"""The noise of a room, and the rounding error."""

numbers = st.integers(50, 350).map(lambda tenths: f"{tenths / 10:.1f}")


@pytest.fixture
def room(world) -> str:
    return world.seeded("thermostat-01")


def write(world, room, celsius: str) -> None:
    assert world.send(room, Write(SET_POINT, Content(celsius.encode()))).outcome is Outcome.DONE


def celsius(world, room) -> float:
    return float(world.value(room, TEMPERATURE))


def test_room_warms_up_and_cools_down_after_undo(world, room):
    before, undone = celsius(world, room), world.value(room, SET_POINT)
    world.send(room, Observe(TEMPERATURE))
    write(world, room, "28.0")
    assert celsius(world, room) == before, "nothing is measured between two measurements"
    world.advance(30 * 60)
    half_way = celsius(world, room)
    assert before + 2 < half_way < 27
    world.advance(3 * 3600)
    assert abs(celsius(world, room) - 28) <= NOISE
    sent = [float(value) for value in world.diary.values(TEMPERATURE)]
    assert len(sent) > 30
    assert abs(sent[-1] - 28) <= NOISE
    write(world, room, undone)
    world.advance(3 * 3600)
    assert abs(celsius(world, room) - float(undone)) <= NOISE


def test_room_temperature_survives_a_restart(world, room):
    write(world, room, "28")
    world.advance(1200)
    write(world, room, "6")
    world.advance(600)
    before = celsius(world, room)
    world.restart()
    assert celsius(world, room) == before
    world.advance(3 * 3600)
    assert abs(celsius(world, room) - 6) <= NOISE


def test_different_rooms_have_different_temperatures(world):
    world.simulator.start(12)
    first, second = world.id_of("thermostat-01"), world.id_of("thermostat-02")
    before = celsius(world, second)
    # The knob of the device does the same as a write.
    world.simulator.set_value(first, SET_POINT, value="30")
    world.advance(3 * 3600)
    assert abs(celsius(world, first) - 30) <= NOISE
    assert abs(celsius(world, second) - before) <= 2 * NOISE


@settings(max_examples=40)
@given(st.integers(0, 50), st.integers(0, 10 * 24 * 60))
def test_room_without_setting_follows_model(number, minutes):
    device = seeded_device(7, THERMOSTAT + 6 * number, BEGIN_AT)
    reading = device.reading(TEMPERATURE, BEGIN_AT + minutes * MINUTE)
    assert reading.text == models.heated_temperature(device.key, reading.measured_at)


@settings(max_examples=40)
@given(st.lists(st.tuples(numbers, st.integers(0, 4 * HOUR)), min_size=1, max_size=6))
def test_room_stays_between_start_and_set_point(steps):
    device, now = seeded_device(7, THERMOSTAT, BEGIN_AT), BEGIN_AT
    for text, waits in steps:
        before = device.reading(TEMPERATURE, now)
        device.set_value(SET_POINT, text, now)
        assert device.reading(TEMPERATURE, now) == before
        began = float(before.text)
        now += waits
        after = float(device.reading(TEMPERATURE, now).text)
        assert min(began, float(text)) - 2 * NOISE <= after <= max(began, float(text)) + 2 * NOISE
        assert SimulatedDevice.from_json(device.to_json()) == device


@pytest.mark.parametrize("text", ["warm", "", "nan", "1" * 400, "99", None])
def test_invalid_or_removed_set_point_leaves_room_to_model(world, room, text):
    untouched = SimulatedDevice.from_json(world.shelf.documents[room])
    if text is None:
        write(world, room, "30")
        world.simulator.remove_resource(room, SET_POINT)
    else:
        world.simulator.set_value(room, SET_POINT, value=text)
    world.advance(3600)
    assert world.value(room, TEMPERATURE) == untouched.reading(TEMPERATURE, world.clock.now()).text
