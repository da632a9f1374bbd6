"""What the drivers in Python share: steps that are told as lines of JSON, the simulator, and a receiver of webhooks."""

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


def _tell(**line):
    print(json.dumps(line, default=str), flush=True)


def tell_calls(calls):
    """All public calls of the library: each is run, or is named as one that is out."""
    _tell(calls=sorted(calls))


def step(call, act, expected):
    """Run a call and compare what it really gave; gives it, or None where it failed.

    Args:
        call: The name of the library's call.
        act: Runs it, and makes of its outcome what can be compared.
        expected: What has to come of it; of an error, a part of its name and text.
    """
    try:
        outcome = act()
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
        passed = isinstance(expected, Refused) and expected.part in outcome
    else:
        passed = outcome == expected
    wanted = repr(expected.part if isinstance(expected, Refused) else expected)
    _tell(call=call, passed=passed, outcome=repr(outcome)[:600], wanted=wanted)
    return outcome if passed else None


class Refused:
    """A call that has to end with an error, in whose name and text this is."""

    def __init__(self, part):
        self.part = part


def finish():
    """Say that this was the last step, and end whatever threads a library left."""
    _tell(finished=True)
    sys.stdout.flush()
    os._exit(0)


def until(read):
    """What it gives, once that is true."""
    end_at = time.monotonic() + PATIENCE_SECONDS
    while not (found := read()) and time.monotonic() < end_at:
        time.sleep(0.02)
    return found


def simulator(method, path, body=None):
    """Play the device's side."""
    request = urllib.request.Request(
        f"{HOST}/sim/v1{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def device_ids():
    """Endpoint name -> id."""
    return {device["endpoint_name"]: device["id"] for device in simulator("GET", "/devices")["data"]}


def device_measures(device_id, value):
    """The device's own temperature changes."""
    simulator("PUT", f"/devices/{device_id}/resources{TEMPERATURE}", {"value": value})


class Receiver:
    """Takes what a webhook brings."""

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
        """The next message that has this member."""
        while True:
            text = self.messages.get(timeout=PATIENCE_SECONDS)
            if member in json.loads(text):
                return text
