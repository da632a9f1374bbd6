"""Which devices have not been heard of for three hours, since when, and why; and which were never read."""

import pandas as pd

from mirror_sdk import MirrorClient

with MirrorClient.from_env() as client:
    state = client.snapshot()
    silent = state.mirror.stale("3h", by="device", devices=client.list_devices())
    silent = silent[silent["last_contact"] < pd.Timestamp(state.attrs["mirror"]["taken_at"]) - pd.Timedelta("3h")]
    newest = state.sort_values("reported_at", na_position="first").groupby("device_id", observed=True)["path"].last()
    for device in silent.itertuples():
        print(f"{device.endpoint_name}: {device.stale} old values, last heard of at {device.last_contact:%d.%m. %H:%M}")
        print(f"  {' '.join(client.explain(device.device_id, newest[device.device_id]).why)}")
known = state.groupby("endpoint_name", observed=True)["reported_at"].count()
print("never read:", *known.index[known == 0])
