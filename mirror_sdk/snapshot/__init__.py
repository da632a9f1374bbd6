"""The fleet snapshot: the state of many devices as of one instant, in one response.

>>> fleet = client.fleet.snapshot(paths=["/3303/*", "/3311/*"])
>>> fleet["endpoint_name"].unique().tolist()
['light-01', 'station-01']
>>> client.read_value("station-01", "/3303/0/5700")
21.5
>>> fleet.mirror.refresh(client)["reported_num"].dropna().tolist()
[21.5]

``client.fleet.snapshot()`` returns a state table. ``frame.mirror.refresh(client)`` returns the current table, and
fetches only the changes.

A fleet larger than memory
--------------------------

``client.fleet.dataset(folder)`` or ``mirror snapshot --dataset FOLDER`` writes a snapshot to Parquet files while it
arrives. Each file contains one range of device ids. All have the columns, dtypes and metadata of
``client.fleet.snapshot()`` and show the same instant. Memory use does not depend on the size of the fleet. The folder
appears when it is complete; a lost connection or a kill leaves no files.

pandas, Arrow and Dask read such a dataset. With :mod:`mirror_sdk.dask`, the workers of a cluster load a fleet directly.

Limits
------

The complete response is validated before a table is made: a damaged snapshot raises an error. A response of more than
``max_snapshot_bytes`` after decompression is rejected. The default is 2 GiB. Set it for the client, or with
``--max-snapshot-bytes`` of ``mirror snapshot``. If you pass no ``timeout``, the client's timeout applies to
each 64 KiB of the snapshot, not to all of it.
"""

import mirror_sdk.tables  # noqa: F401 - first, as it says what to install where pyarrow is missing
