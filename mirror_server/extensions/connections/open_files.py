"""The number of connections that the system's limit of open files allows."""

from __future__ import annotations

import logging
import sys

from mirror_server.core.errors import CannotServe

if sys.platform != "win32":
    import resource

_OTHER_FILES = 300
_FEWEST_CONNECTIONS = 100
_FEW_CONNECTIONS = 1000

_log = logging.getLogger(__name__)


def allow_connections(requested: int) -> int:
    """Return how many connections can be open, after raising the system's limit of open files as far as it allows.

    Raises:
        CannotServe: The limit leaves too few connections to be of use.
    """
    if sys.platform == "win32":
        return requested
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = requested + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return requested
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    connections = allowed - _OTHER_FILES
    # The server itself needs its other files, however few connections are allowed.
    fewer = ", or lower --max-connections" if allowed > _OTHER_FILES else ""
    message = (
        f"the system allows this process {allowed} open files, of which the server uses up to {_OTHER_FILES} itself; "
        f"{requested} connections need {needed}: raise the limit, with 'ulimit -n {needed}' or LimitNOFILE={needed} in "
        f"a systemd unit{fewer}"
    )
    if connections < min(requested, _FEWEST_CONNECTIONS):
        raise CannotServe(message)
    if connections < min(requested, _FEW_CONNECTIONS):
        _log.warning("only %d connections can be open: %s", connections, message)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return connections
