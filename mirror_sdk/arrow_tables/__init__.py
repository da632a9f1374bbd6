"""Arrow tables: their schemas, and the functions that build their rows.

A pyarrow schema defines the columns of each table for all of its forms (pandas, Arrow and Polars). This package does
not need pandas. The metadata of a table are in its schema, as JSON under the key ``mirror``.
"""

# Imported first, because pyarrow belongs to an optional extra: the error says how to install it.
try:
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as _error:
    if _error.name != "pyarrow":
        raise
    raise ImportError(
        'tables need pyarrow: pip install "device-state-mirror[frames]"; to do without pandas, use [arrow] or [polars]'
    ) from _error
