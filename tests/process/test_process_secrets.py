"""The log of the server never contains the secret of a key, nor a value."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
from process_server import ServerProcess, encoded, run_command
from resource_paths import SWITCH

pytestmark = pytest.mark.process

VALUE = "planted-value-2f9c"


def test_no_secret_and_no_value_is_in_the_log(start_server) -> None:
    server: ServerProcess = start_server("--simulate", "1")
    database = ["--database", server.database_url]
    created = run_command(
        "keys", "create", "plant", *[f"--scope={word}" for word in ("read", "write", "admin")], *database
    )
    key = created.stdout.strip()
    secret = key.split("_", 2)[2]
    application = server.client(key)
    device_id = application.add_device("plant", {"path": SWITCH, "value": VALUE, "writable": True})

    application.write(device_id, SWITCH, VALUE, "planted-write")
    application.read(device_id, SWITCH, "planted-read")
    assert application.response("planted-read")["payload"] == encoded(VALUE)
    application.patch_device(device_id, answer="reject")
    application.write(device_id, SWITCH, VALUE, "planted-failure")
    application.response("planted-failure")
    rejected = [
        application.write(device_id, "/9/9/9", VALUE, "unknown-path"),
        application.write(device_id, SWITCH, VALUE, "unknown-field", unknown=VALUE),
        application.write("unknown", SWITCH, VALUE, "unknown-device"),
        application.http.post(f"/v2/device-requests/{device_id}", content=f'{{"payload-b64":"{VALUE}"'),
        application.http.post(f"/v2/device-requests/{device_id}", content=VALUE * 100_000),
        application.http.put("/v2/subscriptions", json=[]),
        server.client(f"{key}x").http.get("/v3/devices"),
        server.client(secret).http.get("/v3/devices"),
    ]
    assert [response.status_code for response in rejected] == [400, 400, 404, 400, 413, 403, 401, 401]
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as connection:
        connection.sendall(f"GARBAGE {VALUE}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")
    assert server.stop() == 0

    log = server.stderr
    assert "Started server process" in log
    for planted in (secret, VALUE, encoded(VALUE)):
        assert planted not in log
        assert planted not in created.stderr
