"""``pytest`` alone needs only Python. Tests that need programs of the system are in tests/system and name them."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def run_pytest(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *words]
    env = os.environ | environment
    return subprocess.run(command, cwd=TESTS.parent, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_tests_that_need_system_packages_are_not_collected_by_default(pytestconfig):
    assert "tests/system" in pytestconfig.getini("norecursedirs")
    assert pytestconfig.getini("testpaths") == ["tests"]


def test_system_tests_without_their_packages_fail_with_one_line_that_installs_them(tmp_path):
    ended = run_pytest("tests/system", PATH=str(tmp_path))
    assert ended.returncode == 4
    assert ended.stdout == ""
    (line,) = ended.stderr.strip().splitlines()
    assert line.startswith("ERROR: tests/system needs more than Python: apt-get install chromium fonts-dejavu-core git")
