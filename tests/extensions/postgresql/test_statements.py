"""Statements of the store for PostgreSQL: one statement for many rows, and messages between processes."""

import pytest

from mirror_server.extensions.postgresql.forwarding import Call, Reply
from mirror_server.extensions.postgresql.store.backend import _LONGEST_PAYLOAD, _payloads
from mirror_server.extensions.postgresql.store.connection import _translated
from mirror_server.extensions.postgresql.store.statements import _TYPES, _counted, _for_each, _for_many
from mirror_server.store import commands, resources


@pytest.mark.parametrize("statement", _TYPES)
def test_statement_for_many_rows_has_array_per_column(statement):
    many = _for_many(statement)
    types = _TYPES[statement].split()
    assert statement.count("?") == len(types)
    assert "?" not in many
    assert [f"CAST(:v{number} AS {type_}[])" in many for number, type_ in enumerate(types, 1)] == [True] * len(types)


def test_columns_of_many_rows_have_distinct_names():
    assert _for_many(commands.FINISH) == (
        "UPDATE commands SET finished_at = v1 FROM unnest(CAST(:v1 AS bigint[]), CAST(:v2 AS bigint[]))"
        " AS v (v1, v2) WHERE command_id = v2"
    )


@pytest.mark.parametrize("statement", [resources.REPORT, resources.DESIRE])
def test_revisions_of_many_rows_are_counted_from_last(statement):
    assert "revision = counted.last_revision + v" in _counted(statement)
    assert " FROM counted, unnest(" in _counted(statement)


def test_query_for_many_parameter_sets_returns_their_numbers():
    one = "SELECT path FROM resources WHERE device_id = :device_id AND desired_at > :at"
    assert _for_each(one, ("device_id",)) == (
        "SELECT parameters.number, found.* FROM unnest(CAST(:device_id AS text[])) WITH ORDINALITY AS parameters"
        " (device_id, number) CROSS JOIN LATERAL (SELECT path FROM resources WHERE device_id = parameters.device_id"
        " AND desired_at > :at) AS found"
    )


def test_parameters_are_translated_for_driver():
    statement = "SELECT CAST(:at AS text), x::text FROM t WHERE a LIKE '%' AND b = :b_2 AND c = ?"
    translated = b"SELECT CAST(%(at)s AS text), x::text FROM t WHERE a LIKE '%%' AND b = %(b_2)s AND c = %s"
    assert _translated(statement) == translated


def test_messages_are_packed_into_few_notifications():
    messages = [f"log {'x' * 990}{number}" for number in range(20)]
    payloads = list(_payloads("p1", messages))
    assert len(payloads) == 3
    assert [line for payload in payloads for line in payload.split("\n")[1:]] == messages
    assert all(payload.startswith("p1\n") and len(payload) <= _LONGEST_PAYLOAD for payload in payloads)
    assert list(_payloads("p1", [])) == []


def test_call_and_reply_round_trip():
    call = Call("p1", "a", ["read"], "GET", "/v2/\N{SNOWMAN}", "x=%20", [["accept", "*/*"]], "::1", "YQ==", "00ff")
    reply = Reply(200, [["x", "y"]], b"\x00\xff")
    assert Call.from_bytes(call.to_bytes()) == call
    assert Reply.from_bytes(reply.to_bytes()) == reply
