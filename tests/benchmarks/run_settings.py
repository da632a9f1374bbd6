"""What all benchmarks of one run share: sizes, duration, cores, folders, the load generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from children import ChildFailed, Program, Server
from machine import Cores
from peers import PeerMissing, Peers


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes and duration; see the options of the command."""

    rounds: int
    seconds: float
    connections: int
    devices: int
    resources: int
    in_flight: int
    batch: int
    polls: int
    events: int
    calls: int
    growth: tuple[int, ...]
    log_entries: int
    rules: int
    registrations: int
    fleet: int
    loop_devices: int
    flood_mib: int
    deaf: int
    coap_devices: int
    coap_registrations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run; ``peers`` is ``None`` where nothing is installed, ``missing`` tells which could not be had, and why."""

    scale: Scale
    cores: Cores
    folder: Path
    generator: Program
    peers: Peers | None
    missing: dict[str, str] = field(default_factory=dict)

    def add_peer(
        self, sides: dict[str, Callable[[], float]], name: str, start: Callable[[], Callable[[], float]]
    ) -> None:
        """Add the side of another program, if it is there and gives a figure; without it the rest is measured."""
        try:
            measure = start()
            measure()
        except (PeerMissing, ChildFailed, OSError, httpx.HTTPError) as error:
            self.missing[name] = str(error)
        else:
            sides[name] = measure

    def load(
        self, server: Server, requests: list[str], connections: int | None = None, others: Sequence[Server] = ()
    ) -> dict[str, Any]:
        """Send requests for the time of one measurement, to other servers as well where there are any.

        Raises:
            ChildFailed: An answer was no success.
        """
        answer: dict[str, Any] = self.generator.ask(
            ports=[each.port for each in (server, *others)],
            requests=requests,
            connections=connections or self.scale.connections,
            seconds=self.scale.seconds,
        )
        statuses = answer["statuses"]
        if not statuses or any(not status.startswith("2") for status in statuses):
            raise ChildFailed(f"{server.name} answered {statuses or 'nothing'}; its log is in {self.folder}")
        return answer

    def rate(self, server: Server, requests: list[str], others: Sequence[Server] = ()) -> float:
        """Answers a second."""
        rate: float = self.load(server, requests, others=others)["rate"]
        return rate

    def request_ms(self, server: Server, path: str = "/") -> float:
        """How long one bare request takes, the median: what times are held against."""
        milliseconds: float = self.load(server, [get(path)], connections=1)["p50_ms"]
        return milliseconds


def get(path: str, key: str | None = None) -> str:
    """A GET as it goes over the wire."""
    authorization = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n"


def post(path: str, key: str, body: str) -> str:
    """A POST of JSON as it goes over the wire."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )
