"""A payload with many resources is split into equivalent payloads of one each; also the link format."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_sdk.values import LWM2M_JSON, LWM2M_TLV, SENML_CBOR, SENML_JSON, decode_many, encode
from mirror_sdk.values.codec import UnreadablePayload
from mirror_sdk.values.decoding import split
from mirror_sdk.wire.link_format import InvalidLinkFormat, Link, parse_links

texts, integers = st.text(), st.integers(-(2**63), 2**63 - 1)
devices = st.fixed_dictionaries(
    {},
    optional={
        "/3/0/0": texts,
        "/3/0/10": integers,
        "/3/0/7/0": integers,
        "/3/0/7/9": integers,
        "/3/0/22/3": st.just("3:0"),
    },
)


def payload_of(values, content_type):
    parts = [encode(value, path, content_type, allow_read_only=True)[0] for path, value in values.items()]
    if content_type == SENML_JSON:
        return json.dumps([json.loads(part)[0] for part in parts]).encode()
    records = [{"n": json.loads(part)["bn"], **json.loads(part)["e"][0]} for part in parts]
    return json.dumps({"bn": "", "e": records}).encode()


def python(values):
    return {path: (value.python, value.problem) for path, value in values.items()}


@pytest.mark.parametrize("content_type", [SENML_JSON, LWM2M_JSON])
@given(values=devices)
def test_the_chunks_give_the_same_values_as_the_complete_payload(content_type, values):
    complete_payload = payload_of(values, content_type)
    parts = split(complete_payload, content_type, "/3/0")
    found = {path: value for part in parts for path, value in decode_many(*part[1:3], part.path).items()}
    assert (
        python(found)
        == python(decode_many(complete_payload, content_type, "/3/0"))
        == {p: (v, None) for p, v in values.items()}
    )
    assert {part.path: part.value_count for part in parts} == {
        "/".join(path.split("/")[:4]): 2 if {"/3/0/7/0", "/3/0/7/9"} <= values.keys() and "/7/" in path else 1
        for path in values
    }


@given(st.binary(), st.sampled_from(["/3", "/3/0", "/3/0/7", "/3/0/7/0"]))
def test_the_chunks_of_a_tlv_give_the_same_values(payload, path):
    all_values = decode_many(payload, LWM2M_TLV, path)
    try:
        parts = split(payload, LWM2M_TLV, path)
    except UnreadablePayload:
        return
    found = {each: value for part in parts for each, value in decode_many(*part[1:3], part.path).items()}
    assert python(found) == python(all_values)


def test_a_part_has_the_time_of_its_record():
    pack = b'[{"bn":"/3303/0/5700","bt":1700000000,"v":1},{"v":2,"t":3},{"v":3,"t":3}]'
    parts = split(pack, SENML_JSON, "/3303/0/5700")
    assert [(part.seconds, part.value_count) for part in parts] == [(1_700_000_000, 1), (1_700_000_003, 2)]
    assert decode_many(*parts[1][1:3], "/3303/0/5700")["/3303/0/5700"].python == 3


def test_bytes_are_the_same_from_cbor_and_json():
    (part,) = split(bytes.fromhex("81a20066") + b"/5/0/0" + b"\x08\x42\x00\xff", SENML_CBOR, "/5/0/0")
    assert decode_many(*part[1:3], "/5/0/0")["/5/0/0"].python == b"\x00\xff"


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("", []),
        ('</a>;rt="x y";obs', [Link("/a", {"rt": "x y", "obs": ""})]),
        (' < /a > ; CT = 40 , , </b>;x="1,2;3\\"\\\\"', [Link("/a", {"ct": "40"}), Link("/b", {"x": '1,2;3"\\'})]),
        ("</a>;x=1;x=2;;", [Link("/a", {"x": "1"})]),
        ("<coap://[::1]/a?b>;v=1.5e+00;e=", [Link("coap://[::1]/a?b", {"v": "1.5e+00", "e": ""})]),
    ],
)
def test_links(text, links):
    assert list(parse_links(text)) == links


@pytest.mark.parametrize(
    ("text", "position"),
    [("a", 0), ("</a", 0), ("</a>x", 4), ('</a>;x="', 7), ("</a>;<", 5), ("</a></b>", 4), ("<a b>", 0)],
)
def test_an_invalid_link_is_reported_with_its_position(text, position):
    with pytest.raises(InvalidLinkFormat, match=f"no link begins at character {position}:"):
        list(parse_links(text))


@pytest.mark.parametrize("repeated", ["<", ";", ",", " ", "</1>;a", '</1>;a="\\', ";a= ", "</1/0>,", ';a="\\""'])
def test_links_are_read_in_linear_time(repeated):
    text = "</1>" + repeated * 100_000
    start = time.thread_time()
    with contextlib.suppress(InvalidLinkFormat):
        list(parse_links(text))
    # A quadratic parser would take minutes.
    assert time.thread_time() - start < 5
