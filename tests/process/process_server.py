"""A real server process, and functions that wait for it without sleeping."""

from __future__ import annotations

import base64
import os
import select
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx
from click.testing import CliRunner
from databases import new_database_url
from ports import free_port
from waits import PATIENCE_SECONDS, wait_until

from mirror_server.cli import main
from mirror_server.hooks import open_database
from mirror_server.service import keys as access_keys
from mirror_server.service.keys import Scope

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "mirror_server"]
DEVICE_COMMAND = [
    *(sys.executable, "-u", "-c"),
    "from mirror_server.extensions.lwm2m.device.command import main; main(prog_name='mirror-device')",
]
CALLS_THIS_MACHINE = ("--allow-callbacks-to", "127.0.0.0/8")
"""Options of a server that may send webhooks to this machine."""
TLS = ssl.create_default_context()
"""A TLS context for all clients, because each would otherwise read all certificates of the system, which takes long."""

_KEY_MADE_AT = 1_700_000_000_000
_PAUSE = threading.Event()


def wait_until_quick(act: Callable[[], object], seconds: float) -> None:
    """Repeat the action until it takes less than this. A real delay occurs each time, unlike load of the machine."""

    def is_quick() -> bool:
        began_at = time.monotonic()
        act()
        return time.monotonic() - began_at < seconds

    wait_until(is_quick, f"{act} in less than {seconds} s")


def wait_for(expected: object, read: Callable[[], Any]) -> None:
    """Read repeatedly until the result is as expected; fail with the last result if it never is."""
    end_at = time.monotonic() + PATIENCE_SECONDS
    while (found := read()) != expected and time.monotonic() < end_at:
        _PAUSE.wait(0.05)
    assert found == expected


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child process: without settings of the server, and with the source tree."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MIRROR_")}
    python_path = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")]))
    return inherited | {"PYTHONPATH": python_path} | variables


def run_command(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself, in this process, which saves its start."""
    unset = {name: None for name in os.environ if name.startswith("MIRROR_")}
    result = CliRunner(env=unset | variables).invoke(main, arguments, prog_name="mirror-server", catch_exceptions=False)
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


def run_python(*arguments: str, seconds: float = 120, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a separate process until it ends."""
    command, options = [sys.executable, *arguments], {"env": child_environment(), **options}
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def decoded(text: str) -> str:
    return base64.b64decode(text).decode()


class Child:
    """A process of a command whose output lines are read one by one."""

    def __init__(self, *arguments: str, stderr_path: Path, command: Sequence[str] = COMMAND, **variables: str) -> None:
        self.stderr_path = stderr_path
        with stderr_path.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*command, *arguments], env=child_environment(**variables), stdout=subprocess.PIPE, stderr=stderr
            )
        self._unread = b""

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text()

    def read_line(self, seconds: float = PATIENCE_SECONDS) -> str:
        """Return the next line of its standard output."""
        assert self._process.stdout is not None
        end_at = time.monotonic() + seconds
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end_at - time.monotonic()))
            assert ready, f"no line within {seconds} s; it says: {self.stderr}"
            chunk = os.read(self._process.stdout.fileno(), 65536)
            assert chunk, f"it ended instead of writing a line; it says: {self.stderr}"
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()

    def send(self, signal_number: int) -> None:
        self._process.send_signal(signal_number)

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait(seconds)

    def stop(self) -> int:
        """Stop it with a signal and return its exit code."""
        self.send(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill it without a chance to clean up."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        self.close()

    def close(self) -> None:
        """Close its output after it has ended."""
        if self._process.stdout is not None:
            self._process.stdout.close()


def read_exports(demo: Child) -> dict[str, str]:
    """Return the environment that a demo server prints, once that server responds."""
    exports: dict[str, str] = {}
    while {"API_HOST", "API_KEY"} - exports.keys():
        assignment = demo.read_line().removeprefix("export ")
        name, _, value = assignment.partition("=")
        exports[name] = value
    wait_until(lambda: responds(exports["API_HOST"]), f"a response of the demo; it says: {demo.stderr}")
    return exports


def responds(url: str) -> bool:
    """Return whether a healthy server responds."""
    try:
        return httpx.get(f"{url}/healthz", timeout=PATIENCE_SECONDS, trust_env=False, verify=TLS).status_code == 200
    except httpx.TransportError:
        return False


class ServerProcess:
    """A process of ``mirror-server run`` on its own database. It may be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str, database_url: str | None = None, **variables: str) -> None:
        self.database_path = folder / "mirror.db"
        self.database_url = database_url or new_database_url(folder)
        self.stderr_path = folder / "stderr.txt"
        self.url = ""
        self.child: Child
        self._options = options
        self._variables = variables
        self._port = str(free_port())
        self._applications: list[Application] = []

    def start(self) -> Self:
        """Start the server and wait until it responds."""
        self.begin()
        wait_until(self._responds, f"a response of {self.url}/healthz; it says: {self.child.stderr}")
        return self

    def begin(self) -> None:
        """Start the server and wait until it prints its address."""
        arguments = ["run", "--port", self._port, "--database", self.database_url, *self._options]
        self.child = Child(*arguments, stderr_path=self.stderr_path, **self._variables)
        line = self.child.read_line()
        assert line.startswith("Serving "), line
        self.url = line.rpartition(" on ")[2]
        self._port = self.url.rpartition(":")[2]

    def _responds(self) -> bool:
        assert self.child.running, self.child.stderr
        return responds(self.url)

    @property
    def port(self) -> int:
        return int(self._port)

    @property
    def stderr(self) -> str:
        return self.stderr_path.read_text()

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Stop the server with a signal and return its exit code."""
        self.child.send(signal_number)
        return self.child.wait()

    def kill(self) -> None:
        self.child.kill()

    def key(self, *scopes: Scope) -> str:
        """Create an access key, by default with all scopes."""
        database = open_database(self.database_url)
        try:
            return access_keys.create(database, "test", scopes or tuple(Scope), _KEY_MADE_AT)
        finally:
            database.close()

    def application(self, *scopes: Scope) -> Application:
        """Return a client with a new access key."""
        return self.client(self.key(*scopes))

    def client(self, key: str) -> Application:
        """Return a client with this access key."""
        application = Application(self.url, key)
        self._applications.append(application)
        return application

    def close(self) -> None:
        for application in self._applications:
            application.http.close()
        if hasattr(self, "child"):
            self.child.kill()


class Application:
    """An application: one access key, and the requests that tests send often."""

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
            verify=TLS,
            limits=httpx.Limits(max_connections=None),
        )

    def json(self, method: str, path: str, **options: Any) -> Any:
        """Return the JSON of a successful response."""
        response = self.http.request(method, path, **options)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None

    def add_device(self, name: str, *resources: Mapping[str, Any], **members: Any) -> str:
        """Add a simulated device and return its id."""
        body = {"endpoint_name": name, "resources": list(resources), **members}
        device_id: str = self.json("POST", "/sim/v1/devices", json=body)["id"]
        return device_id

    def patch_device(self, device_id: str, **behavior: Any) -> None:
        self.json("PATCH", f"/sim/v1/devices/{device_id}", json=behavior)

    def simulated_values(self, device_id: str) -> dict[str, str]:
        """Return the device's own values by path."""
        listed = self.json("GET", "/sim/v1/devices")["data"]
        device = next(device for device in listed if device["id"] == device_id)
        return {resource["path"]: resource["value"] for resource in device["resources"]}

    def resource(self, device_id: str, path: str) -> Any:
        """Return one resource of E1."""
        listed = self.json("GET", f"/v3/devices/{device_id}/echo")["resources"]
        return next(resource for resource in listed if resource["resource_path"] == path)

    def read(self, device_id: str, path: str, async_id: str) -> httpx.Response:
        return self._submit(device_id, async_id, {"method": "GET", "uri": path})

    def write(self, device_id: str, path: str, value: str, async_id: str, **more: Any) -> httpx.Response:
        body = {"method": "PUT", "uri": path, "payload-b64": encoded(value), **more}
        return self._submit(device_id, async_id, body)

    def _submit(self, device_id: str, async_id: str, body: Mapping[str, Any]) -> httpx.Response:
        return self.http.post(f"/v2/device-requests/{device_id}", params={"async-id": async_id}, json=body)

    def poll(self, **query: Any) -> httpx.Response:
        return self.http.get("/v2/notification/pull", params=query)

    def entries(self, after: int = 0) -> Iterator[tuple[str, Any]]:
        """Return all entries of the log after a number as (kind, entry)."""
        while True:
            answer = self.poll(after=after, hold=0)
            assert answer.is_success, answer.text
            assert "Mirror-Gap" not in answer.headers
            if answer.status_code == 204:
                return
            message = answer.json()
            listed = [(kind, entry) for kind, entries in message.items() for entry in entries]
            cursor = int(answer.headers["Mirror-Cursor"])
            assert len(listed) == cursor - after, "the numbers have a hole"
            yield from listed
            after = cursor

    def responses(self) -> dict[str, list[Any]]:
        """Return all async responses so far by async-id."""
        found: dict[str, list[Any]] = {}
        for kind, entry in self.entries():
            if kind == "async-responses":
                found.setdefault(entry["id"], []).append(entry)
        return found

    def response(self, async_id: str) -> Any:
        """Wait for the only async response of a request and return it."""
        wait_until(lambda: async_id in self.responses(), f"the async response {async_id}")
        (only,) = self.responses()[async_id]
        return only
