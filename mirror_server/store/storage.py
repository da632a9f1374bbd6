"""What an extension stores in the database, and what the operator's commands do with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirror_server.core.instants import Instant
from mirror_server.store.schema import Branch
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The tables of an extension. Everything here is called in a transaction.

    Attributes:
        branch: The migrations that make them.
        violations: What may be wrong, and a statement for each that gives a row for each place where it is so.
        erase: Deletes all that is stored of a device, by its id and its endpoint name (``None`` for a device that is
            not known); gives how many rows by what they were. The device itself goes afterwards.
        end_application: Deletes what goes on without a request of an application, by its id.
        newest_instant: The latest instant at which anything is stored to have happened; ``None`` where nothing is.
    """

    branch: Branch
    violations: Mapping[str, str] = field(default_factory=dict)
    erase: Callable[[Session, str, str | None], Mapping[str, int]] | None = None
    end_application: Callable[[Session, str], object] | None = None
    newest_instant: Callable[[Session], Instant | None] | None = None


def of_table(branch: Branch, table: str, column: str) -> Storage:
    """A table whose rows of a device, or of an application, are deleted by this column."""

    def delete(session: Session, value: str) -> int:
        return session.run(f"DELETE FROM {table} WHERE {column} = :value", value=value)

    if column == "app_id":
        return Storage(branch=branch, end_application=delete)
    return Storage(branch=branch, erase=lambda session, device_id, _: {table: delete(session, device_id)})
