"""These tests are about the history together with the fleet snapshot."""

from importlib.util import find_spec

BOTH = [
    "test_as_of.py",
    "test_category_in_reads.py",
    "test_fleet_reads.py",
    "test_history_when_clocks_jump.py",
    "test_unread_downloads.py",
]
"""Those that need the fleet snapshot too."""
collect_ignore = [] if find_spec("mirror_server.extensions.snapshots") else BOTH
