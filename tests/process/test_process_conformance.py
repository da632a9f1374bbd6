"""The conformance tests against servers of this project, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_server import ServerProcess, child_environment

from mirror_server.service.keys import DEFAULT_SCOPES

pytestmark = pytest.mark.process

StartServer = Callable[..., ServerProcess]

PLUGIN = ["-p", "mirror_sdk.testing.plugin", "-p", "no:cacheprovider"]


def judge(folder: Path, *arguments: str, **variables: str) -> str:
    """Run the conformance tests in an empty folder; gives what they say of a server that conforms."""
    said = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-rs", *PLUGIN, *arguments],
        cwd=folder,
        env=child_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert " passed" in said.stdout
    return said.stdout


@pytest.fixture(scope="module")
def real_time_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with simulated devices whose clock runs by itself."""
    server = ServerProcess(tmp_path_factory.mktemp("real-time"), "--simulate", "2")
    try:
        yield server.start()
    finally:
        server.close()


def test_a_server_with_a_manual_clock_passes_every_test(shared_server: ServerProcess, plain_folder: Path) -> None:
    (plain_folder / "test_own.py").write_text("def test_own():\n    assert False, 'not meant'\n")
    said = judge(plain_folder, f"--mirror-url={shared_server.url}", f"--mirror-key={shared_server.key()}")
    assert "skipped" not in said


def test_a_server_on_real_time_passes_all_but_those_that_need_time(
    real_time_server: ServerProcess, plain_folder: Path
) -> None:
    variables = {"API_HOST": real_time_server.url, "API_KEY": real_time_server.key()}
    said = judge(plain_folder, "--pyargs", "mirror_sdk.testing.conformance", **variables)
    assert "the clock of the server runs by itself" in said


def test_a_server_without_a_bench_passes_the_rest(start_server: StartServer, plain_folder: Path) -> None:
    server = start_server()
    said = judge(plain_folder, f"--mirror-url={server.url}", f"--mirror-key={server.key()}")
    assert "the server has no bench" in said


def test_a_key_without_admin_reads_the_device_that_is_named(
    real_time_server: ServerProcess, plain_folder: Path
) -> None:
    application = real_time_server.application()
    device_id = application.add_device("named", {"path": "/3303/0/5700", "value": "21", "observable": True})
    key = real_time_server.key(*DEFAULT_SCOPES)
    said = judge(
        plain_folder, f"--mirror-url={real_time_server.url}", f"--mirror-key={key}", f"--mirror-device={device_id}"
    )
    assert "the key lacks the scope admin" in said
    assert "did not answer" not in said
    assert application.json("GET", f"/v3/devices/{device_id}/echo")["last_reported_at"]


def test_a_wrong_key_ends_the_run_at_once(real_time_server: ServerProcess, plain_folder: Path) -> None:
    with pytest.raises(AssertionError, match="does not take the key"):
        judge(plain_folder, f"--mirror-url={real_time_server.url}", "--mirror-key=ak_wrong")
