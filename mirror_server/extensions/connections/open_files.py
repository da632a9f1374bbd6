"""The number of connections that the system's limit on open files allows."""

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
    """Return the number of connections that can be open. Raise the system's limit on open files as far as possible.

    Raises:
        CannotServe: The limit allows too few connections to be useful.
    """
    if sys.platform == "win32":
        return requested
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = requested + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return requested
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    connections = allowed - _OTHER_FILES
    # The server itself needs the other files, even if few connections are allowed.
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
