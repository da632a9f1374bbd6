"""The settings of the simulated devices."""

from __future__ import annotations

from dataclasses import dataclass

import click

from mirror_server.config import SERVE, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorSettings:
    """The number of simulated devices, and the settings of their values and of the clock."""

    simulate: int | None = setting(
        None,
        "Number of simulated devices. The option also adds the routes that control them. By default the server has"
        " neither.",
        type=click.IntRange(min=0),
        metavar="N",
    )
    seed: int = setting(
        0,
        "Seed of the simulated devices. The same seed produces the same devices and values.",
        type=int,
        commands=(*SERVE, "demo"),
    )
    pace: float = setting(
        0,
        "Seconds by which a manual clock advances by itself each second. With 0 it stands still until the simulator"
        " advances it.",
        type=click.FloatRange(min=0),
        commands=("demo",),
    )
