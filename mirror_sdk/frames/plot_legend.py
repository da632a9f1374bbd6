"""Names for the lines of a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mirror_sdk.object_definitions import lookup


def label_of(path: str) -> str:
    """Return the label of a resource, or its path if it has no label."""
    definition = lookup(path)
    return definition.label if definition and definition.label else path


def line_names(lines: Iterable[tuple[str, str]], names: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the name of each line, which consists of its device and the label of its resource.

    If a device has several lines with the same label, such as two sensors of a kind, the names include their paths.

    Args:
        lines: The device id and the resource path of each line.
        names: The unique names of devices, by id. A device without a name gets its id as its name.
    """
    labels = {line: label_of(line[1]) for line in lines}
    count = Counter((device_id, label) for (device_id, _), label in labels.items())
    return {
        (device_id, path): f"{names.get(device_id, device_id)} {label}"
        + (f" {path}" if count[device_id, label] > 1 else "")
        for (device_id, path), label in labels.items()
    }
