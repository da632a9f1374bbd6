"""An asynchronous client that is closed on another event loop drops everything that belongs to its first loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from malicious_service import MaliciousService

from mirror_sdk import AsyncMirrorClient
from mirror_sdk.errors import ConfigError

# The garbage collector closes a connection of a loop that has ended, and warns about it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")

Use = Callable[[AsyncMirrorClient, Path], Coroutine[Any, Any, Any]]


USES: list[Use] = [lambda client, _: client.watch(print), lambda client, folder: client.record(folder)]


@pytest.mark.parametrize("use", USES, ids=["watch", "record"])
def test_a_client_is_closed_on_another_loop_without_an_error(mirror, address, use, tmp_path):
    client = AsyncMirrorClient(address, mirror.new_key())
    asyncio.run(use(client, tmp_path / "run"))
    asyncio.run(client.aclose())


@pytest.fixture
def keeping() -> Iterator[str]:
    """A service that keeps connections open between requests, and has no presubscriptions."""
    response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
    with MaliciousService(lambda _: [response]) as service:
        yield service.url
    gc.collect()


def test_connections_of_a_closed_loop_are_dropped_and_do_not_hide_errors_of_another_loop(keeping):
    async def use() -> None:
        async with client:
            await client.subscriptions.rules.list()

    client = AsyncMirrorClient(keeping, "an-access-key")
    asyncio.run(client.subscriptions.rules.list())
    with pytest.raises(ConfigError, match="belongs to another event loop"):
        asyncio.run(use())
