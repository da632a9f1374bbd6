"""Configuration of tests that need programs of the system: a browser, PostgreSQL, PgBouncer, Node, and DTLS.

``pytest`` alone does not collect them; ``pytest tests/system`` does. ``.ci/run`` installs what they need.
"""

from importlib.util import find_spec

import databases
import packages
import pytest

LONGEST = (
    "test_every_benchmark.py",
    "test_binder_image.py",
    "test_notebooks_by_nbval.py",
    "test_user_script.py",
    "test_process_programs_for_javascript.py",
)


def pytest_configure() -> None:
    databases.find_postgresql()
    commands = []
    if missing := packages.missing():
        commands.append(f"apt-get install {' '.join(missing)}")
    if not all(map(find_spec, ("DTLSSocket", "playwright"))):
        commands.append("pip install '.[test-system]'")
    if commands:
        raise pytest.UsageError(f"tests/system needs more than Python: {' && '.join(commands)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # If one of them started last, a single worker would be busy with it at the end.
    items.sort(key=lambda item: item.path.name not in LONGEST)
