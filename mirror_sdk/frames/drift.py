"""The drift table, which lists the resources whose desired and reported values differ."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike, real
from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, Words, documented, schema_of
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import build, need_times, plain, reference_instant, shared_metadata, with_index
from mirror_sdk.values import ValueKind


class DriftKind(StrEnum):
    """The reason why a resource is in the drift table.

    - ``PENDING``: a write is in progress.
    - ``FAILED``: the last write failed.
    - ``REVERTED``: the device reported another value after the write succeeded.
    - ``UNCONFIRMED``: the write succeeded, but the last report has another value. The report may be older than the
      write.
    - ``NEVER_REPORTED``: the write succeeded, but the device has never reported a value.
    - ``TYPE_MISMATCH``: the device reported a value of another type after the write succeeded.
    """

    PENDING = "pending"
    FAILED = "failed"
    REVERTED = "reverted"
    UNCONFIRMED = "unconfirmed"
    NEVER_REPORTED = "never_reported"
    TYPE_MISMATCH = "type_mismatch"


DRIFT_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA if the state table has none"),
    TableColumn("path", CATEGORY, "resource path"),
    TableColumn("desired_num", pa.float64(), "the requested number"),
    TableColumn("desired_text", pa.string(), "the requested text"),
    TableColumn("desired_bool", pa.bool_(), "the requested boolean"),
    TableColumn("reported_num", pa.float64(), "the reported number"),
    TableColumn("reported_text", pa.string(), "the reported text"),
    TableColumn("reported_bool", pa.bool_(), "the reported boolean"),
    TableColumn("kind", Words([kind.value for kind in DriftKind]), "one of ``DriftKind``"),
    TableColumn("since", INSTANT, "when the drift started: at the request, at its end, or at the report"),
    TableColumn("age", pa.duration("ms"), "time from ``since`` to ``now``"),
    TableColumn(
        "desired_revision",
        pa.int64(),
        "the revision of the desired value, by which ``acknowledge_failed_write`` recognizes the failure; NA if the"
        " service sends none",
    ),
)
"""The columns of the drift table."""

DRIFT_SCHEMA = schema_of(DRIFT_COLUMNS)
"""The schema of the drift table."""

_TYPED = ("num", "text", "bool")
_REVISIONS = ("reported_revision", "desired_revision")
_TIMES = ("reported_at", "desired_at", "requested_at", "acknowledged_at")
_NEEDED = ("device_id", "path", "desired_status", *_TIMES, *_REVISIONS)


@documented(DRIFT_COLUMNS)
def drift_frame(
    state: pd.DataFrame,
    *,
    tolerance: float | Mapping[str, float] = 0.0,
    relative: float = 0.0,
    now: InstantLike | None = None,
    tz: str | None = None,
    unconfirmed: bool = False,
    acknowledged: bool = False,
) -> pd.DataFrame:
    """Return the drift table for a state table: one row per resource whose desired and reported values differ.

    A write in progress is always included. A failed write is included if its value differs from the reported one.
    Opaque values are compared only if the state table has its raw columns. The revisions in the state table determine
    whether a report or a write came later. If the table has no revisions, the times determine it, and with equal times
    the order is unknown.

    Args:
        state: A state table.
        tolerance: The largest accepted difference between numbers. Pass one number for all paths, or a mapping from
            paths to numbers. Paths that the mapping lacks have a tolerance of 0.
        relative: The largest accepted difference as a fraction of the desired number. The larger of the two tolerances
            applies.
        now: The time from which ``age`` is measured, by the mirror's clock. The default is the timestamp of the state
            table.
        tz: The time zone of ``since``, such as ``Europe/Berlin``; UTC by default.
        unconfirmed: Whether to include ``DriftKind.UNCONFIRMED`` values. Read or subscribe to the resource to find
            out which value the device has.
        acknowledged: Whether to include failed writes that someone acknowledged.

    Returns:
        A DataFrame with the columns of :data:`DRIFT_SCHEMA`, even if it has no rows:

        {columns}

        ``attrs["mirror"]`` contains ``taken_at`` (the time from which ``age`` is measured), and ``devices``,
        ``complete`` and ``server`` of the state table.

    Raises:
        InvalidValue: A tolerance is negative or not a number, ``now`` is naive, or ``tz`` is not a time zone. It is
            also raised if the table lacks a column, a time column contains other values, or neither ``now`` nor the
            metadata contain a time.
    """
    state = with_index(state)
    if missing := {*_NEEDED} - set(state.columns):
        raise InvalidValue(
            f"the state table lacks {', '.join(sorted(missing))}; pass the result of client.state_frame()"
        )
    _check_distances(tolerance, relative)
    taken_at = reference_instant(state, now)
    metadata = shared_metadata(state) | {"taken_at": taken_at}
    requested = state[state["desired_status"].notna()]
    if requested.empty:
        # A column without values may have lost its type, for example after a text file was read.
        return build({name: [] for name in DRIFT_SCHEMA.names}, DRIFT_SCHEMA, tz=tz, **metadata)
    need_times(requested, "reported_at", "desired_at")
    kinds = _kinds(requested, tolerance, relative)
    if not acknowledged:
        kinds = kinds.mask((kinds == DriftKind.FAILED.value) & requested["acknowledged_at"].notna())
    if not unconfirmed:
        kinds = kinds.mask(kinds == DriftKind.UNCONFIRMED.value)
    drifting = requested[kinds.notna()]
    kinds = kinds[kinds.notna()]
    since = _since(drifting, kinds)
    columns = {name: drifting[name].astype(object) for name in DRIFT_SCHEMA.names if name in drifting}
    columns.setdefault("endpoint_name", pd.Series(None, index=drifting.index, dtype=object))
    columns |= {"kind": kinds, "since": since, "age": pd.Timestamp(taken_at or "NaT") - since}
    cells = {name: [plain(value) for value in column] for name, column in columns.items()}
    return build(cells, DRIFT_SCHEMA, tz=tz, **metadata)


def _kinds(requested: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    """Return the ``DriftKind`` of each row, or a missing value if there is no drift."""
    is_since = _is_reported_after_write(requested)
    differs = ~_agree(requested, tolerance, relative)
    desired, reported = (
        requested[[f"{of}_{kind}" for kind in _TYPED]].notna().set_axis(_TYPED, axis="columns")
        for of in ("desired", "reported")
    )
    has_desired, is_reported = desired.any(axis=1), reported.any(axis=1) | _is_unreadable(requested)
    is_other_type = has_desired & is_reported & ~(desired & reported).any(axis=1)
    succeeded, failed, pending = (requested["desired_status"] == status for status in ("success", "failure", "pending"))
    unlike = succeeded & differs
    # Without their payloads, opaque values cannot be compared.
    if "desired_raw" not in requested:
        unlike &= has_desired
    # A reported opaque value has a time even if the table lacks its payload.
    never_reported = ~is_reported & requested["reported_at"].isna()
    # The first true condition applies.
    conditions = {
        DriftKind.PENDING: pending,
        DriftKind.FAILED: failed & differs,
        DriftKind.NEVER_REPORTED: unlike & never_reported,
        DriftKind.UNCONFIRMED: unlike & ~is_since,
        DriftKind.TYPE_MISMATCH: succeeded & is_other_type & is_since,
        DriftKind.REVERTED: unlike,
    }
    kinds = pd.Series(pd.NA, index=requested.index, dtype=object)
    for kind, condition in reversed(conditions.items()):
        kinds = kinds.mask(condition, kind.value)
    return kinds


def _is_reported_after_write(requested: pd.DataFrame) -> pd.Series:
    """Return which values were certainly reported after the last change of the desired value.

    :attr:`mirror_sdk.Resource.is_reported_after_write` is the equivalent for one resource.
    """
    by_time = (requested["reported_at"] > requested["desired_at"]).fillna(False).astype(bool)
    reported, desired = (requested[name].astype("Int64") for name in _REVISIONS)
    return (reported > desired).where((reported != desired).fillna(False), by_time).astype(bool)


def _is_unreadable(requested: pd.DataFrame) -> pd.Series:
    """Return the rows whose reported bytes do not match the declared type."""
    if "value_kind" not in requested:
        return pd.Series(False, index=requested.index)
    return (requested["value_kind"] == ValueKind.OPAQUE.value).astype(bool)


def _agree(requested: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    allowed = _allowed(requested, tolerance, relative)
    numbers = ((requested["desired_num"] - requested["reported_num"]).abs() <= allowed).fillna(False)
    texts = (requested["desired_text"] == requested["reported_text"]).fillna(False)
    booleans = (requested["desired_bool"] == requested["reported_bool"]).fillna(False)
    agree = numbers.astype(bool) | texts.astype(bool) | booleans.astype(bool)
    if "desired_raw" in requested:
        # With Arrow types, a comparison with a missing payload gives NA.
        cells = [requested[name] for name in ("desired_raw", "reported_raw")]
        payloads = [column.astype(object).where(column.notna(), None) for column in cells]
        pairs = zip(*payloads, strict=True)
        agree |= pd.Series([desired == reported for desired, reported in pairs], index=requested.index, dtype=bool)
    return agree


def _check_distances(tolerance: float | Mapping[str, float], relative: float) -> None:
    tolerances = tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]
    for one in (relative, *tolerances):
        distance = real(one)
        if distance is None or distance < 0:
            raise InvalidValue(f"a tolerance must be a number, 0 or more, not {one!r}")


def _allowed(requested: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    if isinstance(tolerance, Mapping):
        absolute = requested["path"].astype(object).map(lambda path: tolerance.get(path, 0.0)).astype("Float64")
    else:
        absolute = pd.Series(tolerance, index=requested.index, dtype="Float64")
    by_value = (requested["desired_num"].abs() * relative).fillna(0.0)
    return absolute.where(absolute >= by_value, by_value)


def _since(drifting: pd.DataFrame, kinds: pd.Series) -> pd.Series:
    since = drifting["desired_at"].mask(
        kinds == DriftKind.PENDING.value, drifting["requested_at"].fillna(drifting["desired_at"])
    )
    reported = kinds.isin([DriftKind.REVERTED.value, DriftKind.TYPE_MISMATCH.value])
    return since.mask(reported, drifting["reported_at"])
