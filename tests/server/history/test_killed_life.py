"""``kill -9`` at any moment of a life: told, sealed, merged, archived, trimmed, erased; each row is there once."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from histories import NOW, Kept, found

from mirror_server.store import segments

PROGRAM = Path(__file__).with_name("life_program.py")
KILLS = 3
KEEP_SECONDS = 4 * 86_400


class Said:
    """What lives said before they were killed."""

    def __init__(self) -> None:
        self.told: dict[int, tuple[str, int]] = {}
        self.erased: set[str] = set()
        self.now = NOW
        self.failures: list[str] = []

    def hear(self, line: str) -> None:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "told":
            device_id, number, at = rest.split()
            self.told[int(number)] = device_id, int(at)
        elif word == "erased":
            self.erased.add(rest)
        elif word == "look":
            self.now = int(rest)
        else:
            self.failures.append(line)

    def live(self, kept: Kept, seed: int, lines: int) -> None:
        """A life that is killed when it has said so many lines; what it says in its last moment counts as well."""
        folder = str(kept.folder / "archive")
        arguments = [kept.told.url, folder, str(self.now), str(KEEP_SECONDS), str(seed)]
        command = [sys.executable, str(PROGRAM), *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            said = list(islice(process.stdout, lines))
            process.kill()
            said += process.stdout
        for line in said:
            # The last one may be cut off.
            if line.endswith("\n"):
                self.hear(line)


def check(kept: Kept, said: Said) -> int:
    """Each row that was told is there once, unless it was trimmed; none of a device that was erased."""
    with kept.told.database.read() as session:
        base_at = segments.base_at(session) or 0
    rows = [row for row in found(kept.service) if row.what == "reported"]
    assert [number for number, count in Counter(int(row.value or b"") for row in rows).items() if count > 1] == []
    assert {row.device_id for row in rows} & said.erased == set()
    there = {int(row.value or b"") for row in rows}
    wanted = {
        number for number, (device_id, at) in said.told.items() if at >= base_at and not device_id.startswith("guest-")
    }
    assert wanted - there == set()
    assert kept.told.database.violations() == []
    assert kept.violations() == []
    return len(rows)


def test_kills_at_any_moment_of_a_life(new_history: Callable[..., Kept]) -> None:
    kept, said, chance = new_history(keep_seconds=KEEP_SECONDS), Said(), random.Random(17)
    for kill in range(KILLS):
        said.live(kept, kill + 1, chance.randrange(1, 200))
        assert check(kept, said)
    assert said.failures == []
    kept.pass_time(said.now - kept.now)
    kept.open()
    kept.round()
    # Files that were trimmed are deleted the next time.
    kept.round()
    check(kept, said)
    assert kept.named_files() == kept.files()
    assert said.erased
    assert len(said.told) > KILLS
