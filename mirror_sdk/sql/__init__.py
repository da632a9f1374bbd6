"""SQL queries over the tables of a mirror, a recording or a folder of Parquet files, with DuckDB.

It imports no module that sends requests. Clients and recordings provide their tables as a ``ViewSource``.
"""

# Imported first, because duckdb belongs to an optional extra: the error says how to install it.
try:
    import duckdb  # noqa: F401
except ModuleNotFoundError as _error:
    if _error.name != "duckdb":
        raise
    raise ImportError('SQL queries need duckdb: pip install "device-state-mirror[sql]"') from _error

import mirror_sdk.frames  # noqa: F401 - first, because its error explains how to install pandas
from mirror_sdk.sql.archive import HistoryArchive

__all__ = ["HistoryArchive"]
