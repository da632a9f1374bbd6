"""The mutants of a small module: each is made once, compiles, and is found again where its lines have moved."""

import ast
from pathlib import Path

import mutants
import pytest

SOURCE = '''
LIMIT = 1


def is_full(length: int, limit: int = 3) -> bool:
    """Nothing of this."""
    if length < 0:
        raise ValueError(f"{length < 0} is not a length")
    return length >= limit
'''
EXPECTED = [
    ("comparison", "if length <= 0:"),
    ("constant", "if length < 1:"),
    ("branch", "if not length < 0:"),
    ("branch", "if length < 0 and False:"),
    ("return", "return not length >= limit"),
    ("comparison", "return length > limit"),
]


def test_mutants_are_defects_of_functions() -> None:
    found = [(mutant.kind, mutant.mutated) for mutant, _ in mutants.find_all("core/a.py", SOURCE)]
    assert sorted(found) == sorted(EXPECTED)


def test_source_of_a_mutant_differs_in_its_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE, encoding="utf-8")
    for mutant, place in mutants.find_all("a.py", SOURCE):
        changed = ast.unparse(ast.parse(place.source()))
        assert changed == ast.unparse(ast.parse(SOURCE)).replace(mutant.original, mutant.mutated)


def test_mutant_is_found_again_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = tmp_path / "b.py"
    moved.write_text(f"import os\n{SOURCE.replace('>= limit', '> limit')}", encoding="utf-8")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "source_files", lambda: [moved])
    wanted = [mutant for mutant, _ in mutants.find_all("a.py", SOURCE)]
    places = mutants.find_again(wanted)
    gone = [mutant.mutated for mutant in wanted if mutant.key not in places]
    assert gone == ["return not length >= limit", "return length > limit"]
