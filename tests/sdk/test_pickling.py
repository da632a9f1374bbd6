"""Objects that belong to one process raise an error with an alternative when they are pickled."""

import pickle

import pytest


def rejected(made, words):
    with pytest.raises(TypeError, match=words):
        pickle.dumps(made)


def test_events_a_watch_and_a_recorder_say_why_they_cannot_be_pickled(plain, folder):
    rejected(plain.events(after=0), r"Events .* belong to this process; .*client.events\(after=position\)")
    with plain.watch(print) as watch, plain.record(folder) as recorder:
        rejected(watch, r"Watch .*client.watch\(\)")
        rejected(recorder, r"Recorder .*Recording\(path\)")


def test_asynchronous_objects_cannot_be_pickled(run, folder):
    async def scene(client):
        rejected(client.events(after=0), "AsyncEvents")
        async with await client.watch(print) as watch, await client.record(folder) as recorder:
            rejected(watch, "AsyncWatch")
            rejected(recorder, "AsyncRecorder")

    run(scene)
