"""The measured values of simulated devices over time, as pure functions of a device's key and the time.

The models have no state. Each random number is a hash of the key, the name of the quantity and a time step. So the
values continue on the same curves after a restart of the simulator. Days and hours are in UTC.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mirror_server.core.timestamps import Instant

Model: TypeAlias = Callable[[str, Instant], str]
"""A function that returns a value as a string, for the key of a device and a time."""

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_FIRST_MONDAY = 18_267
"""The day on which the counters start, 2020-01-06, in days since 1970-01-01."""

_POWER_PROFILE_WATTS = (2, 2, 2, 2, 2, 5, 40, 65, 30, 12, 12, 45, 70, 35, 12, 12, 15, 40, 90, 110, 95, 80, 45, 8)
"""The mean power of a plug in watts, for each hour of a day."""

_OPENINGS_A_DAY = 12
_OPENING_WINDOW = 50 * _MINUTE
_WORK_BEGINS = 8 * _HOUR

_ROOM_SETTLES = 30 * _MINUTE
"""The time in which a room covers 63 percent of the difference to a new set-point."""


def draw(key: str, name: str, step: int = 0) -> float:
    """Return a random number from 0 up to but excluding 1. The same arguments always give the same number."""
    digest = hashlib.blake2b(f"{key}/{name}/{step}".encode(), digest_size=8).digest()
    # The upper 53 bits are used, because a float represents them exactly.
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def _jitter(key: str, name: str, at: Instant) -> float:
    """Return the noise of a single measurement, from -1 to 1."""
    return 2 * draw(key, name, at) - 1


def _sway(key: str, name: str, at: Instant, step: int) -> float:
    """Return slow noise from -1 to 1. It is a smooth curve through one random point every ``step`` milliseconds."""
    number, rest = divmod(at, step)
    share = rest / step
    # A cubic curve has no bend at the random points.
    weight = share * share * (3 - 2 * share)
    here, there = draw(key, name, number), draw(key, name, number + 1)
    return 2 * (here + (there - here) * weight) - 1


def _hour(at: Instant) -> float:
    return at % _DAY / _HOUR


def _daily(at: Instant) -> float:
    """Return the relative warmth of the time of day, from -1 at 3:00 to 1 at 15:00."""
    return math.sin(2 * math.pi * (_hour(at) - 9) / 24)


def _percent(value: float) -> str:
    return f"{min(100.0, max(5.0, value)):.1f}"


def _indoor_level(key: str) -> float:
    return 20.5 + 2 * draw(key, "indoor level")


def _indoor_celsius(key: str, at: Instant) -> float:
    sway = _sway(key, "indoor", at, 3 * _HOUR)
    return _indoor_level(key) + 1.5 * _daily(at) + 0.6 * sway + 0.1 * _jitter(key, "indoor jitter", at)


def indoor_temperature(key: str, at: Instant) -> str:
    """Return the temperature of a room in degrees Celsius, which is warmest in the afternoon."""
    return f"{_indoor_celsius(key, at):.1f}"


def indoor_humidity(key: str, at: Instant) -> str:
    """Return the relative humidity of a room in percent. It falls as the room gets warmer."""
    above = _indoor_celsius(key, at) - _indoor_level(key)
    return _percent(46 - 3 * above + 2 * _sway(key, "indoor damp", at, 6 * _HOUR))


def _season_celsius(at: Instant) -> float:
    # January 15 is the coldest day of the year.
    return 10 - 9 * math.cos(2 * math.pi * (at / _DAY - 15) / 365.25)


def _outdoor_celsius(key: str, at: Instant) -> float:
    sway = _sway(key, "outdoor", at, 8 * _HOUR)
    return _season_celsius(at) + 4 * _daily(at) + 2.5 * sway + 0.1 * _jitter(key, "outdoor jitter", at)


def outdoor_temperature(key: str, at: Instant) -> str:
    """Return the outdoor temperature in degrees Celsius, which depends on the time of day and on the season."""
    return f"{_outdoor_celsius(key, at):z.1f}"


def outdoor_humidity(key: str, at: Instant) -> str:
    """Return the outdoor relative humidity in percent. It falls as the day gets warmer."""
    above = _outdoor_celsius(key, at) - _season_celsius(at)
    return _percent(70 - 3 * above + 4 * _sway(key, "outdoor damp", at, 6 * _HOUR))


def air_pressure(key: str, at: Instant) -> str:
    """Return the air pressure in hectopascals, which rises and falls slowly over several days."""
    return f"{1013 + 14 * _sway(key, 'pressure', at, _DAY) + 0.1 * _jitter(key, 'pressure jitter', at):.1f}"


def light_level(key: str, at: Instant) -> str:
    """Return the outdoor light level in lux as an integer. It is 0 from 18:00 to 6:00, and lower under clouds."""
    sun = max(0.0, math.sin(math.pi * (_hour(at) - 6) / 12))
    return str(round(50_000 * sun * (0.65 + 0.35 * _sway(key, "clouds", at, 2 * _HOUR))))


def battery_level(key: str, at: Instant) -> str:
    """Return the charge of a battery as an integer percentage.

    A battery lasts about two years, and it is replaced at 20 percent.
    """
    drained = (at / _DAY + 720 * draw(key, "battery")) % 720
    return str(100 - int(drained / 9))


def _lamp_on_from_to(key: str, at: Instant) -> tuple[Instant, Instant]:
    day = at // _DAY
    begin_hour = 17 + 2 * draw(key, "lamp on", day)
    end_hour = 22 + 1.5 * draw(key, "lamp off", day)
    return day * _DAY + round(begin_hour * _HOUR), day * _DAY + round(end_hour * _HOUR)


def lamp_on(key: str, at: Instant) -> str:
    """Return ``1`` in the evening and ``0`` otherwise."""
    begin_at, end_at = _lamp_on_from_to(key, at)
    return "1" if begin_at <= at < end_at else "0"


def lamp_on_seconds(key: str, at: Instant) -> str:
    """Return the number of seconds for which the lamp has been on today."""
    begin_at, end_at = _lamp_on_from_to(key, at)
    return str(max(0, min(at, end_at) - begin_at) // 1000)


def lamp_dimmer(key: str, at: Instant) -> str:
    """Return the brightness of a lamp as an integer percentage.

    It is brighter early in the evening, and constant within an hour.
    """
    return str(round(90 - 40 * (_hour(at) > 20) + 10 * draw(key, "dimmer", at // _HOUR)))


def _plug_scale(key: str) -> float:
    return 0.5 + draw(key, "plug")


def plug_power(key: str, at: Instant) -> str:
    """Return the power of a plug in watts, which is low at night and highest in the evening."""
    mean = _POWER_PROFILE_WATTS[int(_hour(at))] * _plug_scale(key)
    return f"{mean * (1 + 0.15 * _jitter(key, 'power', at)):.1f}"


def plug_energy(key: str, at: Instant) -> str:
    """Return the energy that a plug has used since 2020-01-06 in watt hours. It never decreases."""
    hour = int(_hour(at))
    complete_days = (at // _DAY - _FIRST_MONDAY) * sum(_POWER_PROFILE_WATTS)
    today = sum(_POWER_PROFILE_WATTS[:hour]) + _POWER_PROFILE_WATTS[hour] * (at % _HOUR / _HOUR)
    return f"{max(0.0, (complete_days + today) * _plug_scale(key)):.1f}"


def _window(at: Instant) -> int:
    """Return the index of the opening window at a time. It is below 0 before work, and 12 or more after work."""
    return (at % _DAY - _WORK_BEGINS) // _OPENING_WINDOW


def _opening(key: str, day: int, window: int) -> tuple[Instant, Instant]:
    """Return the times between which the door is open in one window of a working day."""
    number = day * _OPENINGS_A_DAY + window
    begin_at = day * _DAY + _WORK_BEGINS + window * _OPENING_WINDOW + int(25 * _MINUTE * draw(key, "opens", number))
    return begin_at, begin_at + 2 * _MINUTE + int(23 * _MINUTE * draw(key, "closes", number))


def _is_working_day(day: int) -> bool:
    return (day - _FIRST_MONDAY) % 7 < 5


def door_open(key: str, at: Instant) -> str:
    """Return ``1`` while the door is open and ``0`` otherwise.

    The door opens twelve times on a working day, between 8:00 and 18:00.
    """
    day, window = at // _DAY, _window(at)
    if not _is_working_day(day) or not 0 <= window < _OPENINGS_A_DAY:
        return "0"
    begin_at, end_at = _opening(key, day, window)
    return "1" if begin_at <= at < end_at else "0"


def door_openings(key: str, at: Instant) -> str:
    """Return the number of times that the door has opened since 2020-01-06. It never decreases."""
    day = at // _DAY
    weeks, weekday = divmod(day - _FIRST_MONDAY, 7)
    count = _OPENINGS_A_DAY * (5 * weeks + min(weekday, 5))
    if _is_working_day(day):
        window = _window(at)
        count += min(max(window, 0), _OPENINGS_A_DAY)
        if 0 <= window < _OPENINGS_A_DAY:
            count += at >= _opening(key, day, window)[0]
    return str(max(0, count))


def _set_point_celsius(key: str, at: Instant) -> float:
    """Return the set-point of a thermostat at an hour. It is 20 to 22 degrees from 6:00 to 22:00, and 17.5 at night."""
    by_day = 20 + round(4 * draw(key, "comfort")) / 2
    return by_day if 6 <= _hour(at) < 22 else 17.5


def set_point(key: str, at: Instant) -> str:
    """Return the set-point of a thermostat in degrees Celsius, which is lower at night."""
    return f"{_set_point_celsius(key, at):.1f}"


class Setting(NamedTuple):
    """A change of a set-point, with the new value, the time, and the temperature of the room at that time."""

    celsius: float
    set_at: Instant
    room_celsius: float


def room_celsius(key: str, at: Instant, setting: Setting | None) -> float:
    """Return the temperature of a room without noise. It approaches the curve of :func:`set_point`, or the setting.

    It reaches a new value of the curve within two hours. Two hours after a setting, a fiftieth of the difference
    remains.
    """
    if setting is None:
        recent = [_set_point_celsius(key, at - minutes * _MINUTE) for minutes in (0, 20, 40, 60, 80, 100, 120)]
        return sum(recent) / len(recent)
    left = math.exp(-max(0, at - setting.set_at) / _ROOM_SETTLES)
    return setting.celsius + (setting.room_celsius - setting.celsius) * left


def heated_temperature(key: str, at: Instant, setting: Setting | None = None) -> str:
    """Return the temperature of a room in degrees Celsius, which follows its set-point with a delay."""
    return f"{room_celsius(key, at, setting) + 0.3 * _sway(key, 'heated', at, _HOUR):.1f}"
