"""Units, numbers and times for human readers. Data and the wire format are not affected."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from mirror_sdk._formatting import number_text, time_precision, time_text, utc_text
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import Value, ValueKind, decode
from mirror_sdk.values.display import display_value
from mirror_sdk.wire.object_definitions import DECLARED_OBJECTS, DISPLAY_UNITS, NUMBERS, display_unit

TEMPERATURE = "/3303/0/5700"
WITHOUT_FRACTION = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WITH_FRACTION = WITHOUT_FRACTION.replace(microsecond=678_900)


@pytest.mark.parametrize(
    ("code", "displayed"),
    [
        ("Cel", "°C"),
        ("m2", "m²"),
        ("m/s2", "m/s²"),
        ("Ohm", "Ω"),
        ("%RH", "% RH"),
        ("/100", "%"),
        ("count", ""),
        ("1/min", "1/min"),
        ("W", "W"),
        ("", ""),
        ("furlong", "furlong"),
    ],
)
def test_unit_is_displayed_as_people_write_it(code: str, displayed: str) -> None:
    assert display_unit(code) == displayed


def test_displayed_unit_stays_as_it_is() -> None:
    assert {display_unit(unit) for unit in DISPLAY_UNITS.values()} == set(DISPLAY_UNITS.values())


def test_declared_units_are_codes() -> None:
    declared = {one.unit for _, resources in DECLARED_OBJECTS.values() for one in resources.values() if one.unit}
    assert not declared & set(DISPLAY_UNITS.values()) - {"s", "%"}
    counter = lookup("/3200/0/5501")
    assert counter is not None
    assert (counter.unit, counter.type in NUMBERS) == ("count", True)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (21.500000000000004, "21.5"),
        (21.0, "21"),
        (-0.0, "0"),
        (1234567.8, "1234567.8"),
        (2**60, str(2**60)),
        (struct.unpack("f", struct.pack("f", 21.3))[0], "21.3"),
        (123456792.0, "123456792"),
        (1e300, "1e+300"),
        (float("inf"), "inf"),
    ],
)
def test_number_has_no_rounding_errors(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("payload", "path", "unit", "text"),
    [
        (b"21.50", TEMPERATURE, "Cel", "21.50 °C"),
        (b"21", TEMPERATURE, "", "21"),
        (b"21.500000000000004", TEMPERATURE, "Cel", "21.5 °C"),
        (b"21.5", TEMPERATURE, "x" * 9, "21.5 xxx…"),
        (b"-0.0", TEMPERATURE, "Cel", "0 °C"),
        (b"-0", TEMPERATURE, "Cel", "0 °C"),
        (b"-0", "/3311/0/5851", "%", "0 %"),
        (b"-0.04", TEMPERATURE, "Cel", "-0.04 °C"),
        (b"40", "/3311/0/5851", "%", "40 %"),
        (b"4", "/3200/0/5501", "count", "4"),
        (b"Cel", "/3303/0/5701", "m2", "Cel"),
        (b"1767600000", "/3/0/13", "", "2026-01-05T08:00:00Z"),
    ],
)
def test_value_is_displayed_with_reported_digits_and_its_unit(payload: bytes, path: str, unit: str, text: str) -> None:
    longest = 4 if len(unit) > 4 else None
    assert display_value(decode(payload, "text/plain", path), unit, longest) == text


def test_number_of_a_binary_payload_has_the_digits_it_needs() -> None:
    value = Value(ValueKind.NUMBER, 21.299999237060547, b"\xfa\x41\xaa\x66\x66", "application/cbor")
    assert display_value(value) == "21.3"


def test_times_that_are_displayed_together_have_one_precision() -> None:
    assert time_text(WITHOUT_FRACTION) == "2026-01-02 03:04:05"
    assert time_text(WITH_FRACTION) == "2026-01-02 03:04:05.678"
    assert utc_text(WITH_FRACTION) == "2026-01-02 03:04:05 UTC"
    together = time_precision([None, WITHOUT_FRACTION, "text", WITH_FRACTION])
    assert [time_text(at, together) for at in (WITHOUT_FRACTION, WITH_FRACTION)] == [
        "2026-01-02 03:04:05.000",
        "2026-01-02 03:04:05.678",
    ]
    # The wire format has milliseconds.
    assert time_precision([WITHOUT_FRACTION.replace(microsecond=999)]) == "seconds"
