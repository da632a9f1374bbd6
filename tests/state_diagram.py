"""The table of the desired status as a Mermaid state diagram, for the README."""

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.core.desired import TRANSITIONS, DesiredEvent


def diagram():
    """Return the diagram. A note replaces the arrows of an accepted write, which is possible in each status."""
    accepted = DesiredEvent.WRITE_ACCEPTED
    to_pending = {
        status for (status, event), target in TRANSITIONS.items() if (event, target.name) == (accepted, "PENDING")
    }
    assert to_pending == {None, *DesiredStatus}
    lines = [
        f"    {status.name.lower()} --> {target.name.lower()}: {event.value}"
        for (status, event), target in TRANSITIONS.items()
        if event is not accepted
    ]
    note = "    note right of pending: each accepted write (202) sets the status to pending"
    return "\n".join(["stateDiagram-v2", "    [*] --> pending", note, *lines])
