"""SQL queries over the tables of a mirror, a recording or a folder of Parquet files, with DuckDB.

It imports no module that sends requests. Clients and recordings provide their tables as a ``ViewSource``.
"""

import mirror_sdk.frames  # noqa: F401 - first, because its error explains how to install pandas
from mirror_sdk.sql.archive import HistoryArchive

__all__ = ["HistoryArchive"]
