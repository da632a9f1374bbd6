"""Axes, legends and device names of plots."""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

import pandas as pd

from mirror_sdk._formatting import display_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST_NAME = 40
"""The maximum length of a device name in a plot. Longer names are cut."""


def axes_for(ax: Axes | None, *, height: float = 4.0) -> Axes:
    """Return ``ax``, or the axes of a new figure if it is ``None``.

    ``height`` is the height of the new figure in inches.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt  # an extra, and slow to import
    except ImportError as exc:
        raise ImportError('plots need matplotlib: pip install "device-state-mirror[notebook]"') from exc
    axes: Axes = plt.subplots(figsize=(9, height), layout="constrained")[1] if ax is None else ax
    return axes


def concise_dates(axes: Axes, tz: tzinfo | str) -> None:
    """Label the horizontal axis with times in this time zone.

    A date appears only where it changes, and seconds only if needed.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # an extra, and slow to import

    locator = AutoDateLocator(tz=tz, minticks=3, maxticks=9)
    axes.xaxis_date(tz=tz)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=tz))


def plain_legend(axes: Axes, *, outside: bool = False) -> None:
    """Add a legend, optionally to the right of the axes.

    Names that look like a formula are drawn as plain text.
    """
    legend = axes.legend(fontsize="small", loc="best")
    if outside:
        legend.set_loc("upper left")
        legend.set_bbox_to_anchor((1.0, 1.0))
    for text in legend.get_texts():
        text.set_parse_math(False)


def device_names(*frames: pd.DataFrame) -> dict[str, str]:
    """Return the display names of the devices whose endpoint names the tables contain."""
    named = [
        frame[["device_id", "endpoint_name"]].drop_duplicates().astype(object).dropna()
        for frame in frames
        if "endpoint_name" in frame
    ]
    if not named:
        return {}
    names = pd.concat(named).drop_duplicates("device_id")
    short = [name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…" for name in names["endpoint_name"]]
    return display_names(dict(zip(names["device_id"], short, strict=True)))
