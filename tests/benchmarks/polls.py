"""What one server process holds: memory of a held poll, other requests beside many, the time to wake them all.

Run it as ``python tests/benchmarks/polls.py --polls 5000``. The client is a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import click
import httpx

from mirror_server import keys
from mirror_server.keys import Scope
from mirror_server.store.database import Database

ROOT = Path(__file__).parents[2]
READS = 3000


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def reads_a_second(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    for _ in range(READS):
        client.get(path).raise_for_status()
    return READS / (time.perf_counter() - began)


async def open_poll(port: int, key: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = "/v2/notification/pull?after=latest&hold=55"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    return reader, writer


async def hold(port: int, key: str, count: int) -> None:
    """Open the polls, say so, then tell how long after the word from stdin all of them were answered."""
    polls = []
    for _ in range(count):
        polls.append(await open_poll(port, key))
        if len(polls) % 100 == 0:
            await asyncio.sleep(0)
    print("open", flush=True)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, sys.stdin.readline)
    began = time.perf_counter()
    print("ready", flush=True)
    answers = await asyncio.gather(*(reader.readuntil(b"\r\n") for reader, _ in polls))
    print(time.perf_counter() - began, sum(answer.startswith(b"HTTP/1.1 200") for answer in answers), flush=True)
    for _, writer in polls:
        writer.close()


@click.command()
@click.option("--polls", default=5000, show_default=True, help="How many polls to hold open.")
@click.option("--as-client", nargs=2, type=(int, str), hidden=True)
def main(polls: int, as_client: tuple[int, str] | None) -> None:
    """Measure, and print a table."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if as_client is not None:
        asyncio.run(hold(*as_client, polls))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(f"sqlite:///{folder}/mirror.db", polls)


def measure(database_url: str, polls: int) -> None:
    with closing(Database(database_url)) as database:
        key = keys.create(database, "benchmark", tuple(Scope), 0)
    command = [
        sys.executable,
        "-m",
        "mirror_server",
        "run",
        "--port",
        "0",
        "--simulate",
        "0",
        "--database",
        database_url,
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().rpartition(" on ")[2].strip()
        try:
            measure_server(url, key, server.pid, polls)
        finally:
            server.terminate()


def measure_server(url: str, key: str, pid: int, polls: int) -> None:
    transport = httpx.HTTPTransport(retries=5)
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, headers=headers, transport=transport, timeout=30) as client:
        resources = [{"path": f"/3303/{number}/5700", "value": "21.5", "observable": True} for number in range(20)]
        device = client.post("/sim/v1/devices", json={"endpoint_name": "d", "resources": resources}).json()["id"]
        path = f"/v3/devices/{device}/echo"
        reads_a_second(client, path)
        alone, before = reads_a_second(client, path), resident_bytes(pid)
        arguments = [sys.executable, __file__, "--polls", str(polls), "--as-client", url.rpartition(":")[2], key]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            while f"mirror_open_polls {float(polls)}" not in client.get("/metrics").text:
                time.sleep(0.05)
            held, beside = resident_bytes(pid), reads_a_second(client, path)
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "ready\n"
            client.post(f"/v2/device-requests/{device}", json={"method": "GET", "uri": "/3303/0/5700"})
            seconds, answered = holder.stdout.readline().split()
    print(f"polls held                 {polls}, answered {answered}")
    print(f"memory of a held poll      {(held - before) / polls / 1024:.1f} KiB")
    print(f"device object, alone       {alone:.0f}/s")
    print(f"device object, beside them {beside:.0f}/s, {beside / alone:.2f} x")
    print(f"one event to all of them   {float(seconds):.2f} s")


if __name__ == "__main__":
    main()
