from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from statistics import correlation

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_sdk.object_definitions import IN_SENSOR_UNITS, lookup
from mirror_sdk.wire.object_definitions import NUMBERS
from mirror_server.core.timestamps import from_datetime
from mirror_server.extensions.simulator import models
from mirror_server.extensions.simulator.kinds import KINDS, integer_within, number_within

_MINUTE = 60_000
_DAY = 24 * 60 * _MINUTE
_FRIDAY = from_datetime(datetime(2026, 11, 20, tzinfo=UTC))

RANGES = {
    models.indoor_temperature: (17, 26),
    models.indoor_humidity: (30, 60),
    models.outdoor_temperature: (-10, 30),
    models.outdoor_humidity: (40, 100),
    models.air_pressure: (980, 1045),
    models.light_level: (0, 50_000),
    models.battery_level: (20, 100),
    models.lamp_on: (0, 1),
    models.lamp_on_seconds: (0, 24 * 3600),
    models.lamp_dimmer: (0, 100),
    models.plug_power: (0, 200),
    models.plug_energy: (0, 20_000_000),
    models.door_open: (0, 1),
    models.door_openings: (0, 100_000),
    models.set_point: (17.5, 22),
    models.heated_temperature: (17, 22.5),
}

keys = st.builds("{}/{}".format, st.integers(0, 2**64), st.integers(0, 10_000))
instants = st.integers(from_datetime(datetime(2020, 1, 1, tzinfo=UTC)), from_datetime(datetime(2040, 1, 1, tzinfo=UTC)))


@settings(max_examples=300)
@given(model=st.sampled_from(list(RANGES)), key=keys, at=instants)
def test_model_returns_the_same_plausible_number_for_the_same_instant(model, key, at):
    text = model(key, at)
    lowest, highest = RANGES[model]
    assert lowest <= float(text) <= highest
    assert model(key, at) == text


@settings(max_examples=40)
@given(key=keys, at=instants)
def test_writable_values_include_measured_values(key, at):
    rules = [rule for kind in KINDS for rule in kind.rules.values() if rule.model]
    assert {rule.model for rule in rules} == set(RANGES)
    assert all(rule.accepts(rule.model(key, at)) for rule in rules if rule.accepts)


def test_every_number_of_a_device_has_a_unit():
    for kind in KINDS:
        for path in kind.rules:
            definition = lookup(path)
            instance = path.rpartition("/")[0]
            if definition.type in NUMBERS:
                assert definition.unit or (
                    definition.resource_id in IN_SENSOR_UNITS and f"{instance}/5701" in kind.rules
                ), path


@settings(max_examples=60)
@given(st.sampled_from([models.door_openings, models.plug_energy]), keys, instants, st.integers(0, 10 * _DAY))
def test_counter_never_decreases(counter, key, at, later):
    assert float(counter(key, at)) <= float(counter(key, at + later))


@settings(max_examples=60)
@given(key=keys, at=instants)
def test_room_reaches_its_set_point_within_two_hours(key, at):
    settled = {models.set_point(key, at - minutes * _MINUTE) for minutes in range(0, 121, 20)}
    if len(settled) == 1:
        assert abs(float(models.heated_temperature(key, at)) - float(settled.pop())) <= 0.4


def _day_of(model, key: str = "7/0", step: int = 10 * _MINUTE) -> list[float]:
    return [float(model(key, at)) for at in range(_FRIDAY, _FRIDAY + _DAY, step)]


def test_door_opens_twelve_times_on_working_days_only():
    minutes = range(_FRIDAY, _FRIDAY + 3 * _DAY, _MINUTE)
    states = [models.door_open("7/4", at) for at in minutes]
    counted = [int(models.door_openings("7/4", at)) for at in minutes]
    for (before, after), (earlier, later) in zip(pairwise(states), pairwise(counted), strict=True):
        assert later - earlier == ((before, after) == ("0", "1"))
    saturday = minutes.index(_FRIDAY + _DAY)
    assert counted[saturday] - counted[0] == 12
    assert set(states[saturday:]) == {"0"}


def test_battery_falls_by_one_percent_in_nine_days():
    levels = [int(models.battery_level("7/0", _FRIDAY + day * _DAY)) for day in range(30)]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] - levels[-1] in {3, 4}


def test_energy_is_sum_of_power():
    used = float(models.plug_energy("7/3", _FRIDAY + _DAY)) - float(models.plug_energy("7/3", _FRIDAY))
    drawn = sum(_day_of(models.plug_power, "7/3", _MINUTE)) / 60
    assert used == pytest.approx(drawn, rel=0.03)


def test_lamp_counter_matches_time_on():
    on_minutes = sum(_day_of(models.lamp_on, "7/2", _MINUTE))
    assert abs(float(models.lamp_on_seconds("7/2", _FRIDAY + _DAY - 1)) / 60 - on_minutes) <= 1


def test_devices_with_different_keys_have_different_values():
    first, *others = (_day_of(models.indoor_temperature, key) for key in ("7/0", "7/6", "8/0"))
    assert first not in others


def test_number_must_be_plain_and_in_range():
    for text in ("", "abc", "nan", "inf", "1_0", " 20", "20 ", "٢٠", "4.9", "35.1", "2e1", "20."):
        assert not number_within(5, 35)(text)
    for integer_text in ("", "50.0", "-1", "101", "9" * 5000):
        assert not integer_within(0, 100)(integer_text)


def test_afternoons_are_warmer_than_nights_and_humidity_falls_as_it_gets_warmer():
    for temperature, humidity in (
        (models.indoor_temperature, models.indoor_humidity),
        (models.outdoor_temperature, models.outdoor_humidity),
    ):
        day = _day_of(temperature)
        assert sum(day[84:96]) > sum(day[12:24])  # 14:00 to 16:00, 2:00 to 4:00
        assert correlation(day, _day_of(humidity)) < -0.5
