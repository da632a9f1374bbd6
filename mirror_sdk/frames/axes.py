"""Where plots are drawn, and what they have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from mirror_sdk._visible import display_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_NAME = 40
"""The most characters of a device's name in a plot."""


def axes_for(ax: Axes | None, *, height: float = 4.0) -> Axes:
    """The axes that were given, else those of a new figure, so many inches high.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt  # an extra, and slow to import
    except ImportError as exc:
        raise ImportError('plots need matplotlib: pip install "device-state-mirror[notebook]"') from exc
    axes: Axes = plt.subplots(figsize=(9, height), layout="constrained")[1] if ax is None else ax
    return axes


def plain_legend(axes: Axes, *, beside: bool = False) -> None:
    """Add a legend, ``beside`` the axes if need be, whose names are shown as they are: one may look like a formula."""
    legend = axes.legend(fontsize="small", loc="best")
    if beside:
        legend.set_loc("upper left")
        legend.set_bbox_to_anchor((1.0, 1.0))
    for text in legend.get_texts():
        text.set_parse_math(False)


def device_names(*frames: pd.DataFrame) -> dict[str, str]:
    """What the devices are called that tables have an endpoint name of."""
    named = [
        frame[["device_id", "endpoint_name"]].drop_duplicates().astype(object).dropna()
        for frame in frames
        if "endpoint_name" in frame
    ]
    if not named:
        return {}
    known = pd.concat(named).drop_duplicates("device_id")
    short = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…" for name in known["endpoint_name"]]
    return display_names(dict(zip(known["device_id"], short, strict=True)))
