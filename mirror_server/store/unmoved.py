"""What is stored beyond the core, and has no folder of its own yet."""

from __future__ import annotations

from mirror_server.store import directory_maintenance
from mirror_server.store.schema import MIGRATIONS, Branch
from mirror_server.store.storage import Storage


def _branch(name: str) -> Branch:
    return Branch(name, MIGRATIONS / name)


STORAGES = (
    Storage(
        branch=_branch("directory"),
        violations=directory_maintenance.VIOLATIONS,
        erase=directory_maintenance.erase,
        newest_instant=directory_maintenance.newest_instant,
    ),
)
