"""Which rows of the history are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mirror_server.core.instants import Instant
from mirror_server.store.conditions import Condition


class Position(NamedTuple):
    """Where a row stands among all: rows are in this order, with nothing before every text."""

    device_id: str | None
    path: str | None
    changed_at: Instant
    revision: int

    @property
    def key(self) -> tuple[str, str, Instant, int]:
        """What positions are compared by."""
        return self.device_id or "", self.path or "", self.changed_at, self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """Rows of the history.

    Attributes:
        conditions: Those of the devices that meet every condition; gaps of the service are those of all devices.
        patterns: Of the resources whose path is one of these, or begins with what stands before a final ``*``; all
            without any. Rows that are of no resource, as registrations and gaps are, are told in any case: without
            them nobody could tell a resource that did not change from one that could not be heard.
        begin: What happened then or later; of gaps, those that ended later.
        end: What happened before.
        after: Behind this position, in the order in which the rows are told.
        limit: So many rows.
        descending: The last row first.
        revision: Nothing that was stored later than this.
    """

    conditions: tuple[Condition, ...] = ()
    patterns: tuple[str, ...] = ()
    begin: Instant | None = None
    end: Instant | None = None
    after: Position | None = None
    limit: int | None = None
    descending: bool = False
    revision: int | None = None


class TooOld(ValueError):
    """What is asked for lies before what is kept.

    Attributes:
        oldest_at: The oldest instant there is an answer for.
    """

    def __init__(self, oldest_at: Instant) -> None:
        super().__init__("the history does not go back that far")
        self.oldest_at = oldest_at
