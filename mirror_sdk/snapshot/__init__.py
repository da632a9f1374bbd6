"""The fleet snapshot: the state table of many devices, all as of one instant, in one answer.

``client.fleet.snapshot()`` gives it as a table, and ``frame.mirror.refresh(client)`` the table as it would be now, for
which only what has changed is fetched.

>>> fleet = client.fleet.snapshot(paths=["/3303/*", "/3311/*"])
>>> fleet["endpoint_name"].unique().tolist()
['light-01', 'station-01']
>>> client.read_value("station-01", "/3303/0/5700")
21.5
>>> fleet.mirror.refresh(client)["reported_num"].dropna().tolist()
[21.5]

For a fleet larger than memory ``client.fleet.dataset(folder)``, or ``mirror snapshot --dataset FOLDER``, writes a
snapshot while it arrives: Parquet files by ranges of device ids, with the columns, dtypes and metadata of
``client.fleet.snapshot()``, all of one instant. Memory holds a piece at a time, whatever the size of the fleet. The
folder appears when it is whole; a cut connection or a kill leaves nothing in its place. pandas, Arrow and Dask read it,
and :mod:`mirror_sdk.dask` has the workers of a cluster load a fleet themselves.

What arrives is checked as a whole before anything is made of it, and is refused beyond ``max_snapshot_bytes`` after
decompression (2 GiB; an argument of the client, ``--max-snapshot-bytes`` of ``mirror snapshot``): a damaged one is an
error, never a table. Without a ``timeout`` of its own a snapshot may take the client's for each 64 KiB.
"""

import mirror_sdk.tables  # noqa: F401 - first, as it says what to install where pyarrow is missing
