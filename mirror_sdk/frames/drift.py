"""The drift table: where requested and reported values differ. Source: specification 2.2, 3.1; wire.md 1."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike, real
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import basis_of, build, need_times, plain, present, with_index
from mirror_sdk.tables.columns import CATEGORY, INSTANT, TableColumn, Words, documented, schema_of
from mirror_sdk.values import ValueKind


class DriftKind(StrEnum):
    """Why a resource is in the drift table.

    ``PENDING``: a write is under way. ``FAILED``: the last write failed. ``REVERTED``: after the write succeeded the
    device reported something else. ``UNCONFIRMED``: what was reported last is older than that success, or it is not
    known which was first: the device said yes, and nothing was heard since. ``NEVER_REPORTED``: the write succeeded,
    and nothing was ever reported. ``TYPE_MISMATCH``: what was reported after the success is of another type.
    """

    PENDING = "pending"
    FAILED = "failed"
    REVERTED = "reverted"
    UNCONFIRMED = "unconfirmed"
    NEVER_REPORTED = "never_reported"
    TYPE_MISMATCH = "type_mismatch"


DRIFT_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA where the state table has none"),
    TableColumn("path", CATEGORY, "resource path"),
    TableColumn("desired_num", pa.float64(), "the requested number"),
    TableColumn("desired_text", pa.string(), "the requested text"),
    TableColumn("desired_bool", pa.bool_(), "the requested boolean"),
    TableColumn("reported_num", pa.float64(), "the reported number"),
    TableColumn("reported_text", pa.string(), "the reported text"),
    TableColumn("reported_bool", pa.bool_(), "the reported boolean"),
    TableColumn("kind", Words([kind.value for kind in DriftKind]), "one of ``DriftKind``"),
    TableColumn("since", INSTANT, "since when: the request, its failure or success, or the report"),
    TableColumn("age", pa.duration("ms"), "from ``since`` to ``now``"),
    TableColumn(
        "desired_revision",
        pa.int64(),
        "the revision of the desired value, by which ``acknowledge_failed_write`` recognizes the failure; NA where the"
        " service sends none",
    ),
)
"""The drift table."""

DRIFT_SCHEMA = schema_of(DRIFT_COLUMNS)
"""The drift table."""

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
    """The drift table of a state table: one row per resource whose desired and reported value differ.

    Args:
        state: A state table.
        tolerance: By how much numbers may differ; one for all, or by path, where a path that is not named has 0.
        relative: By which part of the desired number they may differ; what allows more of both counts.
        now: To which moment ``age`` reaches, by the mirror's clock; the moment of the state table by default.
        tz: Time zone of ``since``, such as ``Europe/Berlin``; UTC by default.
        unconfirmed: Whether a value that was reported before the device said yes to another one is a row too. A read or
            a subscription confirms it, or shows that the device did otherwise.
        acknowledged: Whether a failed write that someone acknowledged is a row too.

    Returns:
        A frame with these columns, those of :data:`DRIFT_SCHEMA`, also when it has no rows:

        {columns}

        Opaque values are compared where the state table has its raw columns, and left out otherwise. A write that is
        under way is a row in any case, one that has failed where it differs from what is reported. What was reported
        first, or since, is told by the revisions of the state table, and by the times where the service sends none: the
        same millisecond tells nothing, and accuses nobody.

        ``attrs["mirror"]`` holds ``taken_at``, the moment of ``age``, and of the state table ``devices``, ``complete``
        and ``server``.

    Raises:
        InvalidValue: A tolerance is not a distance, ``now`` is naive or unknown, ``tz`` is not a time zone, or the
            table lacks a column or has no times in it.

    Source: specification 2.2 and 3.1; wire.md 1.
    """
    state = with_index(state)
    if missing := {*_NEEDED} - set(state.columns):
        raise InvalidValue(f"this is not a state table: it lacks {', '.join(sorted(missing))}")
    _check_distances(tolerance, relative)
    taken_at = present(state, now)
    metadata = basis_of(state) | {"taken_at": taken_at}
    asked = state[state["desired_status"].notna()]
    if asked.empty:
        # A column in which nothing stands may have lost its type, as after a text file.
        return build({name: [] for name in DRIFT_SCHEMA.names}, DRIFT_SCHEMA, tz=tz, **metadata)
    need_times(asked, "reported_at", "desired_at")
    kinds = _kinds(asked, tolerance, relative)
    if not acknowledged:
        kinds = kinds.mask((kinds == DriftKind.FAILED.value) & asked["acknowledged_at"].notna())
    if not unconfirmed:
        kinds = kinds.mask(kinds == DriftKind.UNCONFIRMED.value)
    drifting = asked[kinds.notna()]
    kinds = kinds[kinds.notna()]
    since = _since(drifting, kinds)
    columns = {name: drifting[name].astype(object) for name in DRIFT_SCHEMA.names if name in drifting}
    columns.setdefault("endpoint_name", pd.Series(None, index=drifting.index, dtype=object))
    columns |= {"kind": kinds, "since": since, "age": pd.Timestamp(taken_at or "NaT") - since}
    cells = {name: [plain(value) for value in column] for name, column in columns.items()}
    return build(cells, DRIFT_SCHEMA, tz=tz, **metadata)


def _kinds(asked: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    """Return the kind of each row, missing for rows without drift."""
    is_since = _is_reported_after_write(asked)
    differs = ~_agree(asked, tolerance, relative)
    desired, reported = (
        asked[[f"{of}_{kind}" for kind in _TYPED]].notna().set_axis(_TYPED, axis="columns")
        for of in ("desired", "reported")
    )
    has_desired, is_reported = desired.any(axis=1), reported.any(axis=1) | _is_unreadable(asked)
    is_other_type = has_desired & is_reported & ~(desired & reported).any(axis=1)
    succeeded, failed, pending = (asked["desired_status"] == status for status in ("success", "failure", "pending"))
    unlike = succeeded & differs
    if "desired_raw" not in asked:
        unlike &= has_desired
    never_reported = ~is_reported & asked["reported_at"].isna()
    # The first condition that is true counts.
    conditions = {
        DriftKind.PENDING: pending,
        DriftKind.FAILED: failed & differs,
        DriftKind.NEVER_REPORTED: unlike & never_reported,
        DriftKind.UNCONFIRMED: unlike & ~is_since,
        DriftKind.TYPE_MISMATCH: succeeded & is_other_type & is_since,
        DriftKind.REVERTED: unlike,
    }
    kinds = pd.Series(pd.NA, index=asked.index, dtype=object)
    for kind, condition in reversed(conditions.items()):
        kinds = kinds.mask(condition, kind.value)
    return kinds


def _is_reported_after_write(asked: pd.DataFrame) -> pd.Series:
    """Return which values were certainly reported after the desired part became what it is.

    :attr:`mirror_sdk.Resource.is_reported_after_write` is the same for one resource.
    """
    by_time = (asked["reported_at"] > asked["desired_at"]).fillna(False).astype(bool)
    reported, desired = (asked[name].astype("Int64") for name in _REVISIONS)
    return (reported > desired).where((reported != desired).fillna(False), by_time).astype(bool)


def _is_unreadable(asked: pd.DataFrame) -> pd.Series:
    """Where bytes were reported that are not of the declared type."""
    if "value_kind" not in asked:
        return pd.Series(False, index=asked.index)
    return (asked["value_kind"] == ValueKind.OPAQUE.value).astype(bool)


def _agree(asked: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    allowed = _allowed(asked, tolerance, relative)
    numbers = ((asked["desired_num"] - asked["reported_num"]).abs() <= allowed).fillna(False)
    texts = (asked["desired_text"] == asked["reported_text"]).fillna(False)
    booleans = (asked["desired_bool"] == asked["reported_bool"]).fillna(False)
    agree = numbers.astype(bool) | texts.astype(bool) | booleans.astype(bool)
    if "desired_raw" in asked:
        # Of Arrow's types a missing payload is one that compares to nothing.
        payloads = [
            asked[name].astype(object).where(asked[name].notna(), None) for name in ("desired_raw", "reported_raw")
        ]
        pairs = zip(*payloads, strict=True)
        agree |= pd.Series([desired == reported for desired, reported in pairs], index=asked.index, dtype=bool)
    return agree


def _check_distances(tolerance: float | Mapping[str, float], relative: float) -> None:
    given = tolerance.values() if isinstance(tolerance, Mapping) else [tolerance]
    for one in (relative, *given):
        distance = real(one)
        if distance is None or distance < 0:
            raise InvalidValue(f"a tolerance is a distance, not {one!r}; give a number, 0 or more")


def _allowed(asked: pd.DataFrame, tolerance: float | Mapping[str, float], relative: float) -> pd.Series:
    if isinstance(tolerance, Mapping):
        absolute = asked["path"].astype(object).map(lambda path: tolerance.get(path, 0.0)).astype("Float64")
    else:
        absolute = pd.Series(tolerance, index=asked.index, dtype="Float64")
    by_part = (asked["desired_num"].abs() * relative).fillna(0.0)
    return absolute.where(absolute >= by_part, by_part)


def _since(drifting: pd.DataFrame, kinds: pd.Series) -> pd.Series:
    since = drifting["desired_at"].mask(
        kinds == DriftKind.PENDING.value, drifting["requested_at"].fillna(drifting["desired_at"])
    )
    reported = kinds.isin([DriftKind.REVERTED.value, DriftKind.TYPE_MISMATCH.value])
    return since.mask(reported, drifting["reported_at"])
