"""The command: its help, its keys, its errors, the demo."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import databases
import httpx
import pytest
from process_server import (
    CALLS_THIS_MACHINE,
    COMMAND,
    PATIENCE_SECONDS,
    Child,
    ServerProcess,
    child_environment,
    run_command,
)

from mirror_sdk.webhook import WebhookReceiver

pytestmark = pytest.mark.process

_KEY = re.compile(r"ak_([0-9a-f]{16})_([\w-]{43})")


def status(url: str, key: str, path: str = "/v3/devices") -> int:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.get(f"{url}{path}", headers=headers, timeout=60, trust_env=False).status_code


def assert_one_line_error(finished: subprocess.CompletedProcess[str], *words: str) -> None:
    assert finished.returncode != 0
    assert "Traceback" not in finished.stderr
    (line,) = finished.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert word in line


def test_help_is_readable() -> None:
    words = {
        "": ["demo", "run", "keys", "    mirror-server keys create my-app --database sqlite:///mirror.db\n"],
        "run": ["--host", "--port", "--database", "--simulate", "--clock", "MIRROR_DATABASE", "Ctrl-C"],
        "keys": ["create", "list", "renew", "revoke"],
        "keys create": ["NAME", "--scope", "shown this once"],
        "demo": ["\n    export API_HOST=...\n    export API_KEY=...\n"],
    }

    for name, wanted in words.items():
        finished = run_command(*name.split(), "--help")
        assert finished.returncode == 0
        assert finished.stderr == ""
        assert [word for word in wanted if word not in finished.stdout] == []
        assert "\\b" not in finished.stdout
        assert max(map(len, finished.stdout.splitlines())) <= 80


def test_key_is_alone_on_stdout_is_stored_as_a_hash_and_is_refused_at_once_when_revoked(
    shared_server: ServerProcess,
) -> None:
    database = ["--database", shared_server.database_url]
    created = run_command("keys", "create", "plant", "--scope", "read", "--scope", "write", *database)

    key = created.stdout.strip()
    assert created.returncode == 0
    assert created.stdout == f"{key}\n"
    match = _KEY.fullmatch(key)
    assert match is not None
    key_id, secret = match.groups()
    assert status(shared_server.url, key) == 200
    stored = str(databases.query(shared_server.database_url, "SELECT * FROM access_keys"))
    assert key_id in stored
    assert secret not in stored

    listed = run_command("keys", "list", *database).stdout
    assert secret not in listed
    (line,) = [line for line in listed.splitlines() if key_id in line]
    assert line.split("\t")[1:3] == ["plant", "read,write"]
    assert line.endswith("in use")

    assert run_command("keys", "revoke", key_id, *database).returncode == 0
    assert status(shared_server.url, key) == 401
    assert re.search(rf"{key_id}.*revoked 20", run_command("keys", "list", *database).stdout)
    assert_one_line_error(run_command("keys", "revoke", key_id, *database), key_id, "keys list")


def test_key_without_given_scopes_reads_writes_and_subscribes_but_plays_no_devices(
    shared_server: ServerProcess,
) -> None:
    database = ["--database", shared_server.database_url]
    plain = run_command("keys", "create", "plain", *database).stdout.strip()
    admin = run_command("keys", "create", "bench", "--scope", "admin", *database).stdout.strip()

    assert [status(shared_server.url, key) for key in (plain, admin)] == [200, 403]
    assert [status(shared_server.url, key, "/sim/v1/devices") for key in (plain, admin)] == [403, 200]


def test_run_takes_settings_from_the_environment_and_answers_as_soon_as_its_address_is_printed(
    tmp_path: Path,
) -> None:
    database_url = f"sqlite:///{tmp_path / 'from-environment.db'}"
    variables = {
        "MIRROR_PORT": "0",
        "MIRROR_DATABASE": database_url,
        "MIRROR_SIMULATE": "1",
        "MIRROR_CLOCK": "manual",
        "MIRROR_HOST": "127.0.0.1",
    }
    child = Child("run", stderr_path=tmp_path / "stderr.txt", **variables)
    try:
        url = child.read_line().removeprefix(f"Serving {database_url} on ")
        assert httpx.get(f"{url}/healthz", timeout=60, trust_env=False).status_code == 200
        created = run_command("keys", "create", "admin", "--scope", "admin", MIRROR_DATABASE=database_url)
        headers = {"Authorization": f"Bearer {created.stdout.strip()}"}

        with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as client:
            assert client.get("/sim/v1/clock").json()["manual"] is True
            assert len(client.get("/sim/v1/devices").json()["data"]) == 1
    finally:
        child.kill()


def test_printed_address_of_an_ipv6_host_can_be_used(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 loopback here")
    database_url = f"sqlite:///{tmp_path / 'mirror.db'}"
    child = Child(
        "run", "--host", "::1", "--port", "0", "--database", database_url, stderr_path=tmp_path / "stderr.txt"
    )
    try:
        url = child.read_line().rpartition(" on ")[2]
        assert httpx.get(f"{url}/healthz", timeout=60, trust_env=False).status_code == 200
    finally:
        child.kill()


def test_taken_port_is_a_one_line_error(shared_server: ServerProcess, tmp_path: Path) -> None:
    second = run_command("run", "--port", str(shared_server.port), "--database", f"sqlite:///{tmp_path / 'other.db'}")

    assert_one_line_error(second, f"127.0.0.1:{shared_server.port}", "--port")


def test_server_with_too_few_open_files_does_not_start(tmp_path: Path) -> None:
    finished = subprocess.run(
        ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *COMMAND, "run", "--port", "0"],
        env=child_environment(MIRROR_DATABASE=f"sqlite:///{tmp_path / 'mirror.db'}"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert_one_line_error(finished, "256 open files", "ulimit -n 25300")


def test_host_of_another_machine_is_a_one_line_error(tmp_path: Path) -> None:
    finished = run_command("run", "--host", "192.0.2.1", "--database", f"sqlite:///{tmp_path / 'mirror.db'}")

    assert_one_line_error(finished, "192.0.2.1")


def test_database_of_another_kind_is_a_one_line_error() -> None:
    url = "mysql://host/mirror"
    for words in (["run", "--port", "0"], ["keys", "create", "name"]):
        assert_one_line_error(run_command(*words, "--database", url), url, "sqlite:///FILE")


def test_database_that_cannot_be_opened_is_a_one_line_error(tmp_path: Path) -> None:
    missing, folder = tmp_path / "missing" / "mirror.db", tmp_path
    run = ["run", "--port", "0"]
    for words, path in ((run, missing), (run, folder), (["keys", "list"], missing)):
        assert_one_line_error(run_command(*words, "--database", f"sqlite:///{path}"), str(path))


def test_file_that_is_no_database_is_a_one_line_error_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("what must not be lost\n" * 100)

    assert_one_line_error(run_command("run", "--port", "0", "--database", f"sqlite:///{path}"), str(path))
    assert path.read_text() == "what must not be lost\n" * 100


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_folder_that_cannot_be_written_is_a_one_line_error(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)

    finished = run_command("run", "--port", "0", "--database", f"sqlite:///{folder / 'mirror.db'}")

    assert_one_line_error(finished, str(folder))


@pytest.mark.parametrize(("signal_number", "at_once"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_demo_prints_two_lines_that_work_and_removes_its_folder(
    signal_number: int, at_once: bool, tmp_path: Path
) -> None:
    child = Child("demo", "--port", "0", "--devices", "3", stderr_path=tmp_path / "stderr.txt", TMPDIR=str(tmp_path))
    try:
        exports = dict(child.read_line().removeprefix("export ").split("=", 1) for _ in range(2))
        assert list(exports) == ["API_HOST", "API_KEY"]
        assert list(tmp_path.glob("mirror-demo-*"))
        if not at_once:
            headers = {"Authorization": f"Bearer {exports['API_KEY']}"}
            listed = httpx.get(f"{exports['API_HOST']}/v3/devices", headers=headers, timeout=60, trust_env=False)
            assert len(listed.json()["data"]) == 3

        child.send(signal_number)

        assert child.wait() == 0
        assert not list(tmp_path.glob("mirror-demo-*"))
        assert "Traceback" not in child.stderr
    finally:
        child.kill()


@pytest.mark.sqlite
def test_stopped_server_leaves_a_database_of_one_file_and_its_lock(start_server) -> None:
    server: ServerProcess = start_server("--simulate", "1")
    assert status(server.url, server.key()) == 200

    assert server.stop() == 0
    assert {path.name for path in server.database_path.parent.glob("mirror.db*")} == {"mirror.db", "mirror.db.lock"}


def test_its_own_machine_is_called_only_where_the_operator_says_so(start_server) -> None:
    with WebhookReceiver() as receiver:
        body = {"url": receiver.url, "headers": dict(receiver.headers)}
        for options, code in {(): 400, CALLS_THIS_MACHINE: 204}.items():
            application = start_server(*options).application()
            assert application.http.put("/v2/notification/callback", json=body).status_code == code


def test_who_sends_a_request_is_told_by_a_named_proxy_alone(start_server) -> None:
    for options, code in {(): 429, ("--trust-proxy", "127.0.0.1"): 401}.items():
        server = start_server("--failed-keys-per-minute", "1", *options)
        for address in ("203.0.113.1", "203.0.113.2"):
            headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": address}
            answered = httpx.get(f"{server.url}/v3/devices", headers=headers, timeout=60, trust_env=False).status_code
        assert answered == code
