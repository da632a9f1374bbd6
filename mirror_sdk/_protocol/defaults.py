"""What both kinds of clients do where the caller says nothing else."""

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MAX_RETRIES = 2
DEFAULT_IDLE_SECONDS = 60.0
DEFAULT_ROTATE_BYTES = 64 * 1024 * 1024
DEFAULT_ROTATE_SECONDS = 300.0
DEFAULT_MAX_SNAPSHOT_BYTES = 2 * 1024**3
"""The most bytes of one snapshot: it is about what a million devices take."""
STALE_AFTER_SECONDS = 60.0
HELD_SECONDS = 1
"""For how long a request of whoever waits alone may be held open for its answer; most devices answer sooner."""
ERRORS_KEPT = 100
LONGEST_LOOK_SECONDS = 25.0
"""How long a look at what there is goes on, where more comes as fast as it is read."""
LONGEST_PAUSE_OF_LOOK_SECONDS = 2.0
"""So that it asks past a failure or three, and past no service that is away or wants to be left alone."""
