"""Websocket channels, with a third-party client: messages as by poll, in order, none lost, and access control."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest
from process_server import (
    ServerProcess,
    run_command,
    wait_until,
    wait_until_quick,
)
from process_websockets import (
    CHANNEL,
    CONNECT,
    SWITCH,
    Silent,
    closed,
    device,
    message,
    observed,
    register,
    responses,
    rest,
    state,
)
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol

from mirror_sdk.wire.errors import ErrorBody
from mirror_server.service.keys import Scope

pytestmark = pytest.mark.process

OpenSilent = Callable[..., Silent]
BEFORE_THE_END_SECONDS = 30
"""A time below the default limits on silence, so nothing within it is caused by them."""


def test_events_arrive_in_order_by_the_websocket_of_their_application_alone(shared_server, application, sockets):
    """Also those that arrived while no websocket was open."""
    assert [register(application), register(application)] == [201, 200]
    other = shared_server.application()
    register(other)
    of_other = sockets.open(shared_server, other.key)
    device_id = device(application, "in-order")
    for round_of in ("first", "second"):
        assert state(application)["status"] == "disconnected"
        ids = [f"{round_of}-{number}" for number in range(5)]
        for async_id in ids:
            application.write(device_id, SWITCH, async_id, async_id)
            application.response(async_id)
        assert state(application)["queue_size"] >= len(ids)

        socket = sockets.open(shared_server, application.key)
        application.write(device_id, SWITCH, round_of, round_of)
        assert responses(socket, round_of) == [*ids, round_of]
        wait_until(lambda: state(application) == {"status": "connected", "queue_size": 0}, "its pong")
        assert application.json("GET", "/v2/notification/channel") == {"delivery_mechanism": "WEBSOCKET", "backlog": 0}
        socket.close()
        wait_until(lambda: state(application)["status"] == "disconnected", "its end")
    other.write(device_id, SWITCH, "2", "theirs")
    assert responses(of_other, "theirs") == ["theirs"]


def seen_up_to(silent: Silent, async_id: str) -> None:
    """Read frames up to the message with this async response, without sending a pong."""
    seen: list[str] = []
    while async_id not in seen:
        opcode, content = silent.frame()
        if opcode == Opcode.TEXT:
            seen += [entry["id"] for entry in json.loads(content).get("async-responses", [])]


def test_message_without_a_pong_is_sent_again(shared_server, application, sockets, open_silent):
    register(application)
    device_id = device(application, "unanswered")
    silent = open_silent(shared_server, application.key)
    assert silent.head().startswith(b"HTTP/1.1 101 ")
    application.write(device_id, SWITCH, "1", "twice")
    application.response("twice")
    seen_up_to(silent, "twice")
    waiting = state(application)["queue_size"]
    silent.close()

    assert waiting > 0
    assert responses(sockets.open(shared_server, application.key), "twice") == ["twice"]


def test_pong_of_the_last_ping_confirms_earlier_ones(shared_server, application, open_silent):
    register(application)
    device_id = device(application, "one-for-all")
    silent = open_silent(shared_server, application.key)
    silent.head()
    for number in range(3):
        application.write(device_id, SWITCH, str(number), f"of-{number}")
        application.response(f"of-{number}")
    seen_up_to(silent, "of-2")
    while (found := silent.frame())[0] != Opcode.PING:
        pass
    ping = found[1]

    silent.send(Opcode.PONG, b"not a number")
    silent.send(Opcode.PONG, (2**63).to_bytes(8))
    silent.send(Opcode.PONG, ping)

    wait_until(lambda: state(application)["queue_size"] == 0, "the position to move")
    silent.close()


def test_another_websocket_of_the_channel_replaces_the_first(shared_server, application, sockets):
    register(application)
    device_id = device(application, "replaced")
    first = sockets.open(shared_server, application.key)
    second = sockets.open(shared_server, application.key)

    assert closed(first) == (1001, "another connection of this channel was opened")
    application.write(device_id, SWITCH, "1", "to-the-second")
    assert responses(second, "to-the-second") == ["to-the-second"]
    assert state(application)["status"] == "connected"


def test_deleting_the_channel_closes_its_socket_and_a_later_one(shared_server, application, sockets):
    register(application)
    socket = sockets.open(shared_server, application.key)
    statuses = [application.http.delete(CHANNEL).status_code for _ in range(2)]

    assert statuses == [204, 404]
    assert application.http.get(CHANNEL).status_code == 404
    assert closed(socket) == (1001, "the channel was deleted")
    code, reason = closed(sockets.open(shared_server, application.key))
    assert code == 1011
    assert "PUT /v2/notification/websocket" in reason


def test_wrong_key_is_reported_after_the_handshake(shared_server, sockets):
    for key, expected_reason in (
        ("", "protocols 'wss, pelion_<key>'"),
        (f"ak_{'0' * 16}_{'a' * 43}", "access key"),
        (shared_server.key(Scope.ADMIN), "lacks the scope"),
    ):
        code, reason = closed(sockets.open(shared_server, key))
        assert code == 1008
        assert expected_reason in reason


def test_key_may_stand_among_the_protocols(shared_server, application, sockets):
    register(application)
    protocols = [Subprotocol("wss"), Subprotocol(f"pelion_{application.key}")]
    socket = sockets.open(shared_server, "", subprotocols=protocols)
    assert socket.subprotocol == "wss"
    wait_until(lambda: state(application)["status"] == "connected", "the socket to be open")
    wrong = [Subprotocol("wss"), Subprotocol("pelion_ak_wrong")]
    assert closed(sockets.open(shared_server, "", subprotocols=wrong))[0] == 1008
    assert application.key not in shared_server.stderr


def test_messages_are_written_as_the_registration_says(shared_server, application, sockets):
    cfg = {"include_timestamp": True, "include_uid": True, "include_original_ep": True}
    register(application, serialization={"type": "v2", "max_chunk_size": 1, "cfg": cfg})
    device_id = device(application, "written")
    application.json("PUT", f"/v2/subscriptions/{device_id}{SWITCH}")
    socket = sockets.open(shared_server, application.key)
    application.write(device_id, SWITCH, "7", "to-observe")
    extras = {"timestamp", "uid", "original-ep"}
    assert extras <= observed(socket, "7").keys()

    # A later registration applies to the open socket too.
    register(application)
    application.write(device_id, SWITCH, "8", "again")
    assert not extras & observed(socket, "8").keys()


UPGRADE = ("Upgrade: websocket", "Connection: Upgrade")
LONG = "1" * 9000
GOOD = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ((f"GET {CONNECT} HTTP/1.1",), 426),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, GOOD[0], "Sec-WebSocket-Key: short"), 426),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, "Sec-WebSocket-Version: 12", GOOD[1]), 426),
        ((f"GET {CONNECT} HTTP/1.1", "Upgrade: h2c", "Connection: Upgrade", *GOOD), 426),
        ((f"GET {CONNECT} HTTP/1.0", *UPGRADE, *GOOD), 426),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD, "Content-Length: 0"), 101),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD, "Content-Length: 5"), 426),
        ((f"GET {CONNECT}?after=999999 HTTP/1.1", *UPGRADE, *GOOD), 400),
        ((f"GET {CONNECT}?nothing=1 HTTP/1.1", *UPGRADE, *GOOD), 400),
        ((f"POST {CONNECT} HTTP/1.1", *UPGRADE, *GOOD), 405),
        (("GET /v3/devices HTTP/1.1", *UPGRADE, *GOOD), 400),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD, GOOD[1]), 400),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD, "Sec-WebSocket-Protocol: wss pelion_ak_secret"), 400),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD, f"X-Long: {LONG}"), 431),
        ((f"GET {CONNECT} HTTP/1.1", *UPGRADE, *GOOD), 101),
        (("GET /notification/websocket-connect HTTP/1.1", *UPGRADE, *GOOD), 101),
    ],
)
def test_invalid_handshake_is_rejected(shared_server, application, lines, status, open_silent):
    register(application)
    silent = open_silent(shared_server, application.key, *lines, early_data=b"0\r\n\r\n" * (status == 426))

    head = silent.head()
    assert head.split()[1] == b"%d" % status
    assert (b"sec-websocket-accept" in head.lower()) == (status == 101)
    assert (b"upgrade: websocket" in head.lower()) == (status in {101, 426})
    if b"connection: close" in head.lower():
        # The reason is the server's own text, since that of the library repeats the header, and with it the key.
        body = ErrorBody.model_validate_json(silent.rest())
        assert body.code == status
        assert "ak_secret" not in body.model_dump_json()
    silent.close()
    assert application.json("GET", "/v3/devices")["object"] == "list"


def test_bytes_after_the_handshake_belong_to_the_websocket(shared_server, application, open_silent):
    register(application)
    silent = open_silent(shared_server, application.key, early_data=Frame(Opcode.PING, b"early").serialize(mask=True))

    assert silent.head().startswith(b"HTTP/1.1 101 ")
    assert silent.frame() == (Opcode.PONG, b"early")
    silent.close()


def test_messages_of_a_client_are_ignored_and_limited(shared_server, application, sockets):
    register(application)
    device_id = device(application, "talker")
    socket = sockets.open(shared_server, application.key)
    for content in ("hello", b"\x00" * 1000, "x" * 60_000) * 20:
        socket.send(content)
    application.write(device_id, SWITCH, "1", "after-talking")
    assert responses(socket, "after-talking") == ["after-talking"]

    socket.send("x" * 70_000)
    assert closed(socket)[0] == 1009


def test_invalid_frame_ends_only_its_own_connection(shared_server, application, open_silent):
    register(application)
    for sent in (
        b"\x83\x80\x00\x00\x00\x00",
        b"\x81\x05hello",
        Frame(Opcode.CONT, b"of nothing").serialize(mask=True),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ):
        silent = open_silent(shared_server, application.key)
        silent.head()
        silent.socket.sendall(sent)

        assert silent.is_ended(), sent
        wait_until(lambda: state(application)["status"] == "disconnected", "its end")


def test_client_that_never_reads_is_disconnected_and_does_not_block_others(start_server, open_silent):
    server: ServerProcess = start_server("--simulate", "0", "--write-timeout-seconds", "1")
    application = server.application()
    register(application)
    device_id = device(application, "unread")
    deaf = open_silent(server, application.key, receive_bytes=2048)
    wait_until(lambda: state(application)["status"] == "connected", "the socket to be open")
    application.json("PUT", f"/v2/subscriptions/{device_id}{SWITCH}")
    numbers = itertools.count()

    def is_cut_off() -> bool:
        application.write(device_id, SWITCH, f"{next(numbers)}".zfill(60_000), f"unread-{next(numbers)}")
        wait_until_quick(lambda: application.json("GET", "/v3/devices"), 2)
        return bool(state(application)["status"] == "disconnected")

    wait_until(is_cut_off, "the end of the client that never reads")
    assert "its client did not read the" in server.stderr
    # A client that reads gets all of it.
    assert state(application)["queue_size"] > 0
    deaf.close()


def test_client_that_pings_and_never_reads_is_bounded(shared_server, application, open_silent):
    register(application)
    deaf = open_silent(shared_server, application.key, receive_bytes=2048)
    wait_until(lambda: state(application)["status"] == "connected", "the socket to be open")
    deaf.socket.setblocking(False)
    pings = Frame(Opcode.PING, b"x" * 125).serialize(mask=True) * 1000
    sent = 0
    try:
        while sent < 200_000_000:
            sent += deaf.socket.send(pings)
    except BlockingIOError:
        pass
    wait_until_quick(lambda: application.json("GET", "/v3/devices"), 2)
    assert sent < 200_000_000
    deaf.close()


def test_missing_pong_or_revoked_key_ends_only_its_own_websocket(start_server, sockets, open_silent):
    server: ServerProcess = start_server("--websocket-ping-seconds", "0.2", "--websocket-pong-seconds", "1")
    applications = [server.application() for _ in range(3)]
    for application in applications:
        register(application)
    revoked, answering, mute = applications
    socket, lively = (sockets.open(server, each.key) for each in (revoked, answering))
    silent = open_silent(server, mute.key)
    silent.head()

    assert silent.frame()[0] == Opcode.PING
    while (frame := silent.frame())[0] == Opcode.PING:
        pass
    assert int.from_bytes(frame[1][:2]) == 1011
    assert b"ping" in frame[1]
    assert silent.is_ended()
    assert [state(each)["status"] for each in (revoked, answering)] == ["connected"] * 2

    key_id = revoked.key.split("_")[1]
    assert run_command("keys", "revoke", key_id, "--database", server.database_url).returncode == 0
    code, reason = closed(socket)
    assert code == 1008
    assert "revoked" in reason
    assert closed(sockets.open(server, revoked.key))[0] == 1008
    assert state(answering)["status"] == "connected"
    lively.close()


def test_kill_in_mid_message_loses_nothing(start_server, sockets):
    server: ServerProcess = start_server("--simulate", "0")
    application = server.application()
    register(application)
    device_id = device(application, "killed")
    accepted: list[str] = []
    seen: list[str] = []
    for number in range(2):
        socket = sockets.open(server, application.key)
        for count in range(20):
            async_id = f"{number}-{count}"
            assert application.write(device_id, SWITCH, async_id, async_id).status_code == 202
            accepted.append(async_id)
            if count == 10:
                seen += responses(socket, async_id)
        server.kill()
        seen += rest(socket)
        server.start()
        application = server.client(application.key)
        assert state(application)["status"] == "disconnected"
    last = sockets.open(server, application.key)
    seen += responses(last, *(set(accepted) - set(seen)))

    assert set(seen) == set(accepted)
    # In order. After a kill it continues after the last pong, so the last entries may be repeated.
    first_seen = list(dict.fromkeys(seen))
    assert first_seen == accepted
    wait_until(lambda: state(application)["queue_size"] == 0, "its pong")


def test_websockets_count_as_open_polls(start_server, sockets):
    server: ServerProcess = start_server("--max-parked-polls", "4", "--poll-share", "0.5")
    application, other = server.application(), server.application()
    open_sockets = [sockets.open(server, application.key, path=f"{CONNECT}?after=0") for _ in range(2)]
    with pytest.raises(InvalidStatus) as caught:
        sockets.open(server, application.key, path=f"{CONNECT}?after=0")
    assert caught.value.response.status_code == 429
    assert json.loads(caught.value.response.body)["reason"] == "TOO_MANY_POLLS"
    assert int(caught.value.response.headers["Retry-After"]) > 0
    assert application.poll(after=0).status_code == 429
    register(other)
    sockets.open(server, other.key)
    wait_until(lambda: "mirror_open_polls 3.0" in application.http.get("/metrics").text, "all to be counted")
    opened = 'route="/v2/notification/websocket-connect",status="101"} 3.0'
    assert opened in application.http.get("/metrics").text
    assert "mirror_open_websockets 3.0" in application.http.get("/metrics").text

    open_sockets[0].close()
    wait_until(lambda: "mirror_open_websockets 2.0" in application.http.get("/metrics").text, "one to be gone")
    wait_until(lambda: application.poll(after=0, hold=0).is_success, "the place to be free")
    assert application.poll(after="latest", hold=1).status_code == 204


def test_reader_with_its_own_position_removes_nothing_from_others(shared_server, application, sockets):
    device_id = device(application, "own-position")
    application.write(device_id, SWITCH, "1", "before")
    application.response("before")
    last = len(list(application.entries()))
    readers = [sockets.open(shared_server, application.key, path=f"{CONNECT}?after={after}") for after in (0, 0, last)]
    late = sockets.open(shared_server, application.key, path=f"{CONNECT}?after=latest")
    assert message(late)["mirror-cursor"] == last
    register(application)
    channel = sockets.open(shared_server, application.key)
    application.write(device_id, SWITCH, "2", "after")

    assert [responses(one, "before", "after") for one in readers[:2]] == [["before", "after"]] * 2
    assert responses(readers[2], "after") == ["after"]
    found = message(late)
    while "async-responses" not in found:
        found = message(late)
    (entry,) = found["async-responses"]
    assert entry["id"] == "after"
    assert entry["seq"] <= found["mirror-cursor"]
    assert {"uid", "timestamp"} <= entry.keys()
    assert "mirror-time" in found
    assert responses(channel, "after") == ["after"]


def test_reader_gets_the_gap(start_server, sockets):
    server: ServerProcess = start_server("--simulate", "0", "--keep-log-bytes", "10000")
    application = server.application()
    device_id = device(application, "gap")
    for number in range(80):
        application.write(device_id, SWITCH, "x" * 300, f"gap-{number}")
        wait_until(lambda number=number: application.simulated_values(device_id)[SWITCH], "the write")
    wait_until(lambda: "Mirror-Gap" in application.poll(after=0, hold=0).headers, "a gap")
    answer = application.poll(after=0, hold=0)

    found = message(sockets.open(server, application.key, path=f"{CONNECT}?after=0"))
    assert found["mirror-gap"].split("-")[0] == answer.headers["Mirror-Gap"].split("-")[0] == "1"


def test_nothing_of_this_made_the_server_fail(shared_server, application):
    assert shared_server.child.running
    wait_until_quick(lambda: application.json("GET", "/v3/devices"), 2)
    assert "Traceback" not in shared_server.stderr
    assert " 500 " not in shared_server.stderr
    # Each has one line, that of its request.
    assert "connection open" not in shared_server.stderr
    assert "[accepted]" not in shared_server.stderr
    assert "without completing handshake" not in shared_server.stderr
    assert "mirror_unread_bytes 0.0" in application.http.get("/metrics").text
