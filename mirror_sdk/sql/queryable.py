"""The base class of objects that accept SQL queries on their own tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, overload

from mirror_sdk._arguments import SqlFormat
from mirror_sdk._fork import import_locked
from mirror_sdk._protocol.defaults import DEFAULT_MAX_ROWS

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable
    from mirror_sdk.sql.source import ViewSource


class FileQueryOptions(TypedDict, total=False):
    """The options of a query on files."""

    explain: bool
    max_rows: int


class Queryable:
    """An object that accepts SQL queries on its own tables."""

    @overload
    def sql(
        self, query: str, *, as_: Literal["pandas"] = "pandas", **options: Unpack[FileQueryOptions]
    ) -> pd.DataFrame: ...
    @overload
    def sql(self, query: str, *, as_: Literal["arrow"], **options: Unpack[FileQueryOptions]) -> ArrowTable: ...
    @overload
    def sql(self, query: str, *, as_: Literal["polars"], **options: Unpack[FileQueryOptions]) -> pl.DataFrame: ...
    @overload
    def sql(
        self, query: str, *, as_: Literal["duckdb"], **options: Unpack[FileQueryOptions]
    ) -> duckdb.DuckDBPyRelation: ...
    def sql(
        self, query: str, *, explain: bool = False, max_rows: int = DEFAULT_MAX_ROWS, as_: SqlFormat = "pandas"
    ) -> pd.DataFrame | ArrowTable | pl.DataFrame | duckdb.DuckDBPyRelation:
        """Return the result of a SQL query on these tables, like :meth:`mirror_sdk.MirrorClient.sql`.

        - A recording has the views ``history``, ``events``, and ``state``, which is the state at its end. It also has
          the table functions ``as_of(instant)`` and ``changes(begin, end)``. ``now()`` is its end. All files are read,
          regardless of the conditions.
        - A snapshot dataset has the views ``state`` and ``drift``. ``now()`` is the time of the snapshot.
        - The archive of a history has the view ``history``. ``now()`` is the time of this machine.

        Args:
            query: One statement that only reads. It cannot write, read files or load extensions.
            explain: Whether to return the conditions that limit the parts of the files that are read, instead of the
                result.
            max_rows: The maximum number of rows to read.
            as_: The kind of result to return: ``pandas`` (a ``pandas.DataFrame``), ``arrow`` (a ``pyarrow.Table``),
                ``polars`` (a ``polars.DataFrame``) or ``duckdb`` (a ``duckdb.DuckDBPyRelation`` of the result).
                The relation uses the connection of the module ``duckdb``, which can also write and read files.

        Raises:
            ImportError: DuckDB, or a package that ``as_`` needs, is not installed.
            InvalidValue: The query is not valid, does more than read, or reads more than ``max_rows`` rows. The message
                shows the position in the query, and names similar columns.
            TypeError: The query is not a string.

        >>> dataset = client.fleet.dataset(folder / "fleet")
        >>> dataset.sql("select count(*) as n from state where path like '/3311/%'")["n"].tolist()
        [2]
        """
        import_locked("mirror_sdk.sql.query")
        from mirror_sdk.sql.query import start_query

        return start_query(query, self._views(), as_=as_, explain=explain, max_rows=max_rows).result()

    def _views(self) -> ViewSource:
        raise NotImplementedError
