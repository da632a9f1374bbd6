"""The command: its help, its keys, its errors, the demo."""

from __future__ import annotations

import os
import re
import socket
import subprocess

import click
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
from mirror_server.cli import main

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


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["demo", "    mirror-server keys create my-app --database sqlite:///mirror.db\n"]),
        (["run"], ["MIRROR_DATABASE", "Ctrl-C"]),
        (["keys"], ["create", "list", "renew", "revoke"]),
        (["keys", "create"], ["NAME", "printed only once"]),
        (["demo"], ["\n    export API_HOST=...\n    export API_KEY=...\n"]),
    ],
)
def test_help_is_readable_and_names_every_option_with_its_variable(words, expected):
    finished = run_command(*words, "--help")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "\\b" not in finished.stdout
    assert max(map(len, finished.stdout.splitlines())) <= 80
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word) or pytest.fail(word)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            expected = [*expected, *parameter.opts, *([str(parameter.envvar)] if parameter.envvar else [])]
    assert [word for word in expected if word not in finished.stdout] == []


def test_key_is_alone_on_stdout_stored_as_a_hash_and_rejected_at_once_when_revoked(shared_server):
    database = ["--database", shared_server.database_url]
    created = run_command("keys", "create", "plant", *database)

    key = created.stdout.strip()
    assert created.returncode == 0
    assert created.stdout == f"{key}\n"
    match = _KEY.fullmatch(key)
    assert match is not None
    key_id, secret = match.groups()
    assert [status(shared_server.url, key, path) for path in ("/v3/devices", "/sim/v1/devices")] == [200, 403]
    stored = str(databases.query(shared_server.database_url, "SELECT * FROM access_keys"))
    assert key_id in stored
    assert secret not in stored

    listed = run_command("keys", "list", *database).stdout
    assert secret not in listed
    (line,) = [line for line in listed.splitlines() if key_id in line]
    assert line.split("\t")[1:3] == ["plant", "read,subscribe,write"]
    assert line.endswith("in use")

    assert run_command("keys", "revoke", key_id, *database).returncode == 0
    assert status(shared_server.url, key) == 401
    assert re.search(rf"{key_id}.*revoked 20", run_command("keys", "list", *database).stdout)
    assert_one_line_error(
        run_command("keys", "revoke", key_id, *database), f"no active key has the id '{key_id}'", "keys list"
    )


def test_run_reads_settings_from_the_environment_and_responds_once_its_address_is_printed(tmp_path):
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


def test_printed_address_of_an_ipv6_host_can_be_used(tmp_path):
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


def test_server_with_too_few_open_files_does_not_start(tmp_path):
    finished = subprocess.run(
        ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *COMMAND, "run", "--port", "0"],
        env=child_environment(MIRROR_DATABASE=f"sqlite:///{tmp_path / 'mirror.db'}"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert_one_line_error(finished, "256 open files", "ulimit -n 25300")


def test_database_that_cannot_be_served_is_a_one_line_error(shared_server, tmp_path):
    missing, notes, other = tmp_path / "missing" / "mirror.db", tmp_path / "notes.txt", tmp_path / "other.db"
    notes.write_text("what must not be lost\n" * 100)
    run = ("run", "--port", "0", "--database")
    for words, messages in (
        (("run", "--port", str(shared_server.port), "--database", f"sqlite:///{other}"), ("127.0.0.1:", "--port")),
        (("run", "--host", "192.0.2.1", "--database", f"sqlite:///{other}"), ("192.0.2.1",)),
        ((*run, "mysql://host/mirror"), ("mysql://host/mirror", "sqlite:///FILE")),
        ((*run, f"sqlite:///{missing}"), (str(missing),)),
        ((*run, f"sqlite:///{tmp_path}"), (str(tmp_path),)),
        ((*run, f"sqlite:///{notes}"), (str(notes),)),
        (("keys", "list", "--database", f"sqlite:///{missing}"), (str(missing),)),
    ):
        assert_one_line_error(run_command(*words), *messages)
    assert notes.read_text() == "what must not be lost\n" * 100


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_folder_that_cannot_be_written_is_a_one_line_error(tmp_path):
    folder = tmp_path / "read-only"
    folder.mkdir(mode=0o555)

    finished = run_command("run", "--port", "0", "--database", f"sqlite:///{folder / 'mirror.db'}")

    assert_one_line_error(finished, str(folder))


@pytest.mark.sqlite
def test_stopped_server_leaves_a_database_of_one_file_and_its_lock(start_server):
    server: ServerProcess = start_server("--simulate", "1")
    assert status(server.url, server.key()) == 200

    assert server.stop() == 0
    assert {path.name for path in server.database_path.parent.glob("mirror.db*")} == {"mirror.db", "mirror.db.lock"}


def test_the_server_calls_its_own_machine_only_if_the_operator_allows_it(start_server):
    with WebhookReceiver() as receiver:
        body = {"url": receiver.url, "headers": dict(receiver.headers)}
        for options, code in {(): 400, CALLS_THIS_MACHINE: 204}.items():
            application = start_server(*options).application()
            assert application.http.put("/v2/notification/callback", json=body).status_code == code


def test_only_a_trusted_proxy_determines_the_client(start_server):
    for options, code in {(): 429, ("--trust-proxy", "127.0.0.1"): 401}.items():
        server = start_server("--failed-keys-per-minute", "1", *options)
        for address in ("203.0.113.1", "203.0.113.2"):
            headers = {"Authorization": "Bearer wrong", "X-Forwarded-For": address}
            status_code = httpx.get(
                f"{server.url}/v3/devices", headers=headers, timeout=60, trust_env=False
            ).status_code
        assert status_code == code
