"""The notebooks that come with this package, and the mirror they work with."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click

from mirror_sdk._client import MirrorClient
from mirror_sdk._visible import visible
from mirror_sdk.config import HOST_VARIABLE, is_loopback
from mirror_sdk.lab.demo import DemoError, DemoServer
from mirror_sdk.simulator.simulator import Simulator

_INSTALLED = Path(__file__).parent / "_notebooks"
_CHECKOUT = Path(__file__).parent.parent / "notebooks"

_GREY = "#797979"
"""As far from white as from JupyterLab's #111111: 4.3:1. No colour has 4.5:1 on both, which are 18.9:1 apart."""

_COLOURS = ["#3b82d4", "#c8691c", "#35914d", "#dc4a44", "#a862c6", "#9c7350", "#d0508c", _GREY, "#85851c", "#1f8f9f"]
"""Hues in matplotlib's own order, each at least 3:1 on white and on #111111."""


def list_notebooks() -> list[Path]:
    """The notebooks in the order in which they are meant to be read."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def copy(folder: Path | str = "mirror-notebooks") -> list[Path]:
    """Copy the notebooks into a folder of the user's, which is made where there is none.

    A notebook that is there already stays as it is: it may hold the user's work.

    Returns:
        The notebooks in the folder, in their order.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    copies = []
    for notebook in list_notebooks():
        copies.append(target / notebook.name)
        if not copies[-1].exists():
            shutil.copyfile(notebook, copies[-1])
    return copies


def connect() -> MirrorClient:
    """A client of the mirror that ``API_HOST`` and ``API_KEY`` lead to; without one, of a mirror that is started here.

    One is started when ``API_HOST`` is not set, and when it leads to this machine and nothing answers there. It has
    twelve simulated devices, is told of in a line, and ends with this program; until then ``API_HOST`` and ``API_KEY``
    of this program lead to it, for other clients. A mirror elsewhere that does not answer is an error of the first
    call: what was meant for real devices never goes to simulated ones.

    Raises:
        ConfigError: ``API_HOST`` or ``API_KEY`` cannot be used.
        DemoError: The mirror that is needed is not installed, or does not start.
    """
    if os.environ.get(HOST_VARIABLE):
        client = MirrorClient.from_env()
        if not is_loopback(client.base_url) or client.service.is_healthy():
            return client
        client.close()
    return _own_server().client()


def start_mirror_with_coap() -> DemoServer:
    """Start a mirror of this program's own, to which real devices come over CoAP from this machine.

    It has no simulated devices. Its time stands still until a :class:`Simulator` advances it. It ends when it is
    closed, or with this program.

    Raises:
        DemoError: What it needs is not installed, or it does not start.
    """
    mirror = DemoServer(devices=0, pace=0, coap=True, quiet=True)
    atexit.register(mirror.close)
    return mirror


def style_plots() -> None:
    """Have matplotlib's plots of this program read well on light and on dark pages: no background, middle colours.

    The colours ``C0`` to ``C9`` are blue, orange, green, red, purple, brown, pink, grey, olive and cyan; ``C7`` is that
    of the text.

    Raises:
        ImportError: matplotlib is not installed.

    >>> examples.style_plots()
    """
    from matplotlib import style  # an extra, and slow to import

    texts = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _GREY)
    style.use(
        texts
        | {
            "axes.facecolor": "none",
            "axes.prop_cycle": f"cycler('color', {_COLOURS})",
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.size": 11,
            "grid.color": _GREY,
            "legend.frameon": False,
            "savefig.facecolor": "none",
        }
    )
    if "ipykernel" in sys.modules:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # A figure that has no background of its own would be given a white one by JupyterLab.
        set_matplotlib_formats("png", facecolor="none")  # type: ignore[no-untyped-call]


def start_over(client: MirrorClient) -> Simulator:
    """Reset the simulated devices, so that a notebook can be run again, and after any other.

    Returns the simulator that plays the devices.

    Each simulated device is in contact, answers, and does so at once; one that deregistered stays away. The client's
    access key has no presubscription rule and no subscription any more, also not those of other programs that use the
    key. What the mirror has heard or was told stays, as do the devices' own values and the time.

    Raises:
        AccessDenied: The key has not the scope ``admin``.
        NotFound: The service has no simulated devices; nothing was changed.
        DemoError: The simulated devices live in real time, which a notebook cannot let pass; nothing was changed.

    >>> simulator.set_answer(light, "reject")
    >>> simulator = examples.start_over(client)
    >>> client.write_value(light, "/3311/0/5851", 40)
    """
    simulator = Simulator(client)
    devices = simulator.list_devices()
    if devices and not simulator.has_manual_clock():
        raise DemoError(
            f"the mirror at {client.base_url} runs on real time, and a notebook lets hours pass in it; start it by "
            f"mirror-server demo --clock manual, or unset {HOST_VARIABLE} for a mirror of the notebook's own"
        )
    for device in devices:
        if not device.online:
            simulator.set_online(device.id, True)
        if device.answer != "normal":
            simulator.set_answer(device.id, "normal")
        if device.latency_seconds:
            simulator.set_latency_seconds(device.id, 0)
    client.subscriptions.rules.delete_all()
    for registered in client.devices.list(state="registered"):
        client.subscriptions.delete_all(registered.id)
    return simulator


def have_devices(simulator: Simulator, devices: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Simulated devices that have just registered with these values, whether there were some of these names or not.

    Args:
        simulator: Plays them.
        devices: What ``simulator.add_device`` takes, of each. One that is there already keeps its type, gets the
            values, and registers again.

    Returns:
        Endpoint name -> device id.

    Raises:
        ValueError: One cannot be a device; the message names what is wrong.

    >>> fan = {"endpoint_name": "fan-01", "resources": [{"path": "/3306/0/5850", "value": "0", "writable": True}]}
    >>> ids = examples.have_devices(simulator, [fan])
    >>> examples.have_devices(simulator, [fan]) == ids
    True
    """
    there = {device.endpoint_name: device.id for device in simulator.list_devices()}
    ids = {}
    for device in devices:
        name = device["endpoint_name"]
        if name in there:
            for resource in device["resources"]:
                simulator.set_value(there[name], resource["path"], resource["value"])
            simulator.register(there[name])
        ids[name] = there[name] if name in there else simulator.add_device(**device)
    return ids


def advance_to(simulator: Simulator, hour: int, *, tz: str = "UTC", weekdays: Collection[int] = range(7)) -> datetime:
    """Let time pass until it is this hour, and one of these weekdays; not at all where it is that already.

    Args:
        simulator: Has the clock, which has to be a manual one.
        hour: Of the day, 0 to 23.
        tz: The time zone the hour and the weekdays are of.
        weekdays: From 0, Monday, to 6.

    Returns:
        The service's new present, in UTC.

    >>> print(examples.advance_to(simulator, 12))
    2026-01-05 12:00:00+00:00
    """
    now = simulator.get_clock()
    then = now.astimezone(ZoneInfo(tz)).replace(hour=hour, minute=0, second=0, microsecond=0)
    while then.astimezone(UTC) + timedelta(hours=1) <= now or then.weekday() not in weekdays:
        then += timedelta(days=1)
    left = then.astimezone(UTC) - now
    return simulator.advance(left) if left > timedelta() else now


@cache
def _own_server() -> DemoServer:
    asked = os.environ.get(HOST_VARIABLE)
    where = f" at {visible(asked)}, where {HOST_VARIABLE} leads" if asked else ""
    server = DemoServer()
    os.environ.update(server.environment)
    atexit.register(server.close)
    devices = server.count_devices()
    click.echo(f"No mirror is running{where}: started one with {devices} simulated devices for this program.")
    return server
