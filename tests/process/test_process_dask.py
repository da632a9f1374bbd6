"""Fleets on Dask: the workers of a real cluster load the same table as a snapshot. Source: wire.md 7."""

import doctest
import logging
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import cloudpickle
import dask
import dask.dataframe as dd
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster
from process_server import ServerProcess, run_command
from topic_examples import topic_examples

import mirror_sdk.dask
from mirror_sdk import MirrorClient, Simulator
from mirror_sdk.dask import read_mirror
from mirror_sdk.errors import (
    AccessDenied,
    AuthenticationError,
    BadRequest,
    ConfigError,
    InvalidValue,
    UnexpectedResponse,
)
from mirror_server.service.keys import Scope

pytestmark = pytest.mark.process
DEVICES = 36
TEMPERATURE, LIGHT = "/3303/0/5700", "/3311/0/5850"
KINDS = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": "/3303/0/5701", "value": "K", "observable": True},
    {"path": LIGHT, "value": "0", "observable": True, "writable": True},
    {"path": "/3/0/13", "value": "1700000000", "observable": True},
    {"path": "/9999/0/1", "value": "hello", "observable": True},
]


@pytest.fixture(autouse=True)
def _threads_that_end() -> Iterator[None]:
    """Allow Dask's own threads to run until the process ends."""
    with ThreadPoolExecutor(2, "dask") as pool, dask.config.set(pool=pool):
        yield


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with devices of many and few resources; some have values, a write, or nothing."""
    running = ServerProcess(tmp_path_factory.mktemp("dask"), "--simulate", "0", "--clock", "manual").start()
    with MirrorClient(running.url, running.key()) as client:
        simulator = Simulator(client)
        for number in range(DEVICES):
            resources = KINDS[: number % 6]
            device_id = simulator.add_device(f"device-{number:02}", resources, endpoint_type=f"Type{number % 2}")
            for resource in resources[: number // 8]:
                client.read_value(device_id, str(resource["path"]))
            if len(resources) > 2:
                client.write_value(device_id, LIGHT, number % 2 == 0)
    yield running
    running.close()


@pytest.fixture(scope="module")
def key(server: ServerProcess) -> str:
    """The access key in the environment of the workers."""
    return server.key(Scope.READ)


@pytest.fixture(scope="module")
def cluster(server: ServerProcess, key: str) -> Iterator[Client]:
    """A worker process with two threads."""
    environment = {"API_HOST": "http://127.0.0.1:9", "API_KEY": key}
    with (
        dask.config.set({"distributed.nanny.environ": environment, "distributed.worker.daemon": True}),
        LocalCluster(n_workers=1, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        assert os.getpid() not in client.run(os.getpid).values()
        yield client


def table(frame: dd.DataFrame) -> pd.DataFrame:
    found: pd.DataFrame = frame.compute().reset_index(drop=True)
    return found


@pytest.mark.parametrize(
    "selection",
    [
        {"raw": True, "tz": "Europe/Berlin"},
        {"paths": [TEMPERATURE], "endpoint_type": "Type1", "compression": "lz4"},
        {"state": "deregistered"},
    ],
    ids=str,
)
def test_workers_load_the_same_data_as_a_snapshot(server, cluster, key, selection):
    with MirrorClient(server.url, key) as client:
        expected = client.fleet.snapshot(**selection)
    frame = read_mirror(server.url, key, devices_per_partition=9, **selection)
    pd.testing.assert_frame_equal(table(frame), expected)
    pd.testing.assert_series_equal(table(frame["reported_at"]), expected["reported_at"])
    for part in frame.to_delayed()[:2]:
        own = part.compute()
        assert list(own) == list(frame.columns) == list(expected)
        for name, dtype in expected.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype) and name not in {"value_kind", "desired_status"}:
                assert own[name].dtype.name == "category"
            else:
                assert own[name].dtype == frame.dtypes[name] == dtype


def test_each_partition_has_its_provenance(server, cluster, key):
    frame = read_mirror(server.url, key, devices_per_partition=15)
    with MirrorClient(server.url, key) as client:
        assert len(frame) == len(client.fleet.snapshot())
    all_metadata = [part.compute().attrs["mirror"] for part in frame.partitions]
    assert [metadata["devices"] for metadata in all_metadata] == [15, 15, 6]
    assert all(
        metadata["one_instant"] and metadata["revision"] > 0 and metadata["complete"] for metadata in all_metadata
    )
    bounds = [metadata["selection"]["filters"] for metadata in all_metadata]
    assert [sorted(bound) for bound in bounds] == [["id__lte"], ["id__gt", "id__lte"], ["id__gt"]]
    assert [bound["id__lte"] for bound in bounds[:-1]] == [bound["id__gt"] for bound in bounds[1:]]
    with MirrorClient(server.url, key) as client:
        part = frame.partitions[1].compute()
        pd.testing.assert_frame_equal(part.mirror.refresh(client), part)


def test_default_key_is_read_in_the_worker(server, cluster, key, monkeypatch):
    own = server.key(Scope.READ)
    monkeypatch.setenv("API_HOST", server.url)
    monkeypatch.setenv("API_KEY", own)
    frame = read_mirror(devices_per_partition=9)
    assert len(frame) > 0
    for secret in (own, key):
        assert secret.encode() not in cloudpickle.dumps(frame)
        assert secret.encode() not in cloudpickle.dumps(dict(frame.dask))
    monkeypatch.delenv("API_KEY")
    assert len(frame) > 0
    with pytest.raises(ConfigError, match="API_KEY"):
        read_mirror()
    with dask.config.set(scheduler="synchronous"), pytest.raises(ConfigError, match="API_KEY"):
        frame.compute()


def test_explicit_key_is_displayed_nowhere(server, cluster, capfd, caplog):
    secret = server.key()
    frame = read_mirror(server.url, secret, devices_per_partition=20)
    with caplog.at_level(logging.DEBUG):
        assert len(frame) > 0
        outputs = [repr(frame), str(frame), frame._repr_html_(), str(dict(frame.dask)), repr(frame.expr)]
        outputs += [str(frame.__dask_keys__()), "\n".join(map(repr, frame.to_delayed()))]
        frame.expr.pprint()
    revoked = run_command("keys", "revoke", secret.split("_")[1], "--database", server.database_url)
    assert revoked.returncode == 0
    with pytest.raises(AuthenticationError) as failure:
        frame.compute()
    outputs += [repr(failure.value), caplog.text, str(cluster.get_worker_logs()), str(cluster.get_scheduler_logs())]
    out, err = capfd.readouterr()
    assert "_MirrorPart" in out
    assert secret not in "".join([*outputs, out, err])
    assert secret.encode() in cloudpickle.dumps(frame)  # it did go with it


def test_invalid_arguments_fail_at_once(server, key):
    with pytest.raises(BadRequest, match="devices_per_range"):
        read_mirror(server.url, key, devices_per_partition=0)
    with pytest.raises(TypeError, match="paths"):
        read_mirror(server.url, key, paths="/3303/*")
    with pytest.raises(AccessDenied):
        read_mirror(server.url, server.key(Scope.WRITE))


def test_service_without_ranges_is_reported_with_the_cure(server, key, monkeypatch):
    monkeypatch.setattr("mirror_sdk.wire.routes.SNAPSHOT_RANGES", "/v3/no-such-path")
    with pytest.raises(UnexpectedResponse, match=r"client\.fleet\.dataset"):
        read_mirror(server.url, key)


def test_errors_come_back_from_the_workers(server, cluster):
    secret = server.key(Scope.READ)
    frame = read_mirror(server.url, secret)
    frame = frame.map_partitions(lambda part: part.mirror.in_zone("Nowhere"), meta=frame._meta)
    with pytest.raises(InvalidValue, match="Nowhere"):
        frame.compute()
    with pytest.raises(AccessDenied) as denied:
        read_mirror(server.url, server.key(Scope.ADMIN))
    assert str(pickle.loads(pickle.dumps(denied.value))) == str(denied.value)


def test_examples_produce_their_documented_output(demo_environment, tmp_path, monkeypatch):
    for name, value in demo_environment.items():
        monkeypatch.setenv(name, value)
    with MirrorClient.from_env() as client, dask.config.set(scheduler="synchronous"):
        names: dict[str, Any] = {"client": client, "folder": tmp_path}
        for device in client.devices.list(endpoint_type="WeatherStation"):
            client.read_value(device.id, TEMPERATURE)
        begin = client.history(limit=1).attrs["mirror"]["oldest_at"]
        names |= {"begin": datetime.fromisoformat(begin), "timedelta": timedelta}
        names["end"] = client.get_device(device.id).created_at
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        failures: list[str] = []
        tests = doctest.DocTestFinder(exclude_empty=True).find(mirror_sdk.dask, "mirror_sdk.dask", extraglobs=names)
        examples = [test for test in tests if test.examples]
        assert {f"mirror_sdk.dask.{name}" for name in ("read_mirror", "read_history", "read_dataset")} <= {
            test.name for test in examples
        }
        examples.append(topic_examples("dask", names))
        for test in examples:
            runner.run(test, out=failures.append)
    assert runner.failures == 0, "".join(failures)
