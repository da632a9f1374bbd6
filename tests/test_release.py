"""Version and changelog of a release, and its errors. ``.ci/run`` makes a complete release and keeps nothing."""

import re
from pathlib import Path

import pytest
from release import ROOT, build, dated, prepare

CHANGELOG = """# Changelog

## [Unreleased]

### Added

- A thing.

## [0.1.0] - 2026-01-01

### Fixed

- Another.
"""
PROJECT = '[project]\nname = "it"\nversion = "0.1.0"\nrequires = ["other>=0.1.0"]\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def test_version_and_date_are_written_and_a_new_section_begins(tree: Path) -> None:
    prepare(tree, "0.2.0", "2026-02-01")
    assert (tree / "pyproject.toml").read_text() == PROJECT.replace('version = "0.1.0"', 'version = "0.2.0"')
    headings = re.findall("^##+ .*$", (tree / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = ["## [0.2.0] - 2026-02-01", "### Added", "## [0.1.0] - 2026-01-01", "### Fixed"]
    assert headings == ["## [Unreleased]", *released]


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9", "0.2", "v0.2.0", "0.2.0rc1"])
def test_a_version_that_is_not_above_the_last_one_changes_nothing(tree: Path, version: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(version)):
        prepare(tree, version, "2026-02-01")
    assert (tree / "pyproject.toml").read_text() == PROJECT
    assert (tree / "CHANGELOG.md").read_text() == CHANGELOG


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        (CHANGELOG.replace("- A thing.\n", ""), "nothing under Unreleased"),
        (CHANGELOG.replace("## [Unreleased]\n", ""), "nothing under Unreleased"),
        (CHANGELOG.replace("### Added", "### New"), "New is not one of"),
    ],
)
def test_a_changelog_without_a_valid_unreleased_section_is_rejected(changelog: str, reason: str) -> None:
    with pytest.raises(SystemExit, match=reason):
        dated(changelog, "0.2.0", "2026-02-01")


def test_a_step_that_fails_ends_it_with_the_command_that_failed(tree: Path) -> None:
    with pytest.raises(SystemExit, match=r"^no release: .*sphinx.* failed$"):
        build(tree, tree / "doctrees")


def test_the_changelog_of_this_project_can_be_released() -> None:
    dated((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "99.0.0", "2026-02-01")
