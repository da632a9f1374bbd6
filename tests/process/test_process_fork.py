"""Clients that exist before a fork, as under ``gunicorn --preload`` and with ``ProcessPoolExecutor``."""

import asyncio
import gc
import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps

import pandas as pd
import pytest
from forked import Forked
from process_server import Application, ServerProcess, child_environment, run_python, wait_until
from resource_paths import TEMPERATURE

from mirror_sdk import AsyncMirrorClient, ConfigError, InvalidValue, MirrorClient
from mirror_sdk._fork import lazy_property
from mirror_sdk._protocol import network
from mirror_sdk.object_definitions import ResourceDeclaration, ResourceType, register_object, registry
from mirror_sdk.webhook import WebhookReceiver

pytestmark = pytest.mark.process

RESOURCES = [{"path": TEMPERATURE, "value": "21.5", "observable": True}]
CALLS = 40
AT_ONCE = 4
A_STOP_SECONDS = 9
"""A time below the one for which stopping a watch waits for a callback that does not end."""


@pytest.fixture
def simulator(shared_server: ServerProcess) -> Application:
    return shared_server.application()


@pytest.fixture
def devices(simulator: Application, request: pytest.FixtureRequest) -> list[str]:
    return [simulator.add_device(f"{request.node.name[:40]}-{number}", *RESOURCES) for number in range(8)]


@pytest.fixture
def client(shared_server: ServerProcess, simulator: Application) -> Iterator[MirrorClient]:
    with MirrorClient(shared_server.url, simulator.key) as made:
        yield made


def request_objects(client: MirrorClient, devices: list[str]) -> int:
    """Request several device objects concurrently; return the number of wrong ones."""
    requested = [devices[number % len(devices)] for number in range(CALLS)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(client.get_device, requested))
    return sum(one.device_id != device_id for one, device_id in zip(found, requested, strict=True))


async def request_objects_async(client: AsyncMirrorClient, devices: list[str]) -> int:
    requested = [devices[number % len(devices)] for number in range(CALLS)]
    found = await asyncio.gather(*map(client.get_device, requested))
    return sum(one.device_id != device_id for one, device_id in zip(found, requested, strict=True))


@contextmanager
def in_thread(act, *arguments):
    """Run a function concurrently, on a thread that ends with the block."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(act, *arguments)


def test_children_and_their_children_have_connections_of_their_own(client, devices):
    assert request_objects(client, devices) == 0

    def act():
        grandchild = Forked(lambda: request_objects(client, devices))
        return [request_objects(client, devices), grandchild.result()]

    children = [Forked(act) for _ in range(2)]
    assert request_objects(client, devices) == 0
    assert [child.result() for child in children] == [[0, 0]] * 2
    assert request_objects(client, devices) == 0
    with pytest.raises(TypeError, match=r"cannot be pickled.*from_env"):
        pickle.dumps(client)


@pytest.fixture
def _keeps_idle_connections(monkeypatch):
    """Close no idle connections, however long a busy machine takes for a test."""
    monkeypatch.setattr(network, "IDLE_SECONDS", 600)


@pytest.mark.usefixtures("_keeps_idle_connections")
def test_a_child_closes_its_client_and_not_that_of_its_parent(client, devices):
    assert request_objects(client, devices) == 0
    ports = ports_of(client)

    def act():
        Forked(client.close).result()
        assert request_objects(client, devices) == 0
        client.close()
        return gc.collect() >= 0

    assert Forked(client.close).result() is None
    assert Forked(act).result()
    assert request_objects(client, devices) == 0
    # The same connections, not new ones that replace broken ones. Concurrent threads may have opened more.
    assert ports <= ports_of(client)


def ports_of(client):
    """Return the local ports of the client's open connections."""
    streams = list(client._session.sender._connections._sockets)
    opened = [stream for stream in streams if stream.get_extra_info("socket").fileno() >= 0]
    return {stream.get_extra_info("client_addr")[1] for stream in opened}


def test_a_fork_while_another_thread_waits(client, simulator, devices):
    simulator.patch_device(devices[0], online=False)
    waiting = client.requests.begin_read(devices[0], TEMPERATURE)
    with in_thread(waiting.result, 120) as answer:
        wait_until(lambda: client._session.router._is_reading, "a poll")

        def act():
            first = client.read_value(devices[1], TEMPERATURE, timeout=60)
            done = waiting.done()
            return [
                first,
                done,
                client.read_value(devices[2], TEMPERATURE, timeout=60),
                client.notifications.status().watches,
            ]

        assert Forked(act).result() == [21.5, False, 21.5, 0]
        closing = Forked(client.close)
        closing.result()
        assert not answer.done()
        simulator.patch_device(devices[0], online=True)
        assert answer.result(120).python == 21.5


def test_parent_and_child_get_the_response(client, simulator, devices):
    simulator.patch_device(devices[0], online=False)
    request = client.requests.begin_read(devices[0], TEMPERATURE)
    child = Forked(lambda: request.result(60).python)
    simulator.patch_device(devices[0], online=True)
    assert request.result(60).python == 21.5
    assert child.result() == 21.5


def test_a_watch_stays_with_the_parent(client, simulator, devices):
    seen, may_go_on = [], threading.Event()

    def slow(event):
        seen.append(event)
        may_go_on.wait(120)

    client.subscribe(devices[0], TEMPERATURE)
    with client.watch(slow, paths=[TEMPERATURE]) as watch:
        simulator.json("PUT", f"/sim/v1/devices/{devices[0]}/resources{TEMPERATURE}", json={"value": "22"})
        wait_until(lambda: seen, "an event")

        def act():
            began = time.monotonic()
            state = [watch.is_running, repr(watch), client.notifications.status().watches]
            client.close()
            return [*state, time.monotonic() - began < A_STOP_SECONDS]

        assert Forked(act).result() == [False, "<Watch stopped, 0 errors>", 0, True]
        may_go_on.set()
        simulator.json("PUT", f"/sim/v1/devices/{devices[0]}/resources{TEMPERATURE}", json={"value": "23"})
        wait_until(lambda: [event.value.python for event in seen][-1] == 23, "the parent's next event")
        assert watch.is_running


def test_a_recorder_stays_with_the_parent(client, simulator, devices, tmp_path):
    client.subscribe(devices[0], TEMPERATURE)
    with client.record(tmp_path / "run.parquet") as recorder:

        def change(value):
            before = recorder.events
            simulator.json("PUT", f"/sim/v1/devices/{devices[0]}/resources{TEMPERATURE}", json={"value": value})
            wait_until(lambda: recorder.events > before, "it is recorded")

        change("22")

        def act():
            state = [recorder.is_running, repr(recorder).split()[2]]
            recorder.stop()
            client.close()
            return [*state, gc.collect() >= 0]

        assert Forked(act).result() == [False, "stopped,", True]
        # The lock still belongs to the parent.
        with pytest.raises(InvalidValue, match="in use by another recorder"):
            client.record(tmp_path / "run.parquet")
        change("23")
    assert recorder.audit().complete
    frame = pd.read_parquet(tmp_path / "run.parquet")
    assert frame["value_num"].dropna().tolist()[-2:] == [22, 23]


def test_a_webhook_stays_with_the_parent(shared_server, devices):
    client = MirrorClient(shared_server.url, shared_server.key())
    with client, WebhookReceiver() as receiver:
        client.notifications.use_webhook(receiver)

        def act():
            request = client.requests.begin_read(devices[0], TEMPERATURE)
            with pytest.raises(ConfigError, match="belongs to the parent process"):
                request.result(60)
            receiver.close()
            return True

        child = Forked(act)
        assert child.result()
        assert client.read_value(devices[0], TEMPERATURE, timeout=60) == 21.5
        client.notifications.use_long_polling()


def test_a_lock_that_another_thread_holds_is_free_in_a_child():
    locked, may_go_on = threading.Event(), threading.Event()

    def hold():
        with registry._registering:
            locked.set()
            may_go_on.wait(120)

    flow = {1: ResourceDeclaration("Flow", ResourceType.FLOAT, "R", "l/s")}
    with in_thread(hold):
        assert locked.wait(60)
        child = Forked(lambda: register_object(31_999, "Pump", flow))
        assert child.result(60) is None
        may_go_on.set()


def test_resource_that_another_thread_is_making_is_made_in_a_child(client, devices, monkeypatch):
    making, may_go_on = threading.Event(), threading.Event()
    make = vars(MirrorClient)["devices"].fget

    @wraps(make)
    def slow(owner):
        if threading.current_thread() is not threading.main_thread():
            making.set()
            may_go_on.wait(120)
        return make(owner)

    monkeypatch.setattr(MirrorClient, "devices", lazy_property(slow))
    with in_thread(getattr, client, "devices"):
        assert making.wait(60)
        child = Forked(lambda: client.devices.list(id=devices[0]).ids)
        assert child.result(60) == [devices[0]]
        may_go_on.set()


FORKS_IN_AN_IMPORT = """
import faulthandler, os, sys, threading
from mirror_sdk import MirrorClient

began, never = threading.Event(), threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "pyarrow":
            began.set()
            never.wait(0.5)

client = MirrorClient.from_env()
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=client.fleet.snapshot)
thread.start()
assert began.wait(60)
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(60, exit=True)
    assert client.fleet.snapshot() is not None
    os._exit(0)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_fork_waits_for_imports_of_other_threads(shared_server, simulator):
    """Otherwise a module would stay half imported in the child, and locked by a thread that does not exist there."""
    ran = run_python(
        "-c", FORKS_IN_AN_IMPORT, seconds=150, env=child_environment(API_HOST=shared_server.url, API_KEY=simulator.key)
    )
    assert ran.returncode == 0, ran.stderr


def test_a_plan_that_is_applied_elsewhere_may_be_applied_in_a_child(client, simulator, devices):
    path = "/3311/0/5850"
    light = simulator.add_device("light-of-the-plan", {"path": path, "value": "0", "writable": True})
    simulator.patch_device(light, online=False)
    plan = client.plan([(light, path, True)])
    with in_thread(lambda: plan.apply(timeout=60)) as applied:
        wait_until(lambda: client.requests.list(light), "the write")

        def act():
            return plan.apply(timeout=60)["status"].tolist()

        child = Forked(act)
        simulator.patch_device(light, online=True)
        assert child.result() == ["success"]
        assert applied.result(120)["status"].tolist() == ["success"]


def test_fork_during_a_delayed_read_of_a_loop(shared_server, simulator, devices):
    async def main():
        seen = []
        async with AsyncMirrorClient(shared_server.url, simulator.key) as client:
            await client.subscribe(devices[0], TEMPERATURE)
            simulator.patch_device(devices[1], online=False)
            waiting = await client.requests.begin_read(devices[1], TEMPERATURE)
            reading = asyncio.create_task(waiting.result(120))
            async with await client.watch(seen.append, paths=[TEMPERATURE]) as watch:
                ports = ports_of(client)

                async def in_child():
                    state = [watch.is_running, repr(watch), client.notifications.status().watches]
                    await watch.stop()
                    async with client:
                        wrong = await request_objects_async(client, devices)
                        done = await waiting.done()
                        return [*state, wrong, done]

                result = await asyncio.to_thread(Forked(lambda: asyncio.run(in_child())).result)
                assert result == [False, "<AsyncWatch stopped, 0 errors>", 0, 0, False]
                assert not reading.done()
                simulator.patch_device(devices[1], online=True)
                simulator.json("PUT", f"/sim/v1/devices/{devices[0]}/resources{TEMPERATURE}", json={"value": "22"})
                assert (await reading).python == 21.5
                while not seen:
                    await asyncio.sleep(0.01)
                assert watch.is_running
                assert await request_objects_async(client, devices) == 0
                # The same connections, not new ones that replace broken ones.
                assert ports <= ports_of(client)

    asyncio.run(asyncio.wait_for(main(), 240))
