"""The synchronous modules match their asynchronous twins, and the generator reports those that do not."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
from make_sync_twins import ROOT, TwinError, main, read_twins, without_waiting

TWINS = read_twins((ROOT / ".ci/sync_twins.toml").read_text(encoding="utf-8"))


def test_a_rule_that_has_nothing_to_do_is_an_error():
    with pytest.raises(TwinError, match=r"async_one.py does not say 'a task'"):
        without_waiting("one = 1\n", replace(TWINS[0], source="async_one.py", prose=[("a task", "a thread")]))


def test_code_that_only_an_event_loop_needs_is_removed():
    source = """
class One:
    async def prepare(self) -> None:  # asynchronous alone
        await self.sender.aclose()

    async def send(self) -> None:
        # Why.
        async with turn(self):
            await self.sender.aclose()
"""
    left = """
class One:

    def send(self) -> None:
        # Why.
        self.sender.close()
"""
    assert without_waiting(source, replace(TWINS[0], contexts=frozenset({"turn"}), prose=[])) == left


def test_every_name_of_the_rules_stands_in_a_source():
    sources = "".join((ROOT / twin.source).read_text(encoding="utf-8") for twin in TWINS)
    names = {name for twin in TWINS for name in twin.names}
    assert {name for name in names if not re.search(rf"\b{name}\b", sources)} == set()


def test_a_twin_that_was_changed_by_hand_is_named_with_the_cure_and_rewritten(tmp_path, monkeypatch, capsys):
    twin = min(TWINS, key=lambda one: (ROOT / one.source).stat().st_size)
    monkeypatch.setattr("make_sync_twins.read_twins", lambda _: [twin])
    for name in (".ci/sync_twins.toml", twin.source, twin.target):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert main([], tmp_path) == 0
    assert (tmp_path / ".gitattributes").read_text(encoding="utf-8") == f"{twin.target} linguist-generated\n"
    assert main(["--check"], tmp_path) == 0
    changed = tmp_path / twin.target
    before = changed.read_text(encoding="utf-8")
    changed.write_text(before + "x = 1\n", encoding="utf-8")
    assert main(["--check"], tmp_path) == 1
    said = capsys.readouterr().out
    assert f"{twin.target} is out of date; change {twin.source}" in said
    assert "run python .ci/make_sync_twins.py" in said
    assert "-x = 1" in said
    assert main([], tmp_path) == 0
    assert changed.read_text(encoding="utf-8") == before
