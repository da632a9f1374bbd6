"""``kill -9`` while rows are on their way, and readers beside a move: each row is told exactly once."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from histories import DAY, PATHS, Kept, expected, found, found_at

from mirror_server.store.history import HistoryRow

PROGRAM = Path(__file__).with_name("keeper_program.py")
KILLS = 8


def tell_days(kept: Kept, days: int) -> None:
    for day in range(days):
        for number in range(40):
            at = kept.now - random.Random(number + day).choice([0, 1000, DAY])
            device_id, path = "ab"[number % 2], PATHS[number % 3]
            row = HistoryRow(0, device_id, None, path, at, 0, "reported", "observation", b"%d" % number, "text/plain")
            kept.tell(row)
        kept.pass_time(DAY)


def look_after(kept: Kept, lines: int | None) -> str:
    """Start a keeper and kill it after so many lines; gives the last one."""
    arguments = [kept.told.url, str(kept.folder / "archive"), str(kept.now), str(kept.keep_seconds)]
    command = [sys.executable, str(PROGRAM), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = list(islice(process.stdout, lines))
        process.kill()
    return said[-1].strip()


@pytest.mark.parametrize("keep_days", [40, 2])
def test_kills_at_any_moment_leave_each_row_once(new_history: Callable[..., Kept], keep_days: int) -> None:
    kept = new_history(keep_seconds=keep_days * 86_400)
    tell_days(kept, 4)
    chance = random.Random(keep_days)
    last = ""
    for _ in range(KILLS):
        last = look_after(kept, chance.randrange(1, 40))
        kept.forget_trimmed()
        assert found(kept.service) == expected(kept.told.rows)
        assert found_at(kept.service, kept.now) == kept.state(kept.now)
    while last != "done":
        last = look_after(kept, None)
    kept.forget_trimmed()
    assert found(kept.service) == expected(kept.told.rows)
    assert found_at(kept.service, kept.now) == kept.state(kept.now)
    kept.open()
    kept.round()
    assert kept.violations() == []
    assert kept.files() == kept.named_files() != []


def test_readers_beside_a_move_have_each_row_once(new_history: Callable[..., Kept]) -> None:
    kept = new_history()
    for _ in range(3):
        tell_days(kept, 2)
        whole, is_over = expected(kept.told.rows), threading.Event()

        def read(descending: bool, whole: list[HistoryRow] = whole, is_over: threading.Event = is_over) -> int:
            count = 0
            while not is_over.is_set() or not count:
                assert found(kept.service, descending=descending) == (whole[::-1] if descending else whole)
                count += 1
            return count

        with ThreadPoolExecutor(2) as readers:
            reading = [readers.submit(read, descending) for descending in (False, True)]
            try:
                kept.round()
            finally:
                is_over.set()
            assert all(each.result() for each in reading)
