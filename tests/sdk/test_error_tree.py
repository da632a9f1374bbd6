"""The error tree, how answers become errors, and what the errors say."""

import pickle
import re

import pytest

from mirror_sdk import errors
from mirror_sdk.errors import (
    APIError,
    DeviceRequestFailed,
    DeviceUnavailable,
    LimitExceeded,
    MirrorError,
    RequestExpired,
    ServerError,
    WriteRejected,
    api_error,
    device_request_failed,
)
from mirror_sdk.wire.errors import ErrorBody, FieldError


def _drawn() -> dict[str, str]:
    """Each class of the drawing with the class it hangs on, by the indentation."""
    assert errors.__doc__ is not None
    parents: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in errors.__doc__.splitlines():
        node = re.fullmatch(r"( {4,})(?:[x+] )?(\w+)", line)
        if node:
            depth = len(node[1])
            above[depth] = node[2]
            if depth > 4:
                parents[node[2]] = above[depth - 2]
    return parents


def test_the_drawing_and_the_classes_are_equal():
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    own = {name: kind for name, kind in classes.items() if kind.__module__ == errors.__name__}
    assert _drawn() == {name: kind.__bases__[0].__name__ for name, kind in own.items() if kind is not MirrorError}


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, None, errors.BadRequest),
        (400, "NOT_OBSERVABLE", errors.BadRequest),
        (400, "RESOURCE_NOT_FOUND", errors.NoSuchResource),
        (401, None, errors.AuthenticationError),
        (403, None, errors.AccessDenied),
        (404, "RESOURCE_NOT_FOUND", errors.NotFound),
        (409, None, errors.Conflict),
        (410, None, errors.ChannelGone),
        (412, None, errors.PreconditionFailed),
        (418, None, APIError),
        (429, None, LimitExceeded),
        (503, None, ServerError),
    ],
)
def test_each_status_has_its_class(status, reason, kind):
    assert type(api_error(status, ErrorBody(code=status, type="t", reason=reason, message="m"))) is kind


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("REQUEST_EXPIRED", RequestExpired),
        ("RESOURCE_NOT_FOUND", errors.ResourceNotFound),
        ("METHOD_NOT_ALLOWED", WriteRejected),
        ("NOT_CONNECTED", DeviceUnavailable),
        ("SHORT_AND_STOUT", DeviceRequestFailed),
    ],
)
def test_each_category_has_its_class_and_unknown_ones_are_kept(category, kind):
    error = device_request_failed(category=category, status=400, device_id="d", path="/3/0/0", async_id="a")
    assert type(error) is kind
    assert error.category == category
    assert category in str(error)
    assert error.hint in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), repr(copy), vars(copy)) == (kind, repr(error), vars(error))


@pytest.mark.parametrize(
    ("method", "kind", "words"),
    [
        ("GET", errors.ReadRejected, "the resource cannot be read"),
        ("PUT", WriteRejected, "it may be read-only"),
        ("POST", errors.ExecuteRejected, "the resource cannot be executed"),
        (None, WriteRejected, "it may be read-only"),
    ],
)
def test_a_refusal_is_told_in_words_of_the_request(method, kind, words):
    error = device_request_failed(
        category="METHOD_NOT_ALLOWED", status=400, device_id="d", path="/3/0/0", async_id="a", method=method
    )
    assert type(error) is kind
    assert error.method == method
    assert words in str(error)


def test_an_api_error_carries_all_the_service_said():
    fields = [FieldError(name="hold", message="must be a number")]
    body = ErrorBody(
        code=429, type="limit_exceeded", reason="QUEUE_IS_FULL", message="wait", fields=fields, request_id="r"
    )
    error = api_error(429, body, 7.0)
    told = (error.status, error.type, error.reason, error.message, error.request_id, error.retry_after_seconds)
    assert told == (429, "limit_exceeded", "QUEUE_IS_FULL", "wait", "r", 7.0)
    assert error.fields == tuple(fields)
    assert str(error) == "429 QUEUE_IS_FULL: wait (request r)"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), repr(copy), vars(copy)) == (LimitExceeded, repr(error), vars(error))


def test_errors_of_the_standard_library_catch_their_kin():
    assert issubclass(errors.WaitTimeout, TimeoutError)
    assert issubclass(errors.ValueRefused, ValueError)
    assert issubclass(errors.NoSuchResource, KeyError)
    assert issubclass(errors.ResourceNotFound, KeyError)
