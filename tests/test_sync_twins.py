"""The synchronous modules are what is made of their asynchronous twins, and the maker says where they are not."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from make_sync_twins import ROOT, Twin, TwinError, main, read_twins, synchronous, without_waiting

TWINS = read_twins((ROOT / ".ci/sync_twins.toml").read_text(encoding="utf-8"))
NAMES = {"AsyncClient": "Client", "aclose": "close", "_async_client": "_client"}
TWIN = Twin("async_one.py", "one.py", NAMES, frozenset({"beside"}))


def made(source: str, prose: list[tuple[str, str]] | None = None) -> str:
    return without_waiting(source, replace(TWIN, prose=prose or []))


def in_docstring(*lines: str) -> str:
    body = "".join(f"    {line}\n" if line else "\n" for line in lines)
    return f'def one():\n    """What it does.\n\n{body}    """\n'


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("async def one():\n    return await two()\n", "def one():\n    return two()\n"),
        ("async def one():\n    return (await two()).three\n", "def one():\n    return two().three\n"),
        ("async def one():\n    return not (await two())\n", "def one():\n    return not two()\n"),
        (
            "async def one(it):\n    async with it as x:\n        async for y in x:\n            await y\n",
            "def one(it):\n    with it as x:\n        for y in x:\n            y\n",
        ),
        ("async def one(it):\n    return [x async for x in it]\n", "def one(it):\n    return [x for x in it]\n"),
        (
            "from a._async_client import AsyncClient\n\n\ndef one(ask: Awaitable[AsyncClient]):\n    ask.aclose()\n",
            "from a._client import Client\n\n\ndef one(ask: Client):\n    ask.close()\n",
        ),
        ("async def one():\n    return await beside(work, 1, b=2)\n", "def one():\n    return work(1, b=2)\n"),
        ("async def one():\n    return await beside(lambda: two(3))\n", "def one():\n    return two(3)\n"),
        (
            "async def one():\n    await two()\n    await three()  # asynchronous alone: why\n",
            "def one():\n    two()\n",
        ),
        ('one = f"<AsyncClient of {two}>"\n', 'one = f"<Client of {two}>"\n'),
        ('one = "a AsyncClients"\n', 'one = "a AsyncClients"\n'),
    ],
)
def test_code_becomes_that_of_the_other_kind(source: str, target: str) -> None:
    assert made(source) == target


def test_a_module_says_what_it_is_made_of_and_imports_what_it_needs_in_order() -> None:
    source = "from a import x\nfrom b import beside\nfrom c._async_client import y\nfrom c._before import z\n\nx(y,z)\n"
    assert synchronous(source, TWIN).splitlines() == [
        "# Made from async_one.py by .ci/make_sync_twins.py: a change belongs there, not here.",
        *("from a import x", "from c._before import z", "from c._client import y", "", "x(y, z)"),
    ]


def test_examples_wait_no_more() -> None:
    source = in_docstring(
        ">>> (await client.ask()).answer",
        "42",
        ">>> async with AsyncClient() as client:",
        "...     await client.ask()  # at once",
        "42",
    )
    target = in_docstring(
        ">>> client.ask().answer",
        "42",
        ">>> with Client() as client:",
        "...     client.ask()  # at once",
        "42",
    )
    assert made(source) == target


def test_words_are_replaced_wherever_lines_end_and_the_paragraph_is_filled_anew() -> None:
    long = "that goes on for as long as it has to, and for so many words that it does not end in the line"
    source = in_docstring("It runs on a", f"task of its own {long}", "in which it began.", "", "The next one stays.")
    filled = [f"It runs on a thread of its own {long[:-9]}", "the line in which it began.", "", "The next one stays."]
    assert made(source, [("a task of its own", "a thread of its own")]) == in_docstring(*filled)


def test_an_argument_is_filled_apart_from_its_neighbours() -> None:
    source = in_docstring("Args:", "    a: One.", "    b: A function, or", "        an awaitable.", "    c: Three.")
    target = in_docstring("Args:", "    a: One.", "    b: A function.", "    c: Three.")
    assert made(source, [("function, or an awaitable.", "function.")]) == target


def test_a_paragraph_of_one_kind_alone_is_left_out() -> None:
    source = in_docstring("First.", "", "Of tasks", "alone.", "", "Last.")
    assert made(source, [("Of tasks alone.", "")]) == in_docstring("First.", "", "Last.")
    assert made(source, [("Last.", "")]) == in_docstring("First.", "", "Of tasks", "alone.")


def test_a_rule_that_has_nothing_to_do_is_an_error() -> None:
    with pytest.raises(TwinError, match=r"async_one.py does not say 'a task'"):
        made("one = 1\n", [("a task", "a thread")])


def test_every_name_of_the_rules_stands_in_a_source() -> None:
    sources = "".join((ROOT / twin.source).read_text(encoding="utf-8") for twin in TWINS)
    names = {name for twin in TWINS for name in twin.names}
    assert {name for name in names if not re.search(rf"\b{name}\b", sources)} == set()


def test_a_twin_that_was_changed_by_hand_is_named_with_the_cure_and_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = min(TWINS, key=lambda one: (ROOT / one.source).stat().st_size)
    monkeypatch.setattr("make_sync_twins.read_twins", lambda _: [twin])
    for name in (".ci/sync_twins.toml", twin.source, twin.target):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert main(["--check"], tmp_path) == 0
    changed = tmp_path / twin.target
    before = changed.read_text(encoding="utf-8")
    changed.write_text(before + "x = 1\n", encoding="utf-8")
    assert main(["--check"], tmp_path) == 1
    said = capsys.readouterr().out
    assert f"{twin.target} is not what is made of {twin.source}" in said
    assert "run python .ci/make_sync_twins.py" in said
    assert "-x = 1" in said
    assert main([], tmp_path) == 0
    assert changed.read_text(encoding="utf-8") == before
