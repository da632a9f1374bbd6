"""A process that ends when its standard input does, as that ends with the program behind it, however that ends."""

from __future__ import annotations

import os
import signal
import threading


def stop_with_stdin() -> None:
    """Have SIGTERM sent to this process when its standard input ends."""

    def run() -> None:
        # Not through sys.stdin: its lock would be held when the interpreter ends.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="stdin", daemon=True).start()
