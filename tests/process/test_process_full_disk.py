"""A disk that fills up under a running server: the server reports it, survives, and recovers when there is space."""

from __future__ import annotations

import resource
import sys

import pytest
from process_server import Application, ServerProcess, run_command, wait_until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits another process"),
]

NOTE = "/3341/0/5527"


def limit_files(server: ServerProcess, size_bytes: int) -> None:
    """Let no file of the server grow beyond the size, as if the disk were full."""
    _, most = resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (size_bytes, most))


def write_until_rejected(application: Application, device_id: str) -> list[str]:
    accepted = []
    for number in range(500):
        answer = application.write(device_id, NOTE, "x" * 5000, f"fill-{number}")
        if answer.status_code == 202:
            accepted.append(f"fill-{number}")
            wait_until(lambda number=number: completed_or_failing(application, f"fill-{number}"), "an answer")
        elif answer.status_code == 503:
            body = answer.json()
            assert (body["type"], body["reason"]) == ("unavailable", "STORAGE_FAILED")
            assert int(answer.headers["Retry-After"]) > 0
            return accepted
    raise AssertionError("the disk never was full")


def completed_or_failing(application: Application, async_id: str) -> bool:
    return async_id in application.responses() or application.http.get("/readyz").status_code == 503


@pytest.mark.sqlite
def test_full_disk_is_reported_and_survived(start_server) -> None:
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    device_id = application.add_device("d", {"path": NOTE, "value": "", "writable": True, "observable": True})
    assert application.write(device_id, NOTE, "first", "first").status_code == 202
    assert application.response("first")["status"] == 200
    wal = server.database_path.with_name("mirror.db-wal")

    limit_files(server, max(wal.stat().st_size, server.database_path.stat().st_size) + 100_000)
    accepted = write_until_rejected(application, device_id)
    # A value larger than the remaining space is rejected before the last page is used; each probe uses one.
    wait_until(lambda: application.http.get("/readyz").status_code == 503, "the last room to be taken")

    assert application.http.get("/healthz").status_code == 200
    assert application.http.get(f"/v3/devices/{device_id}/echo").status_code == 200
    assert application.http.put("/v2/subscriptions", json=[{"endpoint-type": "x" * 60}] * 900).status_code == 503
    responses = application.responses()
    assert "first" in responses
    assert run_command("check", "--database", server.database_url).stdout == "no problems found\n"

    limit_files(server, resource.RLIM_INFINITY)
    wait_until(lambda: application.http.get("/readyz").status_code == 200, "the server to store again")
    for async_id in accepted:
        assert application.response(async_id)["status"] == 200
    assert application.write(device_id, NOTE, "last", "last").status_code == 202
    assert application.response("last")["status"] == 200
    assert {async_id: len(found) for async_id, found in application.responses().items()} == dict.fromkeys(
        ["first", *accepted, "last"], 1
    )
    assert server.stop() == 0
    assert "Traceback" not in server.stderr
    failures = server.stderr.count("cannot write to the database")
    assert failures == server.stderr.count("the database stores changes again")
    assert run_command("check", "--database", server.database_url).stdout == "no problems found\n"
