"""Workers of gunicorn that share a PostgreSQL database."""

import os
import signal
from pathlib import Path

import databases
import pytest
from process_server import Application, wait_until
from test_process_wsgi_servers import LEVEL, WsgiProcess

pytestmark = pytest.mark.process


def test_gunicorn_workers_share_a_postgresql_database_and_survive_a_kill(tmp_path: Path) -> None:
    server = WsgiProcess("workers", tmp_path)
    server.database_url = databases.new_postgresql_url()
    server.start()
    app = Application(server.url, server.key())
    # Without persistent connections, each request may reach another worker.
    app.http.headers["Connection"] = "close"
    try:
        device = app.add_device(app.key.split("_")[1], {"path": LEVEL, "value": "0", "writable": True})
        workers = wait_until(lambda: _workers(server, 3), "all workers")
        # A process that opens websockets may serve the same database.
        assert app.http.put("/v2/notification/websocket").status_code == 201
        assert app.http.delete("/v2/notification/websocket").status_code == 204
        for number in range(30):
            assert app.write(device, LEVEL, str(number), f"w{number}").status_code == 202
            if number == 15:
                os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: len(app.responses()) == 30, "all responses")
        assert {found[0]["status"] for found in app.responses().values()} == {200}
        wait_until(lambda: app.http.get("/sim/v1/devices").status_code == 200, "a worker that leads")
        assert app.simulated_values(device) == {LEVEL: "29"}
        assert len(wait_until(lambda: _workers(server, 3), "the worker's successor")) == 3
    finally:
        app.http.close()
        assert server.stop() == 0
    assert "Traceback" not in server.log_path.read_text()


def _workers(server: WsgiProcess, count: int) -> list[int]:
    """Return the process ids of the workers if there are that many."""
    found = [
        int(pid) for pid in Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    ]
    return found if len(found) == count else []
