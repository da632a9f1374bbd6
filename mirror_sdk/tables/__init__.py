"""Tables for Arrow: what defines each of them, and how their rows are made.

A pyarrow schema is the one definition of a table, whatever form it is given in; nothing in here needs pandas. What a
table is based on stands in the metadata of its schema, as JSON under ``mirror``.
"""

# Imported first: it is an extra, and the error says how to install it.
try:
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as _error:
    if _error.name != "pyarrow":
        raise
    raise ImportError(
        'tables need pyarrow: pip install "device-state-mirror[frames]"; [arrow] or [polars] for those without pandas'
    ) from _error
