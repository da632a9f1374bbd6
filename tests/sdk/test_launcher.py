"""The tile in JupyterLab's launcher: its mirror, and when the tile is absent."""

import re
import sys
from typing import Any

import pytest
from tornado.web import HTTPError

from mirror_sdk.lab import launcher
from mirror_sdk.lab.demo import DemoError

KEY = re.compile(r"ak_[0-9a-f]{16}_[\w-]{43}")


@pytest.mark.parametrize(
    ("host", "port"),
    [("http://127.0.0.1:4711", 4711), ("localhost:4712", 4712), ("http://[::1]:4713/", 4713), ("http://127.0.0.1", 80)],
)
def test_local_mirror_has_a_tile_with_the_key(host: str, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_HOST", host)
    monkeypatch.setenv("API_KEY", "ak_key")
    process = launcher.server_process()
    assert process["port"] == port
    assert "command" not in process
    assert tile_of(process)["path_info"] == "mirror/#key=ak_key"
    monkeypatch.delenv("API_KEY")
    assert tile_of(launcher.server_process())["path_info"] == "mirror/"


@pytest.mark.parametrize(
    "host", ["https://mirror.example.com", "https://127.0.0.1:1", "http://127.0.0.1:1/below", "http://a:b@[", "ftp://x"]
)
def test_remote_mirror_has_no_tile(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_HOST", host)
    monkeypatch.setenv("API_KEY", "ak_real")
    process = launcher.server_process()
    assert tile_of(process)["enabled"] is False
    assert "ak_real" not in str(process)


def test_demo_has_a_new_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("API_HOST", raising=False)
    processes = [launcher.server_process() for _ in range(2)]
    keys = [KEY.search(tile_of(process)["path_info"])[0] for process in processes]
    assert keys[0] != keys[1]
    assert all(tile_of(process)["enabled"] is True for process in processes)
    # The server is not installed, so there is no tile.
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert tile_of(launcher.server_process())["enabled"] is False


def test_demo_that_does_not_start_is_reported_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise DemoError("the server did not start; 'mirror-server demo' shows why")

    monkeypatch.delenv("API_HOST", raising=False)
    monkeypatch.setattr(launcher, "DemoServer", fail)
    start: Any = launcher.server_process()["command"]
    with pytest.raises(HTTPError) as caught:
        start(0)
    assert (caught.value.status_code, caught.value.log_message) == (
        500,
        "the server did not start; 'mirror-server demo' shows why",
    )


def tile_of(process: dict[str, object]) -> Any:
    return process["launcher_entry"]
