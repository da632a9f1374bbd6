"""Asking the same of each of many devices, one after the other or some at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_MOST_AT_ONCE = 8
"""How many threads ask: httpx gets slower with more."""


def ask_each(ask: Callable[[str], T], device_ids: Sequence[str]) -> list[T]:
    """What comes of asking each, one after the other.

    Raises:
        MirrorError: One of them failed; nothing more is asked.
    """
    return [ask(device_id) for device_id in device_ids]


def ask_each_at_once(ask: Callable[[str], T], device_ids: Sequence[str]) -> list[T]:
    """The same from threads, in the order of the devices.

    Raises:
        MirrorError: One of them failed; nothing more is begun.
    """
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return list(pool.map(ask, device_ids))
