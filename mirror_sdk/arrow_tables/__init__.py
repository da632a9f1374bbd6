"""Tables for Arrow: their schemas, and the construction of their rows.

A pyarrow schema defines each table in all of its forms; this package does not need pandas. The metadata of a table are
in its schema, as JSON under ``mirror``.
"""

# Imported first: it is an extra, and the error says how to install it.
try:
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as _error:
    if _error.name != "pyarrow":
        raise
    raise ImportError(
        'tables need pyarrow: pip install "device-state-mirror[frames]"; to do without pandas, use [arrow] or [polars]'
    ) from _error
