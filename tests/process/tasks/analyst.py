"""One of two analysts with one key: subscribes, watches and records a path until told to end."""

import sys

from mirror_sdk import MirrorClient

path, folder = sys.argv[1:]
rules, seen = [{"resource_path": [path]}], []
with MirrorClient.from_env() as client:
    client.add_presubscriptions(rules, apply_now=True)
    with client.record(folder, paths=[path]) as recorder, client.watch(seen.append, paths=[path]):
        print("begun", flush=True)
        sys.stdin.readline()
    client.remove_presubscriptions(rules)
print(len(seen), "seen,", len(recorder.recording.events()), "recorded")
print(recorder.audit())
