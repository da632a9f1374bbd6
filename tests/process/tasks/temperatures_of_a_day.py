"""The temperatures of the last day by the hour, as a table and a plot; what is missing is told."""

import sys

import pandas as pd

from mirror_sdk import MirrorClient

TEMPERATURE = "/3303/0/5700"

with MirrorClient.from_env() as client:
    client.add_presubscriptions([{"resource_path": [TEMPERATURE]}], apply_now=True)
    state = client.snapshot(paths=[TEMPERATURE])
    events = client.events_frame(after=0, timeout=0, paths=[TEMPERATURE])
for gap in events[events["event"] == "gap"].itertuples():
    print(f"lost: {gap.first_seq} to {gap.seq}")
events["hour"] = events["changed_at"].dt.floor("1h")
hours = pd.date_range(end=pd.Timestamp(state.attrs["mirror"]["taken_at"]).floor("1h"), periods=24, freq="1h")
hourly = events.pivot_table("value_num", "hour", "endpoint_name", observed=True).reindex(index=hours)
hourly = hourly.reindex(columns=state["endpoint_name"].astype(str))
for name, missing in hourly.isna().sum().items():
    print(f"{name}: {24 - missing} hours, {missing} missing")
hourly.to_csv(sys.argv[1] + ".csv")
hourly.astype(float).plot(ylabel="°C").figure.savefig(sys.argv[1] + ".png")
