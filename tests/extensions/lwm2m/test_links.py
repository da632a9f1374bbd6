"""Links of registrations and Discover responses: those of real stacks, and malformed ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_server.devices.interface import Content
from mirror_server.extensions.lwm2m.links import BadLinks, LinkedResource, Links, read_links
from mirror_server.store.resources import AnnouncedResource

TEMPERATURE, DIMMER = "/3303/0/5700", "/3311/0/5851"


def paths(links):
    return [resource.announced.path for resource in links.resources]


def test_links_to_resources_are_parsed():
    links = read_links(b'</3303/0/5700>;obs;rt="temperature",</3/0/0>,</5/0/0>')
    announced = (
        AnnouncedResource(TEMPERATURE, "temperature", observable=True),
        AnnouncedResource("/3/0/0", observable=False),
        AnnouncedResource("/5/0/0", "", "application/octet-stream", observable=False),
    )
    assert links == Links(tuple(map(LinkedResource, announced)))


def test_root_link_sets_prefix_and_content_formats():
    for text, formats, prefix in (
        ('</>;rt="oma.lwm2m";ct="110 112",</1/0>', {110, 112}, ""),
        ("</>;rt=oma.lwm2m;ct=11542,</1/0>", {11542}, ""),
        ('</>;ct=60 110 112 11542 11543;rt="oma.lwm2m",</1/0>', {60, 110, 112, 11542, 11543}, ""),
        ("</>;rt=core.x oma.lwm2m;ct= 110  112 ,</1/0>", {110, 112}, ""),
        ("</>;ct=110,</1/0>", {110}, ""),
        ("</1/0>", set(), ""),
        ('</lwm2m>;rt="oma.lwm2m",</lwm2m/1/0>', set(), "/lwm2m"),
        ('</a/b/>;ct=112;rt="core.x oma.lwm2m",</a/b/1/0>', {112}, "/a/b"),
    ):
        assert read_links(text.encode()) == Links((), ("/1/0",), frozenset(formats), prefix), text


def test_prefix_of_paths_is_optional():
    text = b'</lwm2m>;rt="oma.lwm2m",</lwm2m/3303/0/5700>,</3/0/0>,</sensors/temp>,</lwm2mx/3/0/1>,</lwm2m3/0/1>'
    assert paths(read_links(text)) == [TEMPERATURE, "/3/0/0"]
    # A response to Discover has the prefix of the registration.
    text = b"</lwm2m/3303/0>;pmin=10,</lwm2m/3303/0/5700>;pmax=60,</lwm2m/3303/0/5701>"
    assert paths(read_links(text, prefix="/lwm2m")) == [TEMPERATURE, "/3303/0/5701"]


def test_aobs_attribute_sets_token():
    for attribute in ('aobs="727"', "aobs=727", "aobs;id=727", 'id="727";AOBS'):
        (resource,) = read_links(f"<{TEMPERATURE}>;{attribute}".encode()).resources
        assert resource.auto_token == b"\x02\xd7"
        assert resource.announced == AnnouncedResource(TEMPERATURE, auto_observed=True)
    for number, token in ((5, b"\x00\x05"), (65535, b"\xff\xff")):
        assert read_links(b"</3/0/9>;aobs=%d" % number).resources[0].auto_token == token


def test_v_attribute_publishes_value():
    (resource, other) = read_links(b'</3303/0/5700>;v="1.5e+00",</3/0/0>;v="a, \\"b\\"; \\\\"').resources
    assert resource.published == Content(b"1.5e+00")
    assert other.published == Content(b'a, "b"; \\')


def test_invalid_links_fail_with_reason_and_cure():
    for payload, reason in (
        (b"</1", "no link begins at character 0:"),
        (b"garbage", "write links like"),
        (b'</1/0>;x="', "no link begins at character 9:"),
        (b"</1/0></2/0>", "no link begins at character 6:"),
        (b"</1/0\xff>", "not UTF-8"),
        (b"</65536/0>", "0 to 65535"),
        (b"</1/2/3/4/5>", "write it like /3303/0/5700"),
        (b"</3/x>", "write it like /3303/0/5700"),
        (b"</3303/0/5700>;aobs", "aobs=''"),
        (b"</3303/0/5700>;aobs=65536", "0 to 65535"),
        (b"</3303/0/5700>;aobs=1,</3/0/0>;aobs=1", "aobs=1 is used for /3303/0/5700 and /3/0/0"),
        (b'</>;ct="110 x"', "ct='x' of '/'"),
        (b'</3303/0/5700>;rt="a\x1b[2J"', "printable characters"),
        (b"</3303/0/5700>;rt=" + b"a" * 129, "at most 128 printable"),
        (b'</\x1b[2J>;rt="oma.lwm2m"', "write it like </> or </lwm2m>"),
        (b"<" + b"/a" * 65 + b'>;rt="oma.lwm2m"', "write it like </> or </lwm2m>"),
        (b",".join(b"</%d/0>" % number for number in range(3001)), "the maximum is 3000"),
        (b" " * (256 * 1024 + 1), "the maximum is 262144"),
    ):
        with pytest.raises(BadLinks, match=reason) as caught:
            read_links(payload)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 250
    # The caller can set the limits.
    assert len(read_links(b"</1/0>,</2/0>", max_links=2, max_bytes=13).to_discover) == 2
    for limit, reason in (({"max_links": 1}, "the maximum is 1"), ({"max_bytes": 12}, "the maximum is 12")):
        with pytest.raises(BadLinks, match=reason):
            read_links(b"</1/0>,</2/0>", **limit)


fragments = st.sampled_from(
    [
        *("<", ">", "/", ",", ";", '"', "\\", "=", " ", "\x00", "\u2028", "\r\n", "é"),
        *("</3303/0/5700>", "</3/0/4>", "</>", "</lwm2m>", "</lwm2m/3/0/1>", "/70000"),
        *("aobs", "id", "727", "obs", "ct", "rt", "v", "oma.lwm2m", '="110 112"'),
    ]
)


@settings(max_examples=40)
@given(st.lists(fragments | st.text(max_size=3), max_size=40).map("".join).map(str.encode) | st.binary())
def test_arbitrary_links_parse_or_raise_bad_links(payload):
    try:
        links = read_links(payload)
    except BadLinks:
        return
    assert len(set(paths(links))) == len(links.resources)


def test_readable_resources_are_observable_unless_some_links_have_obs():
    for text, observable in {
        f"<{TEMPERATURE}>,<{DIMMER}>,</27000/0/1>": [TEMPERATURE, DIMMER, "/27000/0/1"],
        f"<{TEMPERATURE}>;aobs=9,<{DIMMER}>": [TEMPERATURE, DIMMER],
        f"<{TEMPERATURE}>;obs,<{DIMMER}>,</27000/0/1>;aobs=9": [TEMPERATURE, "/27000/0/1"],
        '</3/0/4>;obs,</5/0/0>;aobs=1;v="x",</3/0/0>;obs': ["/3/0/0"],
    }.items():
        found = [each.announced for each in read_links(text.encode()).resources]
        assert [each.path for each in found if each.observable] == observable, text
    (package,) = read_links(b'</5/0/0>;aobs=1;v="x"').resources
    assert (package.auto_token, package.published, package.announced.auto_observed) == (None, None, False)


def test_links_to_objects_and_instances_are_to_discover_and_others_ignored():
    for text, resources, to_discover in (
        ("</1/0>,</3>;ver=1.1,</3/0>,</5>,</3303/0/5700>,</3303/0>;dim=2", [TEMPERATURE], ("/1/0", "/3/0", "/5")),
        # Resource instances belong to their resource, and duplicate paths count once.
        ("</3/0/7/0>;obs,</3/0/7/1>,</3/0/7>;rt=late,</1/0>,</1/0>", ["/3/0/7"], ("/1/0",)),
        (
            ' </3303/0/5700> ; obs ; title*="x,y;z" ; sz = 3;,, </1/0> ,\r\n</3/0/0>;',
            [TEMPERATURE, "/3/0/0"],
            ("/1/0",),
        ),
        # Objects 0 and 21 have keys.
        ("</.well-known/core>,</sensors/temp>,</0/0>,</0/0/5>,</21/0>,<coap://x/3/0>,<>", [], ()),
    ):
        links = read_links(text.encode())
        assert (paths(links), links.to_discover) == (resources, to_discover), text
