"""The error tree, the mapping of responses to errors, and the messages of errors."""

import pickle
import re

import pytest

import mirror_sdk
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
    """Return each class of the drawing with its base class, by the indentation."""
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


STATUSES = [
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
]


@pytest.mark.parametrize(("status", "reason", "kind"), STATUSES)
def test_each_status_has_its_class(status, reason, kind):
    assert type(api_error(status, ErrorBody(code=status, type="t", reason=reason, message="m"))) is kind


def check_pickled(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), repr(copy), vars(copy)) == (type(error), repr(error), vars(error))


REFUSED = "METHOD_NOT_ALLOWED"


CATEGORIES = [
    ("REQUEST_EXPIRED", None, RequestExpired, ""),
    ("RESOURCE_NOT_FOUND", None, errors.ResourceNotFound, ""),
    ("NOT_CONNECTED", None, DeviceUnavailable, ""),
    ("SHORT_AND_STOUT", None, DeviceRequestFailed, ""),
    (REFUSED, "GET", errors.ReadRejected, "the resource cannot be read"),
    (REFUSED, "PUT", WriteRejected, "it may be read-only"),
    (REFUSED, "POST", errors.ExecuteRejected, "the resource cannot be executed"),
    (REFUSED, None, errors.DeviceRequestRejected, "it may be read-only"),
]


@pytest.mark.parametrize(("category", "method", "kind", "words"), CATEGORIES)
def test_each_category_has_its_class_and_text_and_unknown_ones_are_preserved(category, method, kind, words):
    fields = {"device_id": "d", "path": "/3/0/0", "async_id": "a", "method": method}
    error = device_request_failed(category=category, status=400, **fields)
    assert (type(error), error.category, error.method) == (kind, category, method)
    assert [text for text in (category, error.hint, words) if text not in str(error)] == []
    check_pickled(error)


def test_api_error_has_all_members_of_the_error_body():
    fields = [FieldError(name="hold", message="must be a number")]
    said = {"type": "limit_exceeded", "reason": "QUEUE_IS_FULL", "message": "wait", "request_id": "r"}
    error = api_error(429, ErrorBody(code=429, fields=fields, **said), 7.0)
    assert {name: getattr(error, name) for name in said} == said
    assert (type(error), error.status, error.retry_after_seconds) == (LimitExceeded, 429, 7.0)
    assert error.fields == tuple(fields)
    assert str(error) == "429 QUEUE_IS_FULL: wait (request r)"
    check_pickled(error)


def test_standard_library_errors_catch_related_errors():
    assert issubclass(errors.WaitTimeout, TimeoutError)
    assert issubclass(errors.InvalidValue, ValueError)
    assert issubclass(errors.NoSuchResource, KeyError)
    assert issubclass(errors.ResourceNotFound, KeyError)


@pytest.mark.parametrize("kind", [errors.ReadRejected, WriteRejected, errors.ExecuteRejected])
def test_rejections_by_a_device_have_a_common_parent_and_do_not_catch_each_other(kind):
    assert kind.__bases__ == (mirror_sdk.DeviceRequestRejected,)
    assert issubclass(kind, DeviceRequestFailed)
