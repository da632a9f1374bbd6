"""One of two analysts with one key: watches and records a path, with a rule for it, until told to end."""

import sys

from mirror_sdk import MirrorClient

path, folder = sys.argv[1:]
seen = []
with (
    MirrorClient.from_env() as client,
    client.watch(seen.append, paths=[path]),
    client.record(folder, paths=[path], subscribe=True) as recorder,
):
    print("begun", flush=True)
    sys.stdin.readline()
print(len(seen), "seen,", len(recorder.recording.events()), "recorded")
print(recorder.audit())
