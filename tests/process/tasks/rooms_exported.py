"""The temperatures with a table of rooms of one's own, as Parquet, Excel and CSV."""

import sys

import pandas as pd

from mirror_sdk import MirrorClient

rooms = pd.read_csv(sys.argv[1])
with MirrorClient.from_env() as client:
    state = client.snapshot(paths=["/3303/0/5700"])
joined = state.mirror.join(rooms, on="endpoint_name", how="inner")
joined.to_parquet(sys.argv[2] + ".parquet")
joined.to_csv(sys.argv[2] + ".csv", index=False)
joined.mirror.for_excel().to_excel(sys.argv[2] + ".xlsx", index=False)
print(joined.groupby("floor", observed=True)["reported_num"].mean().to_dict())
print(len(joined.mirror.stale("1h")), "are stale")
