"""A measurement has at least one sample, even on a slow machine, because it waits for it."""

import asyncio
import importlib
import os
import sys

import pytest
from process_server import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "benchmarks"))


def test_load_generator_waits_for_the_first_response():
    load_program = importlib.import_module("load_program")

    async def measured():
        time_is_over = asyncio.Event()

        async def respond(reader, writer):
            while await reader.readline():
                await reader.readline()
                await time_is_over.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            await writer.wait_closed()

        async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            command = {"ports": [port], "requests": ["GET / HTTP/1.1\r\n\r\n"], "connections": 1, "seconds": 0}
            running = asyncio.create_task(load_program.run(command))
            # Until it only waits, long after the end of its measuring time.
            for _ in range(100):
                await asyncio.sleep(0)
            time_is_over.set()
            return await running

    result = asyncio.run(measured())
    assert set(result["statuses"]) == {200}
    assert result["rate"] > 0
    assert result["p50_ms"] > 0


def test_peer_that_does_not_start_is_reported_without_figures(tmp_path):
    children, device_object, run_settings = map(importlib.import_module, ("children", "device_object", "run_settings"))
    run = run_settings.Run(scale=None, cores=None, folder=tmp_path, generator=None)
    sides = {"mirror": lambda: 3.0}

    def start_waitress():
        port, cores = children.free_port(), os.sched_getaffinity(0)
        program = [sys.executable, "-c", "import a_server_nobody_has"]
        with children.server("waitress", program, port, folder=tmp_path, cores=cores):
            pytest.fail("it cannot start")

    run.add_peer(sides, "waitress", start_waitress)
    run.add_peer(sides, "gunicorn", lambda: lambda: 2.0)
    assert list(sides) == ["mirror", "gunicorn"]
    assert "No module named 'a_server_nobody_has'" in run.missing.pop("waitress")
    assert run.missing == {}
    samples = {name: [measure()] for name, measure in sides.items()}
    (figure,) = device_object._against(samples, {"waitress": ("waitress", 1), "gunicorn": ("gunicorn", 1)})
    assert (figure.what, figure.value, figure.met) == ("E1 / gunicorn", 1.5, True)
