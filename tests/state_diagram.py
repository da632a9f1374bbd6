"""The table of the desired status as a Mermaid state diagram, for the README."""

from mirror_server.core.desired import TRANSITIONS


def diagram():
    lines = [
        f"    {'[*]' if status is None else status.name.lower()} --> {target.name.lower()}: {event.value}"
        for (status, event), target in TRANSITIONS.items()
    ]
    return "\n".join(["stateDiagram-v2", *lines])
