"""A websocket begins behind its channel's position, however late the other effects of its transaction come."""

import threading

from waits import PATIENCE_SECONDS

CHANNEL = "/v2/notification/websocket"
DEVICE = "01f"


def test_a_websocket_begins_behind_its_position_before_other_effects_of_the_transaction(server, key):
    app_id = key.split("_")[1]
    database, channels = server.services.database, server.services.websockets
    assert server.call(key, "PUT", CHANNEL).status_code == 201

    def add():
        body = {"ep": DEVICE}
        database.write(lambda session: server.services.log.append(session, app_id, "registrations", DEVICE, body))

    add()
    first = channels.connect(app_id, lambda: True)
    first.begin(lambda: None).result(PATIENCE_SECONDS)
    first.confirmed(first.take(None).cursor)
    assert database.settle(PATIENCE_SECONDS)
    add()

    is_at_work, may_begin, may_end = threading.Event(), threading.Event(), threading.Event()

    def keep_at_work(_):
        is_at_work.set()
        may_begin.wait(PATIENCE_SECONDS)

    # The two that come while this one is at work become one transaction, behind it.
    database.submit(keep_at_work)
    assert is_at_work.wait(PATIENCE_SECONDS)
    database.submit(lambda session: session.after_commit(lambda: may_end.wait(PATIENCE_SECONDS)))
    second = channels.connect(app_id, lambda: True)
    begun = second.begin(lambda: None)
    may_begin.set()
    try:
        begun.result(PATIENCE_SECONDS)
        assert second.take(None).cursor == 2
    finally:
        may_end.set()
