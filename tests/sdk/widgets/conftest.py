"""Widgets take the synchronous client alone; its requests can be counted here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from mirror_sdk import MirrorClient


class CountingTransport(httpx.BaseTransport):
    """Passes on to the server and notes what was asked, without polls."""

    def __init__(self, server: httpx.BaseTransport) -> None:
        self._server = server
        self.requests: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = f"{request.method} {request.url.path}"
        if "pull" not in asked:
            self.requests.append(asked)
        return self._server.handle_request(request)


@pytest.fixture
def transport(mirror: Any) -> CountingTransport:
    return CountingTransport(mirror.transport)


@pytest.fixture
def client(mirror: Any, transport: CountingTransport) -> Iterator[MirrorClient]:
    with MirrorClient("http://mirror.localhost", mirror.new_key(), transport=transport) as one:
        yield one


class Later:
    """Makes calls when it is told to, in any order."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, call: Any, then: Any, failed: Any) -> None:
        def make() -> None:
            try:
                outcome = call()
            except Exception as error:
                failed(error)
            else:
                then(outcome)

        self.waiting.append(make)

    def make(self, index: int = 0) -> None:
        self.waiting.pop(index)()

    def make_all(self) -> None:
        while self.waiting:
            self.make()


@pytest.fixture
def later() -> Later:
    return Later()


class Seconds:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()
