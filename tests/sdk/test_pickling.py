"""What belongs to one process says so when it is pickled, and how to do without."""

import pickle

import pytest


def test_events_a_watch_and_a_recorder_say_why_they_cannot_be_pickled(plain, folder):
    with pytest.raises(TypeError, match=r"Events .* belong to this process; .*client.events\(after=position\)"):
        pickle.dumps(plain.events(after=0))
    with plain.watch(print) as watch, pytest.raises(TypeError, match=r"Watch .*client.watch\(\)"):
        pickle.dumps(watch)
    with plain.record(folder) as recorder, pytest.raises(TypeError, match=r"Recorder .*Recording\(path\)"):
        pickle.dumps(recorder)


def test_those_of_an_asynchronous_client_say_so_too(run, folder):
    async def scene(client):
        with pytest.raises(TypeError, match="AsyncEvents"):
            pickle.dumps(client.events(after=0))
        async with await client.watch(print) as watch:
            with pytest.raises(TypeError, match="AsyncWatch"):
                pickle.dumps(watch)
        async with await client.record(folder) as recorder:
            with pytest.raises(TypeError, match="AsyncRecorder"):
                pickle.dumps(recorder)

    run(scene)
