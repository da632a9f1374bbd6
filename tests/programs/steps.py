"""Helpers of the drivers in Python: steps, printed as lines of JSON, the simulator, and a receiver of webhooks."""

import json
import os
import queue
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST, KEY = os.environ["API_HOST"], os.environ["API_KEY"]
PATIENCE_SECONDS = 30
TEMPERATURE, DIMMER, REBOOT = "/3303/0/5700", "/3311/0/5851", "/3/0/4"


def _print_line(**line):
    print(json.dumps(line, default=str), flush=True)


def list_calls(calls):
    """Print all public calls of the library. Each must be run or be out of scope."""
    _print_line(calls=sorted(calls))


def step(call, act, expected):
    """Run a call, compare its outcome and return it, or None if the step failed.

    Args:
        call: The name of the library's call.
        act: Runs the call and returns a comparable outcome.
        expected: The outcome, or an ExpectedError.
    """
    try:
        outcome = act()
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
        passed = isinstance(expected, ExpectedError) and expected.part in outcome
    else:
        passed = outcome == expected
    expected_text = repr(expected.part if isinstance(expected, ExpectedError) else expected)
    _print_line(call=call, passed=passed, outcome=repr(outcome)[:600], expected=expected_text)
    return outcome if passed else None


class ExpectedError:
    """An expected error whose name and text contain this part."""

    def __init__(self, part):
        self.part = part


def finish():
    """Print that this was the last step, and exit, even if a library left threads running."""
    _print_line(finished=True)
    sys.stdout.flush()
    os._exit(0)


def until(read):
    """Call a function until its result is true, and return the result."""
    end_at = time.monotonic() + PATIENCE_SECONDS
    while not (found := read()) and time.monotonic() < end_at:
        time.sleep(0.02)
    return found


def simulator(method, path, body=None):
    """Send a request to the simulator, to act for a device."""
    request = urllib.request.Request(
        f"{HOST}/sim/v1{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        text = response.read()
    return json.loads(text) if text else None


def device_ids():
    """Return a dict of endpoint names and ids."""
    return {device["endpoint_name"]: device["id"] for device in simulator("GET", "/devices")["data"]}


def device_measures(device_id, value):
    """Let the device change its temperature."""
    simulator("PUT", f"/devices/{device_id}/resources{TEMPERATURE}", {"value": value})


class Receiver:
    """Receives the requests of a webhook."""

    def __init__(self):
        messages = self.messages = queue.Queue()

        class Callback(BaseHTTPRequestHandler):
            def do_PUT(self):
                messages.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Callback)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/callback"

    def take_until(self, member):
        """Return the next message that has this member."""
        while True:
            text = self.messages.get(timeout=PATIENCE_SECONDS)
            if member in json.loads(text):
                return text
