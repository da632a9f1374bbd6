"""``examples.connect()``: uses a running mirror, or starts one for the program or notebook."""

from __future__ import annotations

import pytest
from process_server import child_environment, responds, run_python

pytestmark = pytest.mark.process

STARTED = "No mirror is running{}: started one with 12 simulated devices for this program."
PROGRAM = """
from mirror_sdk import AsyncMirrorClient, examples
for _ in range(2):
    with examples.connect() as client:
        print(client.base_url, client.service.is_healthy() and len(client.devices.list()))
print(AsyncMirrorClient.from_env().base_url)
"""


def run_connecting(program: str = PROGRAM, **variables: str) -> list[str]:
    """Return the output of a program that connects twice and creates another client."""
    inherited = {name: value for name, value in child_environment().items() if name not in {"API_HOST", "API_KEY"}}
    run = run_python("-c", program, env=inherited | variables)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_a_running_mirror_is_used_without_a_message(demo_environment: dict[str, str]) -> None:
    url = demo_environment["API_HOST"]
    assert run_connecting(**demo_environment) == [f"{url} 12", f"{url} 12", url]


@pytest.mark.parametrize("host", ["", "localhost:9"])
def test_without_a_running_mirror_one_is_started_and_ends_with_the_program(host: str) -> None:
    started, first, second, other = run_connecting(API_HOST=host, API_KEY="ak_old")
    assert started == STARTED.format(f" at {host}, the address in API_HOST" if host else "")
    assert first == second == f"{other} 12"
    assert not responds(other)


def test_a_mirror_elsewhere_is_never_replaced() -> None:
    program = PROGRAM.replace("client.service.is_healthy() and len(client.devices.list())", "'not asked'")
    url = "https://mirror.invalid"
    assert run_connecting(program, API_HOST=url, API_KEY="ak_real") == [f"{url} not asked", f"{url} not asked", url]
