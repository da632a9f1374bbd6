"""The extensions that take part in maintenance: each erases, checks and dates what it stores itself."""

from __future__ import annotations

from mirror_server.store import directory_maintenance, history_maintenance

EXTENSIONS = (directory_maintenance, history_maintenance)
