"""A child that is forked from the process of the tests, like that of an application that forks."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any


class Forked:
    """A child process that runs a function and prints its result as JSON; it ends without cleanup."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self._output, written = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(written)
            return
        try:
            outcome = {"gave": act()}
        except BaseException:
            outcome = {"failed": traceback.format_exc()}
        try:
            with os.fdopen(written, "w") as output:
                json.dump(outcome, output)
        finally:
            os._exit(0)

    def result(self, seconds: float = 120) -> Any:
        """Return the result. A child that does not end in time is killed."""
        deadline = time.monotonic() + seconds
        received = b""
        try:
            while True:
                ready, _, _ = select.select([self._output], [], [], max(0, deadline - time.monotonic()))
                assert ready, f"the child hangs: nothing within {seconds} s"
                chunk = os.read(self._output, 65536)
                if not chunk:
                    break
                received += chunk
        finally:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._output)
        outcome = json.loads(received)
        assert "gave" in outcome, outcome.get("failed")
        return outcome["gave"]
