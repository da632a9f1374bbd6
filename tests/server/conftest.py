"""A server in the process of the test, called over WSGI, with a manual clock."""

import base64
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from databases import ON_POSTGRESQL, new_database_url
from devices_in_memory import DevicesInMemory, advance
from flask.testing import FlaskClient
from psycopg.errors import InFailedSqlTransaction

from mirror_sdk.wire.device_object import DeviceObjectBody
from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_sdk.wire.notifications import NotificationMessage
from mirror_server import hooks
from mirror_server.core.commands import Command
from mirror_server.core.timestamps import Instant
from mirror_server.hooks import call_installed, extends, open_database, read_settings
from mirror_server.notifications.webhooks import LOOPBACK
from mirror_server.server import Services
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import commands
from mirror_server.store import keys as stored_keys
from mirror_server.store.backend import StorageFailed
from mirror_server.store.conditions import Condition
from mirror_server.store.database import Database
from mirror_server.store.session import Session
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.web.flask_app import create_app

OpenPoll = Callable[..., Future[Any]]

USUAL_RESOURCE = {"path": "/3303/0/5700", "value": "21.5", "observable": True}


class Selection:
    """Selects devices in a query like an extension: by name, and by a column that needs a subquery."""

    COLUMNS = MappingProxyType({"named": "endpoint_name", "looked_up": "(SELECT endpoint_type)"})

    @extends
    def device_conditions(self, parameters: Sequence[tuple[str, str]]) -> list[Condition] | None:
        if any(name not in self.COLUMNS for name, _ in parameters):
            return None
        return [
            Condition(self.COLUMNS[name], "IN", tuple(value.split(",")), is_unique=name == "named")
            for name, value in parameters
        ]


class Server:
    """A server on a database that can be reopened, with devices in memory and :class:`Selection`."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        usual = {"manual_clock": True, "callback_networks": LOOPBACK}
        usual |= {"database_url": new_database_url(folder), "failed_keys_per_minute": 1_000_000}
        self.settings = read_settings(**{**usual, **settings})
        self.devices = DevicesInMemory()
        self.open()

    def open(self) -> None:
        self.services = Services(self.settings)
        try:
            self.devices.join(self.services)
            self.services.extensions.add(Selection())
            self.services.start()
            self.app = create_app(self.services)
        except BaseException:
            self.services.close()
            raise
        self._client: FlaskClient = self.app.test_client()

    def restart(self) -> None:
        self.services.close()
        self.open()

    def key(self, *scopes: Scope) -> str:
        """Create an access key, by default with all scopes, and its log."""
        key = keys.create(self.services.database, "test", scopes or tuple(Scope), self.now)
        self.call(key, "GET", "/v2/notification/pull?after=latest&hold=0")
        return key

    def revoke(self, key: str) -> None:
        assert self.services.database.write(partial(stored_keys.revoke, key_id=key.split("_")[1], at=self.now))

    @property
    def now(self) -> Instant:
        return self.services.clock.now()

    def call(
        self,
        key: str | None,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        *,
        settled: bool = True,
        **options: Any,
    ) -> Any:
        """Send a request with a key, and let its effects settle."""
        authorization = {} if key is None else {"Authorization": f"Bearer {key}"}
        response = self._client.open(path, method=method, headers=authorization | (headers or {}), **options)
        if response.status_code == 202:
            # Read it completely, like a server that has sent it: some requests reach the device only then.
            response.get_data()
            response.close()
        if method != "GET" and settled:
            assert self.services.database.settle(60)
        return response

    def advance(self, key: str, seconds: float) -> None:
        """Advance domain time, and do what becomes due."""
        advance(self.services, seconds)

    def add_device(self, key: str, name: str, *resources: dict[str, Any], **more: Any) -> str:
        """Add a device, by default with an observable temperature, and return its id."""
        device_id = self.devices.add(name, *(resources or (USUAL_RESOURCE,)), **more)
        self._settle()
        return device_id

    def set_value(self, key: str, device_id: str, value: str, path: str = "/3303/0/5700", **flags: Any) -> None:
        """Change a value or a flag of the device."""
        self.devices.set_value(device_id, path, value, **flags)
        self._settle()

    def patch(self, key: str, device_id: str, **behavior: Any) -> None:
        """Change the behavior of the device: ``online``, ``answer`` or ``latency_seconds``."""
        self.devices.behave(device_id, **behavior)
        self._settle()

    def registration(self, key: str, device_id: str, method: str) -> None:
        """Register the device (POST), update its registration (PUT), or deregister it (DELETE)."""
        act = {"POST": self.devices.register, "PUT": self.devices.update, "DELETE": self.devices.deregister}[method]
        act(device_id)
        self._settle()

    def remove_resource(self, device_id: str, path: str) -> None:
        """Remove a resource of the device. The server gets the change with the next registration update."""
        self.devices.remove_resource(device_id, path)

    def value_of_device(self, device_id: str, path: str) -> str:
        """Return the device's own value of a resource."""
        return self.devices.device(device_id).resources[path].value

    def _settle(self) -> None:
        assert self.services.database.settle(60)

    def submit(self, key: str, device_id: str, async_id: str, method: str, path: str, **body: Any) -> Any:
        """Submit a device request and let it settle; ``value`` is the text to write."""
        if "value" in body:
            body["payload-b64"] = base64.b64encode(body.pop("value").encode()).decode()
        query = {"async-id": async_id}
        url = f"/v2/device-requests/{device_id}"
        response = self.call(key, "POST", url, query_string=query, json={"method": method, "uri": path, **body})
        assert self.services.database.settle(60)
        return response

    def subscribe(self, key: str, device_id: str, path: str = "/3303/0/5700", method: str = "PUT") -> None:
        """Put a single subscription and let it settle, or delete it."""
        response = self.call(key, method, f"/v2/subscriptions/{device_id}{path}")
        assert response.status_code == (200 if method == "PUT" else 204), response.get_data()

    def put_rules(self, key: str, *rules: dict[str, Any], query: str = "") -> None:
        response = self.call(key, "PUT", f"/v2/subscriptions{query}", json=list(rules))
        assert (response.status_code, response.get_data()) == (202, b"")

    def subscribed(self, key: str, device_id: str) -> list[str]:
        """Return the paths with at least one subscription."""
        body = self.call(key, "GET", f"/v3/devices/{device_id}/echo").json
        return [entry["resource_path"] for entry in body["resources"] if entry["subscribed"]]

    def resource(self, key: str, device_id: str, path: str = "/3303/0/5700") -> Any:
        """Return one resource of E1, after validating the body."""
        body = self.call(key, "GET", f"/v3/devices/{device_id}/echo").json
        DeviceObjectBody.model_validate(body, extra="forbid")
        return next(entry for entry in body["resources"] if entry["resource_path"] == path)

    def log(self, key: str, after: int = 0) -> list[tuple[str, Any]]:
        """Return all entries of the application's log after a number, in order, as (kind, entry)."""
        assert self.services.database.settle(60)
        found: list[tuple[str, Any]] = []
        while True:
            response = self.call(key, "GET", "/v2/notification/pull", query_string={"after": after, "hold": 0})
            if response.status_code == 204:
                return found
            NotificationMessage.model_validate(response.json, extra="forbid", by_alias=True, by_name=False)
            listed = [(kind, entry) for kind, entries in response.json.items() for entry in entries]
            found += sorted(listed, key=lambda item: item[1]["seq"])
            after = int(response.headers["Mirror-Cursor"])

    def entries(self, key: str, kind: str, after: int = 0) -> list[Any]:
        """Return the entries of one kind of the application's log after a number."""
        return [entry for each, entry in self.log(key, after) if each == kind]

    def kinds(self, key: str, after: int = 0) -> list[str]:
        """Return the kinds of the entries of the application's log after a number."""
        return [kind for kind, _ in self.log(key, after)]

    def responses(self, key: str) -> dict[str, tuple[int, str | None]]:
        """Return status and category of each async response by async-id; check that none came twice."""
        entries = self.entries(key, "async-responses")
        assert len({entry["id"] for entry in entries}) == len(entries)
        return {entry["id"]: (entry["status"], entry.get("error")) for entry in entries}

    def waiting(self, key: str) -> list[Command]:
        """Return the unfinished requests of the key's application, in order."""
        with self.services.database.read() as session:
            device_ids = commands.devices_with_waiting(session)
            found = [each for device_id in device_ids for each in commands.waiting(session, device_id)]
        of_key = (each for each in found if each.app_id == key.split("_")[1])
        return sorted(of_key, key=lambda each: each.command_id)

    def observed(self, key: str) -> list[tuple[str, str]]:
        """Return device id and value of each observation event."""
        entries = self.entries(key, "notifications")
        return [(entry["ep"], base64.b64decode(entry["payload"]).decode()) for entry in entries]

    def channel(self, key: str) -> Any:
        return self.call(key, "GET", "/v2/notification/channel").json


@pytest.fixture
def anyio_backend() -> str:
    """Run each asynchronous test on its own event loop of asyncio."""
    return "asyncio"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty database."""
    return new_database_url(tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(open_database(url)) as opened:
        yield opened


@contextmanager
def _block_writer(database: Database) -> Iterator[None]:
    started, go_on = threading.Event(), threading.Event()

    def hold(_session: Session) -> None:
        started.set()
        assert go_on.wait(60)

    holding = database.submit(hold)
    assert started.wait(60)
    try:
        yield
    finally:
        go_on.set()
        holding.result(60)


@pytest.fixture(scope="session")
def hold_writer() -> Callable[[Database], AbstractContextManager[None]]:
    """Block the writer of a database, so that all work submitted meanwhile forms one group."""
    return _block_writer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.services.close()


@pytest.fixture
def key(server: Server) -> str:
    return server.key()


@pytest.fixture
def other(server: Server) -> str:
    """The key of another application."""
    return server.key()


@pytest.fixture
def device(server: Server, key: str) -> str:
    """A device with an observable temperature."""
    return server.add_device(key, "sensor-1")


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Create a server with other settings, on its own database."""
    made: list[Server] = []

    def make(**settings: Any) -> Server:
        folder = tmp_path / f"other-{len(made)}"
        folder.mkdir()
        made.append(Server(folder, **settings))
        return made[-1]

    yield make
    for other in made:
        other.services.close()


@pytest.fixture(scope="session")
def check_error() -> Callable[..., ErrorBody]:
    """Check that a response is an error with this code and the documented body; return the body."""

    def check(response: Any, code: int, *fields: str) -> ErrorBody:
        assert response.status_code == code, (response.request.method, response.request.url, response.get_data())
        assert response.headers["Content-Type"] == "application/json"
        body = ErrorBody.model_validate(response.json, extra="forbid", strict=True)
        assert body.code == code
        assert body.type == ("validation_error" if body.fields and code == 400 else ERROR_TYPES[code])
        assert body.request_id
        assert re.fullmatch("[0-9a-f]{32}", body.request_id)
        assert response.headers["X-Request-ID"] == body.request_id
        assert body.message
        assert all(field.message for field in body.fields)
        if fields:
            assert tuple(field.name for field in body.fields) == fields
        return body

    return check


class Disk:
    """The disk of the server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def break_down(self) -> None:
        # With query_only, SQLite fails as on a disk that was remounted read-only.
        self.set_read_only(read_only=True)
        assert self._server.call(None, "HEAD", "/readyz", settled=False).status_code == 503

    def mend(self) -> None:
        self.set_read_only(read_only=False)
        assert self._server.services.database.settle(60)

    def set_read_only(self, *, read_only: bool) -> None:
        assert not read_only or self._server.services.database.settle(60)
        backend: Any = self._server.services.database.backend
        if ON_POSTGRESQL:
            # Not inside a transaction of the writer, which may roll it back or has failed already.
            while not self._is(read_only=read_only):
                with suppress(InFailedSqlTransaction):
                    backend._connection.run(f"SET default_transaction_read_only = {int(read_only)}")
        else:
            backend._connection.execute(f"PRAGMA query_only = {int(read_only)}")

    def _is(self, *, read_only: bool) -> bool:
        try:
            self._server.services.database.write(Session.probe)
        except StorageFailed:
            return read_only
        return not read_only


@pytest.fixture
def disk_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Server], Disk]:
    """Return the disk of a server."""
    monkeypatch.setattr("mirror_server.store.writer._RETRY_SECONDS", 0.02)
    return Disk


@pytest.fixture
def disk(server: Server, disk_of: Callable[[Server], Disk]) -> Disk:
    return disk_of(server)


@pytest.fixture
def open_poll(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenPoll]:
    """Open a poll on its own thread, and return the future of its response when it waits."""
    waits = threading.Semaphore(0)
    wait = DeferredResponse.wait

    def note(deferred: DeferredResponse, *is_over: Callable[[], bool]) -> None:
        if deferred.is_poll:
            waits.release()
        wait(deferred, *is_over)

    monkeypatch.setattr(DeferredResponse, "wait", note)

    def hold(key: str, query: str, on: Server = server) -> Future[Any]:
        headers = {"Authorization": f"Bearer {key}"}
        response = pool.submit(on.app.test_client().get, f"/v2/notification/pull?{query}", headers=headers)
        assert waits.acquire(timeout=60)
        return response

    with ThreadPoolExecutor(4) as pool:
        yield hold


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Share one server between the tests of a module that change no common state."""
    more = chain.from_iterable(each.items() for each in call_installed("demo_settings"))
    running = Server(tmp_path_factory.mktemp("shared"), **dict(more))
    yield running
    running.services.close()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package with an extension of this name and source."""

    def make(name: str, text: str) -> None:
        folder = tmp_path / "site"
        metadata = folder / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[mirror_server.extensions]\n{name} = mirror_{name}\n")
        (folder / f"mirror_{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, f"mirror_{name}", raising=False)
        hooks.installed.cache_clear()

    yield make
    hooks.installed.cache_clear()
