"""Making answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import orjson
from flask import Response

from mirror_server.core.errors import Refusal
from mirror_server.views.deferred import Deferred

T = TypeVar("T")

_STORED_TIMEOUT_SECONDS = 30


def json_answer(content: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(content), status, content_type="application/json")


def empty_answer(status: int = 204) -> Response:
    """An answer with nothing in it, and so without a content type."""
    answer = Response(status=status)
    del answer.headers["Content-Type"]
    return answer


def when_stored(future: Future[T], render: Callable[[T], Response]) -> Response:
    """Answer when something is on disk; a 503 tells that this took too long."""

    def expired() -> Response:
        raise Refusal(
            503, f"not stored within {_STORED_TIMEOUT_SECONDS} s; it may still be stored, so look before you repeat it"
        )

    return Deferred(future, _STORED_TIMEOUT_SECONDS, render=render, expired=expired)
