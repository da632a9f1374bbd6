"""Records the temperatures until it is stopped; started again it goes on."""

import signal
import sys
import threading

from mirror_sdk import MirrorClient

stopped = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopped.set())
with MirrorClient.from_env() as client, client.record(sys.argv[1], paths=["/3303/0/5700"], subscribe=True) as recorder:
    print("recording", flush=True)
    stopped.wait()
print(recorder.audit())
