"""Imported first by every package that makes tables: pandas is an extra, and who lacks it is told how to get it."""

try:
    import pandas  # noqa: F401, ICN001
    import pyarrow  # noqa: F401, ICN001
except ModuleNotFoundError as exc:
    if exc.name not in {"pandas", "pyarrow"}:
        raise
    raise ImportError(f'tables need {exc.name}: pip install "device-state-mirror[frames]"') from exc
