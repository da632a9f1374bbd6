"""A recording as one table, and the state at an instant."""

import sys
from datetime import datetime

import pandas as pd

from mirror_sdk.recording import Recording

events = pd.read_parquet(sys.argv[1])
print(events.groupby(events["changed_at"].dt.date)["value_num"].agg(["count", "mean"]))
state = Recording(sys.argv[1]).as_of(datetime.fromisoformat(sys.argv[2]))
print(state[["endpoint_name", "reported_num", "reported_at"]].to_string(index=False))
print("complete" if state.attrs["mirror"]["complete"] else "not known to be complete")
