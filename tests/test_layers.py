"""Imports between the parts of the project go in one direction, and a plain install imports no optional dependency."""

import json
import os
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
WHEEL_PACKAGES = [name for name in WHEEL if (ROOT / name / "__init__.py").exists()]
MODULES_OF_EXTRAS = {
    "flask",
    "ipywidgets",
    "IPython",
    "matplotlib",
    "numpy",
    "orjson",
    "pandas",
    "pyarrow",
    "tqdm",
    "uvicorn",
}


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("module", ["mirror_sdk", "mirror_sdk.cli", "mirror_sdk.testing.plugin"])
def test_the_sdk_imports_nothing_of_an_extra_and_says_nothing(module: str) -> None:
    answer = _run("-W", "error", "-c", f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))")
    assert answer.returncode == 0, answer.stderr
    imported = {name.partition(".")[0] for name in json.loads(answer.stdout)}
    assert imported & (MODULES_OF_EXTRAS | {"mirror_server"}) == set()


@pytest.mark.parametrize("package", WHEEL_PACKAGES)
def test_nothing_is_imported_past_the_type_checkers(package: str) -> None:
    """Attributes of the result of ``import_module`` have any name and type for a type checker."""
    files = [file for file in (ROOT / package).rglob("*.py") if "import_module(" in file.read_text(encoding="utf-8")]
    # These declare their imports for type checkers; the last three only import hooks.
    allowed = ["__init__.py", "testing/__init__.py", "widgets/__init__.py", "_lazy_command_group.py", "_fork.py"]
    allowed = [*(f"mirror_sdk/{name}" for name in allowed), "mirror_server/hooks.py"]
    assert {file.relative_to(ROOT).as_posix() for file in files} <= set(allowed)


def test_no_module_of_the_sdk_imports_itself_through_others() -> None:
    """Imports for type checkers and within functions count too."""
    graph = grimp.build_graph("mirror_sdk", exclude_type_checking_imports=False, cache_dir=None)
    TopologicalSorter({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}).prepare()


def test_tests_without_a_browser_do_not_import_browser_drivers() -> None:
    heavy = re.compile(r"^\s*(?:from|import) (?:playwright|nbformat|nbval|jupyter\w*)\b", re.MULTILINE)
    tests = ROOT / "tests"
    loading = {file for file in tests.rglob("*.py") if heavy.search(file.read_text(encoding="utf-8"))}
    browser = tests / "system" / "browser"
    assert loading
    assert {file for file in loading if not file.is_relative_to(browser)} == set()


@pytest.mark.parametrize("package", WHEEL_PACKAGES)
def test_a_package_of_the_wheel_is_marked_as_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("name", [*PROJECT["project"]["license-files"], PROJECT["project"]["readme"]])
def test_files_named_in_the_package_metadata_exist(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()
