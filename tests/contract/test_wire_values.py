"""Times, payloads, the status of a desired value, and the words of errors."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from mirror_sdk.wire.device_object import Desired, DesiredStatus
from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.model import Payload, Timestamp, write_timestamp

TIMESTAMP = TypeAdapter(Timestamp)
PAYLOAD = TypeAdapter(Payload)

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=zones)


def test_instant_is_read_in_every_spelling_and_written_in_one() -> None:
    clock = "2026-11-20T{}.576{}"
    spellings = [("12:37:55", "Z"), ("12:37:55", "000Z"), ("12:37:55", "+00:00"), ("12:37:55", "+0000")]
    spellings += [("14:37:55", "+0200"), ("07:07:55", "-0530"), ("07:07:55", "-05:30")]
    for time, zone in spellings:
        instant = TIMESTAMP.validate_python(clock.format(time, zone))
        assert instant == datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)
        assert instant.tzinfo is UTC
        assert TIMESTAMP.dump_python(instant, mode="json") == "2026-11-20T12:37:55.576Z"
    for text in ("2026-11-20T12:37:55.576", "2026-11-20", "yesterday", "", "2026-13-20T12:37:55Z"):
        with pytest.raises(ValidationError):
            TIMESTAMP.validate_python(text)


def test_instant_that_utc_cannot_express_is_unchanged() -> None:
    assert TIMESTAMP.validate_python("0001-01-01T00:00:00+01:00").isoformat() == "0001-01-01T00:00:00+01:00"


@given(instants)
@example(datetime(2026, 11, 20, 12, 37, 55, tzinfo=UTC))
def test_instant_is_read_back_to_the_millisecond(instant: datetime) -> None:
    text = write_timestamp(instant)
    assert re.search(r"\.\d{3}Z$", text)
    assert timedelta(0) <= instant - TIMESTAMP.validate_python(text) < timedelta(milliseconds=1)
    without_colon = instant.strftime("%Y-%m-%dT%H:%M:%S.%f%z")
    assert TIMESTAMP.validate_python(without_colon) == instant


@given(st.binary())
def test_a_payload_survives_the_wire(payload: bytes) -> None:
    text = json.loads(PAYLOAD.dump_json(payload))
    assert PAYLOAD.validate_python(text) == payload


def test_payload_is_never_guessed() -> None:
    for text in ("te!st", "MQ", "MQ=", "M Q==", "_-8=", "ä"):
        with pytest.raises(ValidationError, match="base64"):
            PAYLOAD.validate_python(text)


def test_status_is_read_as_a_number_or_a_word_and_written_as_a_number() -> None:
    words = {DesiredStatus.PENDING: [0, "pending"], DesiredStatus.SUCCESS: [1, "success"]}
    words[DesiredStatus.FAILURE] = [2, "failure", "fail", "FAIL"]
    for status, spellings in words.items():
        for spelling in spellings:
            desired = Desired.model_validate({"status": spelling})
            assert desired.status is status
            assert json.dumps(desired.to_wire()) == json.dumps({"status": int(status)})
    for wrong in (-1, 3, "", "failed", "done", [0]):
        with pytest.raises(ValidationError):
            Desired.model_validate({"status": wrong})


def test_an_error_code_has_the_type_of_the_interface() -> None:
    assert ERROR_TYPES == {
        400: "bad_request",
        401: "invalid_auth",
        403: "access_denied",
        404: "not_found",
        405: "method_not_allowed",
        406: "not_acceptable",
        408: "request_timeout",
        409: "conflict",
        410: "gone",
        412: "precondition_failed",
        413: "too_large",
        414: "too_large",
        415: "unsupported_media_type",
        426: "upgrade_required",
        429: "limit_exceeded",
        431: "too_large",
        500: "internal",
        503: "unavailable",
    }
