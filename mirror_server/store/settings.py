"""Single values that outlive a restart."""

from __future__ import annotations

from mirror_server.store.session import Session

EXTENSIONS = "extensions"
"""Names the extensions that the last server to lead had, with blanks between."""

MANUAL_CLOCK = "manual_clock_now"
"""Names the instant of a manual clock, in milliseconds."""


LEADER = "duty"
"""The name under which databases have it since there is such a process; migration 0001 has a function with it."""


def get(session: Session, name: str) -> str | None:
    """The value under this name."""
    value: str | None = session.scalar("SELECT value FROM settings WHERE name = :name", name=name)
    return value


def leader(session: Session) -> str | None:
    """The token of the leader, which is new each time a process takes over; ``None`` where one serves alone."""
    return get(session, LEADER)


def put(session: Session, name: str, value: str) -> None:
    """Set the value under this name."""
    session.run(
        "INSERT INTO settings (name, value) VALUES (:name, :value)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name=name,
        value=value,
    )


def probe(session: Session) -> None:
    """Write something: only what is really written shows that the disk takes it.

    Another value each time, because SQLite writes no page for one that stays what it is.
    """
    session.run(
        "INSERT INTO settings (name, value) VALUES ('probe', 'odd') ON CONFLICT (name) DO UPDATE"
        " SET value = CASE settings.value WHEN 'odd' THEN 'even' ELSE 'odd' END"
    )
