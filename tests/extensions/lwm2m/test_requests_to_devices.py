"""Commands of applications as CoAP requests, and the outcomes of responses."""

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resource_paths import SET_POINT, TEMPERATURE, UNDECLARED

from mirror_sdk.values import decode
from mirror_sdk.values.content_types import CONTENT_FORMATS
from mirror_server.devices.interface import Content, Outcome
from mirror_server.extensions.lwm2m.coap_commands import (
    EncodedPayload,
    NotSendable,
    accepts,
    attribute_options,
    error_text,
    execute_payload,
    outcome,
    structured_formats,
    writes,
)
from mirror_server.extensions.lwm2m.transport_api import Response

DIMMER, SWITCH = "/3311/0/5851", "/3311/0/5850"
PACKAGE, OLD, NEW = "/5/0/0", (11542,), (11542, 110, 112)


def test_each_response_code_maps_to_an_outcome():
    for expected, codes in {
        Outcome.DONE: ("2.01", "2.02", "2.04", "2.05"),
        Outcome.BAD_VALUE: ("4.00",),
        Outcome.NOT_FOUND: ("4.04",),
        Outcome.METHOD_NOT_ALLOWED: ("4.05",),
        Outcome.UNSUPPORTED_CONTENT_TYPE: ("4.06", "4.15"),
        Outcome.PRECONDITION_FAILED: ("4.12",),
        Outcome.TOO_LARGE: ("4.13",),
        Outcome.REJECTED: ("4.01", "4.02", "4.03", "4.08", "4.29", "5.00", "5.01", "5.03", "5.05", "7.31"),
    }.items():
        for code in codes:
            assert outcome(Response(code)) is expected, code


def test_error_text_of_device_is_printable_and_short():
    assert error_text(Response("5.01")) == "5.01"
    assert error_text(Response("2.05", b"secret")) == "2.05"
    assert error_text(Response("4.00", b"no\x1b[2J\xff\r\nx")) == r"4.00 'no\x1b[2J\\xff\r\nx'"
    assert len(error_text(Response("4.00", b"\xff" * 5000))) < 250


def test_structured_formats_depend_on_version_and_declared_formats():
    for version, parsed, formats in (
        ("1.0", {}, (11542,)),
        ("1.0", {110}, (11542, 110)),
        ("1.1", {}, (11542, 110, 112)),
        ("1.0", {1542, 1543}, (1542,)),
        ("1.0", {1542, 11542}, (11542,)),
    ):
        assert structured_formats(version, parsed) == formats, (version, parsed)


def test_accepted_formats_of_a_read():
    for path, requested_type, numbers in (
        (TEMPERATURE, None, (0, *NEW)),
        (TEMPERATURE, "*/*", (0, *NEW)),
        (UNDECLARED, None, (0, *NEW)),
        (PACKAGE, None, (42, 0, *NEW)),
        ("/3/0/7", None, NEW),
        ("/3/0", None, NEW),
        ("/3", None, NEW),
        (TEMPERATURE, "text/plain; charset=utf-8", (0,)),
        ("/3/0", "application/senml+json", (110,)),
        (TEMPERATURE, "application/vnd.oma.lwm2m+tlv", (11542,)),
        (TEMPERATURE, "application/json", (50,)),
    ):
        assert accepts(path, requested_type, NEW) == numbers, (path, requested_type)
    # A client of a draft before 1.0 gets its own number.
    assert accepts("/3/0", "application/vnd.oma.lwm2m+tlv", (1542,)) == (1542,)


@pytest.mark.parametrize("content_type", ["text/html", "text/plain; charset=latin-1", "", "\x00", "image/png"])
def test_content_type_without_coap_number_is_not_sendable(content_type):
    for encode_command in (
        lambda: accepts(TEMPERATURE, content_type, NEW),
        lambda: writes(TEMPERATURE, Content(b"1", content_type), NEW),
        lambda: execute_payload(Content(b"1", content_type), NEW),
    ):
        with pytest.raises(NotSendable, match="CoAP has no content format") as caught:
            encode_command()
        assert caught.value.outcome is Outcome.UNSUPPORTED_CONTENT_TYPE
        assert caught.value.reason.isprintable()


def test_text_is_sent_unchanged_first_then_in_other_formats():
    assert writes(SWITCH, Content(b"1"), NEW) == (
        EncodedPayload(b"1", 0),
        EncodedPayload(bytes.fromhex("e116da01"), 11542),
        EncodedPayload(b'[{"n":"/3311/0/5850","vb":true}]', 110),
        EncodedPayload(cbor2.dumps([{0: SWITCH, 4: True}]), 112),
    )
    assert [sent.content_format for sent in writes(DIMMER, Content(b"55"), OLD)] == [0, 11542]
    for payload, number in writes(DIMMER, Content(b"55"), NEW):
        assert decode(payload, CONTENT_FORMATS[number], DIMMER).python == 55
    for content_type in ("text/plain", "application/octet-stream"):
        with pytest.raises(NotSendable, match="cannot represent an object instance") as caught:
            writes("/3303/0", Content(b"1", content_type), NEW)
        assert caught.value.outcome is Outcome.UNSUPPORTED_CONTENT_TYPE


def test_base64_text_of_opaque_resource_is_sent_as_bytes():
    assert writes(PACKAGE, Content(b"\x00\x01", "application/octet-stream"), OLD) == (
        EncodedPayload(b"\x00\x01", 42),
        EncodedPayload(bytes.fromhex("c2000001"), 11542),
    )
    assert writes(PACKAGE, Content(b"AAE="), OLD)[:2] == (EncodedPayload(b"\x00\x01", 42), EncodedPayload(b"AAE=", 0))
    assert writes(PACKAGE, Content(b"no base64!"), OLD) == (EncodedPayload(b"no base64!", 0),)


def test_payload_without_alternative_format_is_only_sent_unchanged():
    for path, payload, content_type, number in (
        (SWITCH, b"true", "text/plain", 0),
        (DIMMER, b"101", "text/plain", 0),
        (UNDECLARED, b"1", "text/plain", 0),
        ("/3/0/4", b"1", "text/plain", 0),
        (SWITCH, b"\x01", "application/octet-stream", 42),
        (UNDECLARED, b'{"a":1}', "application/json", 50),
        (SET_POINT, cbor2.dumps(20.5), "application/cbor", 60),
        ("/3303/0", bytes.fromhex("c10101"), "application/vnd.oma.lwm2m+tlv", 11542),
        ("/3303/0", b"[]", "application/senml+json", 110),
    ):
        assert writes(path, Content(payload, content_type), NEW) == (EncodedPayload(payload, number),), (path, payload)


def test_execute_argument_is_text_and_empty_argument_has_no_format():
    assert execute_payload(Content(b"0='5'"), OLD) == EncodedPayload(b"0='5'", 0)
    assert execute_payload(Content(b""), OLD) == EncodedPayload(b"", None)
    assert execute_payload(Content(b"", "application/octet-stream"), OLD) == EncodedPayload(b"", None)


def test_notification_attributes_are_validated():
    valid = "pmin=5&pmax=120", "pmin=0", "pmax=1", "gt=30.5&lt=-1&st=0.5", "pmin", "epmin=1&epmax=2", "pmin&pmax=1"
    for query in valid:
        assert "&".join(attribute_options(query)) == query
    no_values = "", "-1", "1.5", "9" * 10, "\x1b[2J"
    for reason, queries in {
        "unknown notification attribute ''; use one of pmin, pmax": ["", "pmin=5&"],
        "unknown notification attribute 'con'": ["pmin=5&con=1"],
        "duplicate attribute pmin": ["pmin=5&pmin=6"],
        "is not valid; write it like": ["gt=nan", *(f"pmin={value}" for value in no_values)],
        "^pmax=4 must be at least pmin=5;": ["pmin=5&pmax=4"],
        "pmax=0 must be at least 1;": ["pmax=0", "pmin=1&pmax=0"],
        "epmax=4 must be at least epmin=5;": ["epmin=5&epmax=4"],
    }.items():
        for query in queries:
            with pytest.raises(NotSendable, match=reason) as caught:
                attribute_options(query)
            assert caught.value.outcome is Outcome.BAD_VALUE
            assert caught.value.reason.isprintable()


content_types = st.sampled_from([*CONTENT_FORMATS.values(), "text/plain; charset=utf-8", "*/*", "a/b"]) | st.text()
paths = st.sampled_from([TEMPERATURE, DIMMER, SWITCH, UNDECLARED, PACKAGE, "/3/0/4", "/3303/0", "/3303", "/"])


@settings(max_examples=40)
@given(paths, st.binary() | st.sampled_from([b"1", b"20.5", b"AAE="]), content_types, st.text("pminaxgtls=&019.-"))
def test_arbitrary_commands_encode_or_raise_not_sendable(path, payload, content_type, query):
    content = Content(payload, content_type)
    reasons = []
    for encode_command in (
        lambda: writes(path, content, NEW),
        lambda: accepts(path, content_type, NEW),
        lambda: execute_payload(content, NEW),
        lambda: attribute_options(query),
        lambda: attribute_options(content_type),
    ):
        try:
            encode_command()
        except NotSendable as exc:
            reasons.append(exc.reason)
    reasons.append(error_text(Response("4.00", payload)))
    assert all(reason.isprintable() and len(reason) < 500 for reason in reasons)
