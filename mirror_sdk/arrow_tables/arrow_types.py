"""Types of Arrow objects for type checkers, because pyarrow has no type annotations."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ArrowStream(Protocol):
    """An object that exports its columns to Arrow.

    Examples are a ``pyarrow.Table``, a ``polars.DataFrame`` and a DuckDB relation.
    """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows as a stream of the Arrow C interface."""


@runtime_checkable
class ArrowTable(ArrowStream, Protocol):
    """The static type of a ``pyarrow.Table``, for programs that run a type checker.

    All attributes and methods of ``pyarrow.Table`` are allowed. Those that are not listed here have the type ``Any``.

    Attributes:
        num_rows: The number of rows.
        column_names: The names of the columns.
    """

    num_rows: int
    column_names: list[str]

    def to_pylist(self, *, maps_as_pydicts: str | None = None) -> list[dict[str, Any]]:
        """Return the rows as dictionaries from column names to cells.

        >>> client.state_frame(paths=["/3303/*"], as_="arrow").to_pylist()[0]["path"]
        '/3303/0/5700'
        """

    def __getattr__(self, name: str) -> Any: ...
