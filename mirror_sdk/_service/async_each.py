"""Asking the same of each of many devices, some at a time; the twin of :mod:`mirror_sdk._service.each`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mirror_sdk._off_loop import all_of
from mirror_sdk._service.async_sender import MOST_AT_ONCE

T = TypeVar("T")


async def ask_each(ask: Callable[[str], Awaitable[T]], device_ids: Sequence[str]) -> list[T]:
    """What comes of asking each, in the order of the devices.

    Raises:
        MirrorError: One of them failed; nothing more is asked.
    """
    answers: dict[str, T] = {}
    waiting = iter(device_ids)

    async def work() -> None:
        for device_id in waiting:
            answers[device_id] = await ask(device_id)

    await all_of(work() for _ in range(MOST_AT_ONCE))
    return [answers[device_id] for device_id in device_ids]


ask_each_at_once = ask_each
"""Tasks cost nothing, other than the threads of the twin."""
