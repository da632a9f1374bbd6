"""Functions for the notebooks of this package, such as one that starts a mirror for them."""

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
from mirror_sdk._formatting import visible
from mirror_sdk.config import HOST_VARIABLE, is_loopback
from mirror_sdk.lab.demo import DemoError, DemoServer
from mirror_sdk.simulator.simulator import Simulator

_INSTALLED = Path(__file__).parent / "_notebooks"
_CHECKOUT = Path(__file__).parent.parent / "notebooks"

_GRAY = "#797979"
"""A gray with the same contrast (4.3:1) to white and to JupyterLab's #111111. No color has 4.5:1 to both."""

_COLORS = ["#3b82d4", "#c8691c", "#35914d", "#dc4a44", "#a862c6", "#9c7350", "#d0508c", _GRAY, "#85851c", "#1f8f9f"]
"""Colors in the order of matplotlib's default hues. Each has a contrast of at least 3:1 to white and to #111111."""


def list_notebooks() -> list[Path]:
    """Return the files of the notebooks in reading order."""
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    return sorted(folder.glob("[0-9][0-9]_*.ipynb"))


def copy(folder: Path | str = "mirror-notebooks") -> list[Path]:
    """Copy the notebooks to a folder, which is created if necessary.

    A notebook that already exists in the folder is not replaced, because it may contain the user's work.

    Returns:
        The notebooks in the folder, in reading order.
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
    """Return a client of the mirror at ``API_HOST`` with the key ``API_KEY``, or start a mirror if none is running.

    A mirror is started if ``API_HOST`` is not set, or if it is an address of this machine at which nothing responds.
    The function prints a line if it starts a mirror. The mirror has twelve simulated devices and ends with this
    program. Until then, ``API_HOST`` and ``API_KEY`` of this program contain its address and key, so that other clients
    use it, too.

    If ``API_HOST`` is another machine that does not respond, no mirror is started, because requests for real devices
    must not reach simulated ones. The first call then raises :class:`ConnectionFailed`.

    Raises:
        ConfigError: ``API_HOST`` or ``API_KEY`` is not valid.
        DemoError: The mirror is not installed, or does not start.
    """
    if os.environ.get(HOST_VARIABLE):
        client = MirrorClient.from_env()
        if not is_loopback(client.base_url) or client.service.is_healthy():
            return client
        client.close()
    return _own_server().client()


def start_mirror_with_coap() -> DemoServer:
    """Start a mirror for this program that real devices on this machine can reach over CoAP.

    The mirror has no simulated devices. Its clock stands still until a :class:`Simulator` advances it. It stops when
    you close it or when this program ends.

    Raises:
        DemoError: The mirror is not installed, or does not start.
    """
    mirror = DemoServer(devices=0, pace=0, coap=True, quiet=True)
    atexit.register(mirror.close)
    return mirror


def style_plots() -> None:
    """Style the plots of matplotlib for light and dark pages, with no background and medium colors.

    The colors ``C0`` to ``C9`` are blue, orange, green, red, purple, brown, pink, gray, olive and cyan. The text has
    the color ``C7``.

    Raises:
        ImportError: matplotlib is not installed.

    >>> examples.style_plots()
    """
    from matplotlib import style  # an optional package that is slow to import

    texts = dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _GRAY)
    style.use(
        texts
        | {
            "axes.facecolor": "none",
            "axes.prop_cycle": f"cycler('color', {_COLORS})",
            "axes.spines.right": False,
            "axes.spines.top": False,
            "font.size": 11,
            "grid.color": _GRAY,
            "legend.frameon": False,
            "savefig.facecolor": "none",
        }
    )
    if "ipykernel" in sys.modules:
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        # Without this setting, JupyterLab adds a white background to the figure.
        set_matplotlib_formats("png", facecolor="none")  # type: ignore[no-untyped-call]


def start_over(client: MirrorClient) -> Simulator:
    """Reset the simulated devices, so that notebooks can be run again and in any order.

    This connects all simulated devices, and removes their latency and response mode. Deregistered devices stay
    deregistered. It also deletes all presubscription rules and subscriptions of the access key, including those of
    other programs with this key. The values and the clock stay as they are.

    Returns:
        The simulator of these devices.

    Raises:
        AccessDenied: The key does not have the scope ``admin``.
        NotFound: The service has no simulated devices. Nothing was changed.
        DemoError: The simulated devices run in real time, which a notebook cannot advance. Nothing was changed.

    >>> simulator.set_response_mode(light, "reject")
    >>> simulator = examples.start_over(client)
    >>> client.write_value(light, "/3311/0/5851", 40)
    """
    simulator = Simulator(client)
    devices = simulator.list_devices()
    if devices and not simulator.has_manual_clock():
        raise DemoError(
            f"the mirror at {client.base_url} uses real time, but the notebook advances its clock by hours; start it "
            f"with mirror-server demo --clock manual, or unset {HOST_VARIABLE} for a mirror of the notebook's own"
        )
    for device in devices:
        if not device.online:
            simulator.set_online(device.id, True)
        if device.answer != "normal":
            simulator.set_response_mode(device.id, "normal")
        if device.latency_seconds:
            simulator.set_latency_seconds(device.id, 0)
    client.subscriptions.rules.delete_all()
    for registered in client.devices.list(state="registered"):
        client.subscriptions.delete_all(registered.id)
    return simulator


def have_devices(simulator: Simulator, devices: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Make sure that simulated devices with these names and values exist and have just registered.

    Args:
        simulator: The simulator.
        devices: The arguments of ``simulator.add_device`` for each device. An existing device keeps its type, gets the
            new values, and registers again.

    Returns:
        The device ids by endpoint name.

    Raises:
        ValueError: A device is not valid. The message contains the reason.

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
    """Advance the clock to this hour on one of these weekdays. Do nothing if this is already the current hour.

    Args:
        simulator: A simulator with a manual clock.
        hour: The hour of the day, from 0 to 23.
        tz: The time zone of the hour and the weekdays.
        weekdays: The weekdays, from 0 for Monday to 6.

    Returns:
        The new time of the service in UTC.

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
    address = os.environ.get(HOST_VARIABLE)
    where = f" at {visible(address)}, the address in {HOST_VARIABLE}" if address else ""
    server = DemoServer()
    os.environ.update(server.environment)
    atexit.register(server.close)
    devices = server.count_devices()
    click.echo(f"No mirror is running{where}: started one with {devices} simulated devices for this program.")
    return server
