"""Settings that all benchmarks of one run share: sizes, duration, cores, folders, the load generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
import httpx
from children import ChildFailed, Program, Server
from machine import Cores


class Sizes(click.ParamType):
    """A list of whole numbers, separated by commas."""

    name = "sizes"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> tuple[int, ...]:
        parts = str(value).split(",")
        if not all(part.isdecimal() and int(part) for part in parts):
            self.fail("write whole numbers above 0 with commas between them, like 1000,10000", parameter, context)
        return tuple(sorted(map(int, parts)))


def _option(default: object, text: str, kind: click.ParamType | None = None) -> Any:
    """Return a field with an option of the command; its value is a number above 0."""
    return field(metadata={"default": default, "help": text, "type": kind or click.IntRange(min=1)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes and duration: the options of the command."""

    rounds: int = _option(5, "How many times each side is measured. More rounds give more reliable figures.")
    seconds: float = _option(3.0, "Seconds that one measurement of a rate takes.", click.FloatRange(min=0.05))
    connections: int = _option(
        16, "Number of connections of the load generator. Each always has one request in flight."
    )
    devices: int = _option(1000, "Number of devices. Used by device_object, observation, polls, history and processes.")
    resources: int = _option(20, "Number of resources of each device.")
    in_flight: int = _option(32, "Number of observations that wait for the disk at the same time. Used by observation.")
    batch: int = _option(500, "Number of observations in a group. Used by observation, history and processes.")
    polls: int = _option(10_000, "Number of open polls. Used by polls.")
    events: int = _option(300, "Number of events that a single poll waits for in each round. Used by polls.")
    calls: int = _option(300, "Number of calls of the client in one measurement. Used by read_value and real_devices.")
    growth: tuple[int, ...] = _option(
        "1000,10000,100000", "Numbers of devices to compare, separated by commas. Used by growth.", Sizes()
    )
    log_entries: int = _option(
        1_000_000,
        "Number of entries of a long notification log. Used by growth, loop_holds and malicious.",
        click.IntRange(min=10),
    )
    log_rate: int = _option(10_000, "Observations per second into one notification log. Used by full_log.")
    log_seconds: float = _option(60.0, "Seconds of observations. Used by full_log.", click.FloatRange(min=1))
    rules: int = _option(1000, "Number of presubscription rules. Used by growth.", click.IntRange(10, 1024))
    registrations: int = _option(10_000, "Number of devices that register. Used by growth.", click.IntRange(min=10))
    fleet: int = _option(10_000, "Number of devices in the table of a fleet. Used by fleet and history.")
    loop_devices: int = _option(5000, "Number of devices. Used by loop_holds and malicious.")
    flood_mib: int = _option(96, "MiB that a malicious client sends on one connection. Used by malicious.")
    deaf: int = _option(100, "Number of connections that read no response. Used by malicious.")
    coap_devices: int = _option(2000, "Number of devices that send notifications over CoAP. Used by real_devices.")
    coap_registrations: int = _option(
        10_000, "Number of devices that register together over CoAP. Used by real_devices."
    )
    widget_devices: int = _option(
        5000, "Number of devices in the fleet table. Used by widgets.", click.IntRange(min=12)
    )
    points: int = _option(5000, "Number of points of each of 20 lines. Used by widgets.")
    widget_runs: int = _option(100, "How often a cell runs again. Used by widgets.")


def with_sizes(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each size to a command."""
    for each in reversed(fields(Scale)):
        command = click.option(f"--{each.name.replace('_', '-')}", **each.metadata)(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run; ``missing`` names the programs that are not available, and the reason."""

    scale: Scale
    cores: Cores
    folder: Path
    generator: Program
    missing: dict[str, str] = field(default_factory=dict)

    def add_peer(
        self, sides: dict[str, Callable[[], float]], name: str, start: Callable[[], Callable[[], float]]
    ) -> None:
        """Add the side of another program, if it is available and can be measured. Otherwise the other sides are
        measured.
        """
        try:
            measure = start()
            measure()
        except (ChildFailed, OSError, httpx.HTTPError) as error:
            self.missing[name] = str(error)
        else:
            sides[name] = measure

    def load(
        self, server: Server, requests: list[str], connections: int | None = None, others: Sequence[Server] = ()
    ) -> dict[str, Any]:
        """Send requests during one measurement, optionally also to other servers.

        Raises:
            ChildFailed: A response was not successful.
        """
        response: dict[str, Any] = self.generator.call(
            ports=[each.port for each in (server, *others)],
            requests=requests,
            connections=connections or self.scale.connections,
            seconds=self.scale.seconds,
        )
        statuses = response["statuses"]
        if not statuses or any(not status.startswith("2") for status in statuses):
            raise ChildFailed(f"{server.name} responded with {statuses or 'nothing'}; its log is in {self.folder}")
        return response

    def rate(self, server: Server, requests: list[str]) -> float:
        """Return the responses per second."""
        rate: float = self.load(server, requests)["rate"]
        return rate

    def request_ms(self, server: Server, path: str = "/") -> float:
        """Return the median milliseconds of a bare request, as a unit for other times."""
        milliseconds: float = self.load(server, [get(path)], connections=1)["p50_ms"]
        return milliseconds

    def requests_ms(self, server: Server) -> list[float]:
        """Return the milliseconds of a bare request to a mirror, once for each round."""
        return [self.request_ms(server, "/healthz") for _ in range(self.scale.rounds)]


def get(path: str, key: str | None = None) -> str:
    """Return a GET request as text."""
    authorization = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n"


def post(path: str, key: str, body: str) -> str:
    """Return a POST request with JSON as text."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
