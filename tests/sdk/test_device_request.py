"""Parsing of responses to device requests. Other tests check the calls of a client with a server."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mirror_sdk._protocol.accepted_request import AcceptedRequest
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk.errors import DeviceRequestFailed, DeviceUnavailable, ExecuteRejected, ReadRejected, WriteRejected
from mirror_sdk.values import NO_VALUE
from mirror_sdk.wire.device_requests import Method
from mirror_sdk.wire.notifications import AsyncResponse

READING = AsyncResponse(id="a1", status=200, payload="MjEuNQ==", ct="text/plain")


def accepted(method: Method = "GET", expiry_seconds: int | None = None) -> AcceptedRequest:
    return AcceptedRequest(
        async_id="a1",
        device_id="d1",
        path="/3303/0/5700",
        method=method,
        issued_at=datetime(2026, 1, 5, tzinfo=UTC),
        expiry_seconds=expiry_seconds,
        _awaited_response=AwaitedResponse("a1"),
    )


def answer(**members: object) -> AsyncResponse:
    return AsyncResponse.model_validate({"id": "a1", "payload": "", **members})


def test_a_successful_response_has_no_failure_and_the_value_of_its_path():
    assert accepted().read_failure(READING) is None
    assert accepted().read_value(READING).python == 21.5


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_write_or_an_execution_brings_a_value_only_where_the_device_sends_one(method):
    assert accepted(method).read_value(answer(status=200)) is NO_VALUE
    assert accepted(method).read_value(READING).raw == b"21.5"


def test_a_failure_names_device_path_and_request():
    failure = accepted().read_failure(answer(status=504, error="TIMEOUT"))
    assert type(failure) is DeviceUnavailable
    fields = (failure.category, failure.status, failure.device_id, failure.path, failure.async_id)
    assert fields == ("TIMEOUT", 504, "d1", "/3303/0/5700", "a1")
    rejection = answer(status=405, error="METHOD_NOT_ALLOWED")
    kinds = [type(accepted(method).read_failure(rejection)) for method in ("GET", "PUT", "POST")]
    assert kinds == [ReadRejected, WriteRejected, ExecuteRejected]


@pytest.mark.parametrize(("error", "category"), [("SHORT_AND_STOUT", "SHORT_AND_STOUT"), (None, "UNKNOWN")])
def test_an_unknown_failure_category_is_still_a_failure(error, category):
    failure = accepted().read_failure(answer(status=418, error=error))
    assert type(failure) is DeviceRequestFailed
    assert failure.category == category


@pytest.mark.parametrize(("expiry_seconds", "seconds"), [(None, 60), (1, 6), (10, 15), (60, 60), (3600, 60)])
def test_a_wait_lasts_until_the_expiry_is_reported_and_at_most_a_minute(expiry_seconds, seconds):
    assert accepted(expiry_seconds=expiry_seconds).default_timeout_seconds == seconds


def test_wait_timeout_says_that_the_request_may_still_finish():
    assert "2.5 s" in str(accepted().wait_timeout(2.5))
    message = str(accepted().wait_timeout(2.5))
    assert "may still finish: it waits for the device" in message
    until = datetime(2026, 1, 5, 10, tzinfo=UTC)
    expiring_message = str(replace(accepted(), expires_at=until).wait_timeout(2.5))
    assert "may still finish: it waits until 2026-01-05T10:00:00.000Z" in expiring_message
    assert "or for an earlier request to finish" in expiring_message
