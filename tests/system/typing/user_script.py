"""A user's script for the type checkers. Nothing in it may need a cast or an ignore. It is never run."""

import asyncio
from datetime import UTC, datetime

import pandas as pd
import polars as pl

import mirror_sdk
from mirror_sdk import (
    AsyncMirrorClient,
    DesiredStatus,
    DeviceLike,
    DeviceObject,
    DeviceRequest,
    Event,
    EventKind,
    MirrorClient,
    Plan,
    PresubscriptionRule,
    Resource,
    Simulator,
    Value,
    WebhookReceiver,
    parse_value,
)
from mirror_sdk.frames import drift_frame, from_arrow, mirror, read_parquet, requests_frame
from mirror_sdk.object_definitions import Personal
from mirror_sdk.privacy import PERSONAL_COLUMNS, PERSONAL_RESOURCES, pseudonymize
from mirror_sdk.recording import Recording
from mirror_sdk.testing import Fault, Mirror
from mirror_sdk.values import InstanceValues
from mirror_sdk.widgets import Explorer


def write_all(client: MirrorClient, level: int) -> pd.DataFrame:
    requests: list[DeviceRequest] = []
    for device in client.devices.list(endpoint_type="Light"):
        name: str = device.endpoint_name
        print(name, device.state)
        requests.append(client.requests.begin_write(device.id, "/3311/0/5851", level, expiry_seconds=60))
    for request in requests:
        failure = request.exception(timeout=10)
        if failure is not None:
            print(failure.category, failure.device_id)
    return requests_frame(requests)


def read(client: MirrorClient, device_id: str) -> datetime | None:
    device: DeviceObject = client.get_device(device_id)
    resource = device["/3303/0/5700"]
    past: pd.DataFrame = device.history("/3303/0/5700", begin=device.created_at)
    print(past.shape, client.changes(device.created_at, device.created_at, as_="arrow").num_rows)
    print(client.sql("from state").shape, client.sql("from state", as_="arrow", explain=True).num_rows)
    if resource.desired is not None and resource.desired.status is DesiredStatus.FAILURE:
        print(resource.desired.value.python)
    return resource.reported.reported_at if resource.reported else None


def typed(client: MirrorClient, device: DeviceObject, table: pd.DataFrame) -> Plan:
    resources: dict[str, Resource] = dict(device)
    found: Resource | None = device.get("/3311/0/5851")
    print(len(resources), found, device.get("/3311/0/5850", found), [path.upper() for path, _ in device.items()])
    level: float | int | str | bool | datetime | bytes = parse_value(" 55 ", "/3311/0/5851")
    client.write_value(device, "/3311/0/5851", level)
    client.write_value(device, "/3311/0/5850", text="off")
    return client.plan(table)


def listen(client: MirrorClient) -> list[Value]:
    def on_event(event: Event) -> None:
        print(event.kind is EventKind.GAP, event.path, event.changed_at)

    with WebhookReceiver() as receiver, client.watch(on_event, paths=["/3303/*"]):
        client.notifications.use_webhook(receiver)
    return [event.value for event in client.events(limit=3) if event.value is not None]


def tables(client: MirrorClient) -> pd.DataFrame:
    state = client.state_frame(paths=["/3303/*"])
    print(mirror(state).labels, mirror(mirror(state).refresh(client)).wide().shape)
    silent = mirror(state).stale("1h", by="device", never_read=True, devices=client.devices.list())
    joined = mirror(state).join(silent, on="device_id", how="inner")
    print(mirror(mirror(joined).with_metadata_from(state, silent)).for_excel().shape)
    Explorer(client).close()
    return pd.concat([drift_frame(state, tolerance={"/3303/0/5700": 0.5}), mirror(state).drift(relative=0.1)])


def forms(client: MirrorClient) -> tuple[pd.DataFrame, pl.DataFrame, pl.DataFrame]:
    warm = client.fleet.snapshot(as_="polars").filter(pl.col("reported_num") > 24)
    events = client.notifications.events_frame(after=0, timeout=0, as_="polars")
    print(from_arrow(client.state_frame(as_="arrow")).shape, read_parquet("state.parquet", as_="polars").height)
    return read_parquet("state.parquet"), warm, Recording("run.parquet").events(as_="polars").join(events, on="uid")


def to_be_shared(client: MirrorClient, key: str) -> list[str]:
    state, history = mirror(client.fleet.snapshot()).pseudonymize(key), client.history(as_="arrow")
    shared, polars = pseudonymize(history, key, also=["Hall"]), pseudonymize(client.fleet.snapshot(as_="polars"), key)
    print(state.shape, polars.height, shared.num_rows, PERSONAL_RESOURCES[0].how is Personal.IDENTIFIER)
    return [column.column for column in PERSONAL_COLUMNS]


async def both(device_id: str) -> float | None:
    async with AsyncMirrorClient.from_env() as client:
        request = await client.requests.begin_read(device_id, "/3303/0/5700")
        value: Value = await request.result(timeout=5)
        past: pd.DataFrame = await (await client.get_device(device_id)).history(client=client, limit=1)
        print(past.shape, (await client.as_of(datetime.now(UTC), as_="polars")).height)
        async for event in client.events(limit=1):
            print(event.device_id)
        async with await client.watch(print) as watch:
            print(watch.is_running)
        return value.python if isinstance(value.python, float) else None


def however_it_is_named(client: MirrorClient, simulator: Simulator, named: DeviceLike) -> list[object]:
    listed, mirrored = client.devices.get(named), client.get_device(named)
    request = client.requests.begin_read(mirrored, "/3303/0/5700")
    simulator.set_online(simulator.list_devices()[0], True)
    client.fleet.snapshot(["light-01", listed, mirrored, request])
    plain: float | int | str | bool | datetime | bytes | InstanceValues | None = mirrored["/3303/0/5700"].value
    return [plain, mirrored["/3303/0/5700"].desired_value, request.to_dict(), listed.to_json(indent=1)]


def carefully(client: MirrorClient, table: pd.DataFrame) -> list[str]:
    plan = client.plan(table)
    result = plan.apply(concurrency=4, canary=2, max_failures=None)
    if not result.attrs["mirror"]["complete"]:
        plan.undo().apply()
    with client.record("run.parquet", paths=["/3303/*"]) as recorder:
        print(client.devices.explain("light-01", "/3303/0/5700").why)
    audit = recorder.audit()
    print(audit.complete, recorder.recording.as_of(datetime.now(UTC)).shape)
    print(recorder.recording.sql("from history", as_="polars").height, recorder.recording.sql("from state").shape)
    return [gap.reason for gap in audit.gaps]


def under_test(mirror_in_process: Mirror) -> Fault:
    mirror_in_process.clock.advance("10min")
    light = mirror_in_process.simulator.add_device("light", [{"path": "/3311/0/5851", "value": "10"}])
    print(mirror_in_process.client.get_device(light).endpoint_name)
    return mirror_in_process.faults.drop("response")


def main() -> None:
    print("version", mirror_sdk.__version__.split("."))
    with MirrorClient.from_env(timeout=5) as client:
        print(client.read_value("id", "/3303/0/5700", timeout=1.5))
        added: list[PresubscriptionRule] = client.subscriptions.rules.add(
            [{"resource_path": ["/3303/*"]}], apply_now=True
        )
        print(client.subscriptions.rules.remove(added))
        for waiting in client.requests.list():
            print(waiting.uri, waiting.expires_at)
    print(asyncio.run(both("id")))
