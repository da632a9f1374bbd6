"""What tables for Arrow are to type checkers: pyarrow tells them nothing, and what it has would be unknown to them."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class ArrowStream(Protocol):
    """What gives its columns to Arrow, such as ``pyarrow.Table``, ``polars.DataFrame`` and DuckDB's relations."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of Arrow's C interface."""


@runtime_checkable
class ArrowTable(ArrowStream, Protocol):
    """A ``pyarrow.Table``. All that one has is here too; what is not listed is of any type.

    Attributes:
        num_rows: How many rows it has.
        column_names: The names of its columns.
    """

    num_rows: int
    column_names: list[str]

    def to_pylist(self) -> list[dict[str, Any]]:
        """Its rows, each with its cells by the names of their columns.

        >>> client.state_frame(paths=["/3303/*"], as_="arrow").to_pylist()[0]["path"]
        '/3303/0/5700'
        """

    def __getattr__(self, name: str) -> Any: ...
