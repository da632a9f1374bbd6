"""Websocket channels at several server processes on one PostgreSQL database."""

from __future__ import annotations

import databases
import pytest
from process_server import run_command, wait_until
from process_websockets import (
    CHANNEL,
    CONNECT,
    SWITCH,
    closed,
    device,
    message,
    register,
    responses,
    rest,
    state,
)

from tests.system.process.conftest import clients

pytestmark = pytest.mark.process


def test_websocket_at_one_process_receives_responses_of_another(pair, applications, sockets):
    first, second = applications
    assert [register(second), register(first)] == [201, 200]
    device_id = device(first, first.key.split("_")[1])
    for number, (server, writer) in enumerate([(pair[1], first), (pair[1], second), (pair[0], second)]):
        socket = sockets.open(server, first.key)
        wait_until(lambda: state(first)["status"] == "connected", "the socket to be open")
        for count in range(3):
            writer.write(device_id, SWITCH, f"{count}", f"{number}-{count}")
        ids = [f"{number}-{count}" for count in range(3)]
        assert responses(socket, *ids) == ids
        for each in applications:
            wait_until(
                lambda each=each: state(each) == {"status": "connected", "queue_size": 0}, "the response to its ping"
            )
        socket.close()
        wait_until(lambda: state(first)["status"] == state(second)["status"] == "disconnected", "its end")


def test_websocket_at_another_process_replaces_the_connection(pair, applications, sockets):
    first, _ = applications
    register(first)
    device_id = device(first, first.key.split("_")[1])
    opened = []
    for number, server in enumerate((*pair, *pair)):
        opened.append(sockets.open(server, first.key))
        first.write(device_id, SWITCH, f"{number}", f"to-{number}")
        # A socket is open before it is stored as the connection of the channel, so the next one could be first.
        assert f"to-{number}" in responses(opened[-1], f"to-{number}")

    assert [closed(socket) for socket in opened[:3]] == [(1001, "another connection of this channel was opened")] * 3
    first.write(device_id, SWITCH, "1", "to-the-last")
    assert responses(opened[3], "to-the-last") == ["to-the-last"]


def test_deleted_channel_or_key_closes_websockets_at_all_processes(pair, applications, sockets):
    first, second = applications
    register(first)
    device_id = device(first, first.key.split("_")[1])
    socket = sockets.open(pair[1], first.key)
    readers = [sockets.open(server, first.key, path=f"{CONNECT}?after=latest") for server in pair]
    for reader in readers:
        assert message(reader)["mirror-cursor"] >= 0
    first.write(device_id, SWITCH, "1", "to-all")
    assert [responses(one, "to-all") for one in (socket, *readers)] == [["to-all"]] * 3
    assert first.http.delete(CHANNEL).status_code == 204
    assert closed(socket) == (1001, "the channel was deleted")
    assert second.http.get(CHANNEL).status_code == 404
    assert second.poll(hold=0).is_success
    assert first.http.put(CHANNEL).status_code == second.http.put(CHANNEL).status_code == 400

    key_id = first.key.split("_")[1]
    assert run_command("keys", "revoke", key_id, "--database", pair[0].database_url).returncode == 0
    assert [closed(reader)[0] for reader in readers] == [1008, 1008]


def test_kills_of_websocket_process_and_leader_lose_nothing(start_servers, sockets):
    pair = start_servers(2, databases.new_postgresql_url())
    first, second = clients(pair)
    register(first)
    device_id = device(first, "d")
    socket = sockets.open(pair[1], first.key)
    ids = [f"killed-{number}" for number in range(20)]
    received: list[str] = []
    for async_id in ids:
        first.write(device_id, SWITCH, async_id, async_id)
        if async_id == ids[10]:
            received += responses(socket, async_id)
            pair[1].kill()
            received += rest(socket)
    wait_until(lambda: state(first)["status"] == "disconnected", "the end to be seen")
    pair[1].start()
    socket = sockets.open(pair[1], first.key)
    received += responses(socket, *(set(ids) - set(received)))
    assert list(dict.fromkeys(received)) == ids

    pair[0].kill()
    wait_until(lambda: second.write(device_id, SWITCH, "2", "after").status_code == 202, "another leader")
    assert responses(socket, "after") == ["after"]
    assert state(second)["status"] == "connected"
