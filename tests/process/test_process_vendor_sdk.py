"""A program written for the public API runs unchanged, with the vendor's own SDK. Source: wire.md 0-6."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from process_server import child_environment

pytestmark = pytest.mark.process

KINDS = ["door-contact", "light", "smart-plug", "thermometer", "thermostat", "weather-station"]
EXPECTED: dict[str, Any] = {
    "connected devices": [f"{kind}-0{number}" for kind in KINDS for number in (1, 2)],
    "filtered devices": ["light-01"],
    "all devices, counted": 12,
    "one device": "light-01",
    "resources": ["/3/0/0", "/3/0/1", "/3/0/2", "/3/0/3", "/3/0/4", "/3311/0/5850", "/3311/0/5851", "/3311/0/5852"],
    "start long polling": None,
    "read": "-0.5",
    "write": None,
    "read what was written": "40",
    "execute": None,
    "subscribe and event": "-0.5",
    "is subscribed": True,
    "list subscriptions": ["/3303/0/5700"],
    "unsubscribe": None,
    "is subscribed no more": False,
    "put presubscriptions": None,
    "get presubscriptions": [["/3303/*"]],
    "delete presubscriptions": None,
    "stop long polling": True,
    "webhook": [{}, ["notifications"], True, {"X-Token": "abc"}, None],
}


def test_the_vendors_sdk_runs_unmodified(demo_environment: dict[str, str]) -> None:
    program = Path(__file__).with_name("vendor_program.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        env=child_environment(**demo_environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    steps = dict(map(json.loads, run.stdout.splitlines()))
    rejected = steps.pop("rejected write")
    assert rejected.startswith("CloudAsyncError: (400) 'METHOD_NOT_ALLOWED'"), run.stderr
    assert steps == EXPECTED, run.stderr
