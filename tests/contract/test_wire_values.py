"""Times, payloads, the status of a desired value, and the words of errors."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from mirror_sdk.wire.device_object import Desired, DesiredStatus
from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.model import Payload, Timestamp, write_timestamp
from mirror_sdk.wire.notifications import AsyncResponse

TIMESTAMP = TypeAdapter(Timestamp)
PAYLOAD = TypeAdapter(Payload)

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=zones)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20T12:37:55.576Z",
        "2026-11-20T12:37:55.576000Z",
        "2026-11-20T12:37:55.576+00:00",
        "2026-11-20T12:37:55.576+0000",
        "2026-11-20T14:37:55.576+0200",
        "2026-11-20T07:07:55.576-0530",
        "2026-11-20T07:07:55.576-05:30",
    ],
)
def test_one_instant_is_read_in_every_spelling_and_written_in_one(text: str) -> None:
    instant = TIMESTAMP.validate_python(text)
    assert instant == datetime(2026, 11, 20, 12, 37, 55, 576000, tzinfo=UTC)
    assert instant.tzinfo is UTC
    assert TIMESTAMP.dump_python(instant, mode="json") == "2026-11-20T12:37:55.576Z"


def test_an_instant_that_is_none_in_utc_stays_as_it_came() -> None:
    assert TIMESTAMP.validate_python("0001-01-01T00:00:00+01:00").isoformat() == "0001-01-01T00:00:00+01:00"


def test_a_whole_second_is_written_with_its_milliseconds() -> None:
    assert write_timestamp(datetime(2026, 11, 20, 12, 37, 55, tzinfo=UTC)) == "2026-11-20T12:37:55.000Z"


@given(instants)
def test_an_instant_is_read_back_to_the_millisecond(instant: datetime) -> None:
    text = write_timestamp(instant)
    assert text.endswith("Z")
    assert timedelta(0) <= instant - TIMESTAMP.validate_python(text) < timedelta(milliseconds=1)


@given(instants)
def test_an_offset_needs_no_colon(instant: datetime) -> None:
    assert TIMESTAMP.validate_python(instant.strftime("%Y-%m-%dT%H:%M:%S.%f%z")) == instant


@pytest.mark.parametrize("text", ["2026-11-20T12:37:55.576", "2026-11-20", "yesterday", "", "2026-13-20T12:37:55Z"])
def test_a_text_that_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        TIMESTAMP.validate_python(text)


@given(st.binary())
def test_a_payload_survives_the_wire(payload: bytes) -> None:
    text = json.loads(PAYLOAD.dump_json(payload))
    assert PAYLOAD.validate_python(text) == payload


@pytest.mark.parametrize("text", ["te!st", "MQ", "MQ=", "M Q==", "_-8=", "ä"])
def test_a_payload_is_never_guessed(text: str) -> None:
    with pytest.raises(ValidationError, match="base64"):
        PAYLOAD.validate_python(text)


@pytest.mark.parametrize(
    ("given_status", "status"),
    [
        (0, DesiredStatus.PENDING),
        (1, DesiredStatus.SUCCESS),
        (2, DesiredStatus.FAILURE),
        ("pending", DesiredStatus.PENDING),
        ("success", DesiredStatus.SUCCESS),
        ("failure", DesiredStatus.FAILURE),
        ("fail", DesiredStatus.FAILURE),
        ("FAIL", DesiredStatus.FAILURE),
    ],
)
def test_a_status_is_read_as_a_number_or_a_word_and_written_as_a_number(
    given_status: object, status: DesiredStatus
) -> None:
    desired = Desired.model_validate({"status": given_status})
    assert desired.status is status
    assert json.dumps(desired.to_wire()) == json.dumps({"status": int(status)})


@pytest.mark.parametrize("status", [-1, 3, "", "failed", "done", [0]])
def test_another_status_is_refused(status: object) -> None:
    with pytest.raises(ValidationError):
        Desired.model_validate({"status": status})


@given(st.text())
def test_an_error_category_is_an_open_set(word: str) -> None:
    assert AsyncResponse.model_validate({"id": "a", "status": 400, "error": word}).error == word


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
