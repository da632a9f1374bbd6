"""The settings of the simulated devices."""

from __future__ import annotations

from dataclasses import dataclass

import click

from mirror_server.config import SERVE, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """How many simulated devices there are, and how their time passes."""

    simulate: int | None = setting(
        None,
        "Have N simulated devices, and the routes that control them. Without it there are none.",
        type=click.IntRange(min=0),
        metavar="N",
    )
    seed: int = setting(
        0,
        "What the simulated devices are made from; the same seed gives the same devices and values.",
        type=int,
        commands=(*SERVE, "demo"),
    )
    pace: float = setting(
        0,
        "How many seconds of a manual clock pass by themselves each second.",
        type=click.FloatRange(min=0),
        commands=("demo",),
    )
