"""The checker of names and texts reports each kind of problem with its line, and nothing else."""

from pathlib import Path

import check_english
import pytest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check_english, "ROOT", tmp_path)
    (tmp_path / "mirror_sdk").mkdir()
    return tmp_path


def problems(tree: Path, source: str, name: str = "mirror_sdk/module.py") -> list[str]:
    path = tree / name
    path.write_text(source)
    return [problem.removeprefix(f"{name}:") for problem in check_english.check(path)]


LONG = " ".join(["word"] * 31)


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("def f(what_was_asked): ...\n", "1: name what_was_asked: 'asked'"),
        ("class Untold: ...\n", "1: name Untold: 'untold'"),
        ("x = 1\ntold = x\n", "2: name told: 'told'"),
        ("self.kept_at = 1\n", "1: name kept_at: 'kept'"),
        ('"""A module.\n\nWhoever reads this.\n"""\n', "3: 'Whoever'"),
        ("x = 1  # nobody\n", "1: 'nobody'"),
        ('raise ValueError("7 is none of 1, 2")\n', "1: 'is none'"),
        ('def f():\n    """What it does."""\n', "2: docstring begins with 'What'"),
        ('"""Where values are."""\n', "1: docstring begins with 'Where'"),
        ('x = 1\n"""Whose value it is."""\n', "2: docstring begins with 'Whose'"),
        (f'def f():\n    """Return a value.\n\n    {LONG}.\n    """\n', "4: 31 words"),
        (f'x = 1\n"""The value. {LONG}."""\n', "2: 31 words"),
        ('"""A module.\n\n>>> told\n1\n\nIt is told.\n"""\n', "6: 'told'"),
        ('"""A module.\n\n| told |\n\nIt is told.\n"""\n', "5: 'told'"),
    ],
)
def test_a_private_word_or_phrase_an_opening_and_a_long_sentence_are_reported(
    tree: Path, source: str, problem: str
) -> None:
    assert any(found.startswith(problem) for found in problems(tree, source)), problems(tree, source)


def test_docstrings_of_tests_begin_with_a_verb_or_noun(tree: Path) -> None:
    (tree / "tests").mkdir()
    (problem,) = problems(tree, 'def helper():\n    """What it does."""\n', "tests/test_module.py")
    assert problem.startswith("2: docstring begins with 'What'")


def test_of_scripts_and_style_sheets_comments_are_checked(tree: Path) -> None:
    source = "const told = 1\n// nobody\n/* The\n whoever. */\nconst url = 'https://told'\n"
    for suffix in ("ts", "tsx", "css", "mjs"):
        found = [problem.partition(": ")[::2] for problem in problems(tree, source, f"mirror_sdk/module.{suffix}")]
        assert [(line, text[:8]) for line, text in found] == [("2", "'nobody'"), ("4", "'whoever")]


def test_notebooks_and_pages_are_checked(tree: Path) -> None:
    assert problems(tree, "# A page\n\nIt is told.\n", "page.md")[0].startswith("3: 'told'")
    cells = (
        '{"cells": [{"cell_type": "markdown", "source": ["Nobody."]}, {"cell_type": "code", "source": ["told = 1"]}]}'
    )
    assert [problem.partition(":")[2][:9] for problem in problems(tree, cells, "one.ipynb")] == [" 'Nobody'"]


@pytest.mark.parametrize(
    "source",
    [
        "# Made from other.py by a script\ntold = 1\n",
        f'def _private():\n    """Return a value. {LONG}."""\n',
        '"""A module.\n\nSee ``told`` and :class:`Told`::\n\n    told = ask()\n\n>>> told\n1\n"""\n',
        '"""A module.\n\n- one point of a list with some words that follow it\n- '
        + " ".join(["word"] * 25)
        + '\n"""\n',
        "print(told, f(asked=1))\n",
        "there_is_no_x = 'there is no such name'\n",
    ],
)
def test_generated_modules_code_lists_and_uses_of_names_are_not_reported(tree: Path, source: str) -> None:
    assert problems(tree, source) == []


def test_two_classes_of_one_name_are_reported_but_not_in_generated_modules(tree: Path) -> None:
    files = [tree / "mirror_sdk" / name for name in ("a.py", "b.py", "c.py")]
    files[0].write_text("class Request: ...\n")
    files[1].write_text("x = 1\nclass Request: ...\n")
    files[2].write_text("# Made from a.py by a script\nclass Request: ...\n")
    (problem,) = check_english.check_classes(files)
    assert problem.startswith("mirror_sdk/b.py:2: class Request is also in mirror_sdk/a.py:1")


def test_existing_files_with_text_are_checked(tree: Path) -> None:
    for name in ("mirror_sdk/module.py", "page.md", "data.json"):
        (tree / name).write_text("")
    found = check_english.checked_files(["page.md", "mirror_sdk/module.py", "mirror_sdk/deleted.py", "data.json", ""])
    assert found == [tree / "mirror_sdk/module.py", tree / "page.md"]
