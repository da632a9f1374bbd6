"""Default values for both kinds of clients."""

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MAX_RETRIES = 2
DEFAULT_IDLE_SECONDS = 60.0
DEFAULT_ROTATE_BYTES = 64 * 1024 * 1024
DEFAULT_ROTATE_SECONDS = 300.0
DEFAULT_MAX_SNAPSHOT_BYTES = 2 * 1024**3
"""The maximum size of a snapshot in bytes, which is enough for about a million devices."""
DEFAULT_MAX_ROWS = 5_000_000
"""The maximum number of rows that a SQL query may fetch."""
STALE_AFTER_SECONDS = 60.0
HOLD_SECONDS = 1
"""The maximum time in seconds for which the service may delay the 202 of a single request.

During this time, the service waits for the device's response, to include it in the 202. Most devices respond sooner.
"""
MAX_ERRORS = 100
MAX_FETCH_SECONDS = 25.0
"""The maximum duration of fetching the current entries, because new ones may arrive as fast as they are read."""
MAX_FETCH_PAUSE_SECONDS = 2.0
"""The maximum pause during such a fetch. It allows about three retries, but none while the service is down."""
