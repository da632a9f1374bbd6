"""Links of registrations and of answers to Discover: what stacks send, and what nobody should."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror_server.devices.link import Content, IntroducedResource
from mirror_server.devices.lwm2m.links import BadLinks, LinkedResource, Links, read_links

TEMPERATURE, DIMMER = "/3303/0/5700", "/3311/0/5851"


def paths(links):
    return [resource.introduced.path for resource in links.resources]


def observable(text):
    return [r.introduced.path for r in read_links(text.encode()).resources if r.introduced.observable]


def test_a_registration_by_resources():
    links = read_links(b'</3303/0/5700>;obs;rt="temperature",</3/0/0>,</5/0/0>')
    assert links == Links(
        (
            LinkedResource(IntroducedResource(TEMPERATURE, "temperature", observable=True)),
            LinkedResource(IntroducedResource("/3/0/0", observable=False)),
            LinkedResource(IntroducedResource("/5/0/0", "", "application/octet-stream", observable=False)),
        )
    )


def test_a_registration_by_instances_and_objects_tells_what_is_to_be_discovered():
    links = read_links(b'</>;rt="oma.lwm2m";ct=110,</1/0>,</3>;ver=1.1,</3/0>,</5>,</3303/0/5700>,</3303/0>;dim=2')
    assert links.to_discover == ("/1/0", "/3/0", "/5")
    assert (paths(links), links.content_formats, links.prefix) == ([TEMPERATURE], {110}, "")


@pytest.mark.parametrize(
    ("text", "formats", "prefix"),
    [
        ('</>;rt="oma.lwm2m";ct="110 112",</1/0>', {110, 112}, ""),
        ("</>;rt=oma.lwm2m;ct=11542,</1/0>", {11542}, ""),
        ('</>;ct=60 110 112 11542 11543;rt="oma.lwm2m",</1/0>', {60, 110, 112, 11542, 11543}, ""),
        ("</>;rt=core.x oma.lwm2m;ct= 110  112 ,</1/0>", {110, 112}, ""),
        ("</>;ct=110,</1/0>", {110}, ""),
        ("</1/0>", set(), ""),
        ('</lwm2m>;rt="oma.lwm2m",</lwm2m/1/0>', set(), "/lwm2m"),
        ('</a/b/>;ct=112;rt="core.x oma.lwm2m",</a/b/1/0>', {112}, "/a/b"),
    ],
)
def test_where_the_objects_are_and_which_formats_are_spoken(text, formats, prefix):
    assert read_links(text.encode()) == Links((), ("/1/0",), frozenset(formats), prefix)


def test_a_prefix_may_stand_in_front_of_paths_or_be_left_out():
    text = b'</lwm2m>;rt="oma.lwm2m",</lwm2m/3303/0/5700>,</3/0/0>,</sensors/temp>,</lwm2mx/3/0/1>,</lwm2m3/0/1>'
    assert paths(read_links(text)) == [TEMPERATURE, "/3/0/0"]


def test_an_answer_to_discover_has_the_prefix_of_the_registration():
    text = b"</lwm2m/3303/0>;pmin=10,</lwm2m/3303/0/5700>;pmax=60,</lwm2m/3303/0/5701>"
    assert paths(read_links(text, prefix="/lwm2m")) == [TEMPERATURE, "/3303/0/5701"]


def test_other_resources_and_the_objects_of_keys_are_left_out():
    assert read_links(b"</.well-known/core>,</sensors/temp>,</0/0>,</0/0/5>,</21/0>,<coap://x/3/0>,<>") == Links()


@pytest.mark.parametrize("attribute", ['aobs="727"', "aobs=727", "aobs;id=727", 'id="727";AOBS'])
def test_an_auto_observation_tells_its_token(attribute):
    (resource,) = read_links(f"<{TEMPERATURE}>;{attribute}".encode()).resources
    assert resource.auto_token == b"\x02\xd7"
    assert resource.introduced == IntroducedResource(TEMPERATURE, auto_observed=True)


@pytest.mark.parametrize(("number", "token"), [(5, b"\x00\x05"), (65535, b"\xff\xff")])
def test_a_token_has_two_bytes(number, token):
    (resource,) = read_links(b"</3/0/9>;aobs=%d" % number).resources
    assert resource.auto_token == token


def test_a_value_is_published_with_the_registration():
    (resource, other) = read_links(b'</3303/0/5700>;v="1.5e+00",</3/0/0>;v="a, \\"b\\"; \\\\"').resources
    assert resource.published == Content(b"1.5e+00")
    assert other.published == Content(b'a, "b"; \\')


def test_what_is_not_readable_is_not_observed_whatever_the_links_say():
    assert observable('</3/0/4>;obs,</5/0/0>;aobs=1;v="x",</3/0/0>;obs') == ["/3/0/0"]
    (package,) = read_links(b'</5/0/0>;aobs=1;v="x"').resources
    assert (package.auto_token, package.published, package.introduced.auto_observed) == (None, None, False)


def test_who_never_says_obs_has_everything_observed_and_who_does_means_it():
    assert observable(f"<{TEMPERATURE}>,<{DIMMER}>,</27000/0/1>") == [TEMPERATURE, DIMMER, "/27000/0/1"]
    assert observable(f"<{TEMPERATURE}>;aobs=9,<{DIMMER}>") == [TEMPERATURE, DIMMER]
    assert observable(f"<{TEMPERATURE}>;obs,<{DIMMER}>,</27000/0/1>;aobs=9") == [TEMPERATURE, "/27000/0/1"]


def test_blanks_and_empty_links_and_unknown_attributes_do_no_harm():
    text = b' </3303/0/5700> ; obs ; title*="x,y;z" ; sz = 3 ; ,, </1/0> ,\r\n</3/0/0>;'
    links = read_links(text)
    assert (paths(links), links.to_discover) == ([TEMPERATURE, "/3/0/0"], ("/1/0",))


def test_resource_instances_are_of_their_resource_and_a_path_counts_once():
    links = read_links(b"</3/0/7/0>;obs,</3/0/7/1>,</3/0/7>;rt=late,</1/0>,</1/0>")
    assert (paths(links), links.to_discover) == (["/3/0/7"], ("/1/0",))


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"</1", "character 0 begins no link"),
        (b"</1>,</2", "character 5 begins no link"),
        (b"garbage", "write links like"),
        (b'</1/0>;x="', "character 9 begins no link"),
        (b"</1/0></2/0>", "character 6 begins no link"),
        (b"</1/0\xff>", "not UTF-8"),
        (b"</65536/0>", "0 to 65535"),
        (b"</03/0>", "write it like /3303/0/5700"),
        (b"</1/2/3/4/5>", "write it like /3303/0/5700"),
        (b"</3/x>", "write it like /3303/0/5700"),
        (b"</3303/0/5700>;aobs", "aobs=''"),
        (b"</3303/0/5700>;aobs=65536", "0 to 65535"),
        (b"</3303/0/5700>;aobs=-1", "0 to 65535"),
        (b"</3303/0/5700>;aobs=1,</3/0/0>;aobs=1", "aobs=1 stands for /3303/0/5700 and /3/0/0"),
        (b'</>;ct="110 x"', "ct='x' of '/'"),
        (b'</3303/0/5700>;rt="a\x1b[2J"', "no printable text"),
        (b"</3303/0/5700>;rt=" + b"a" * 129, "of 128 characters"),
        (b'</\x1b[2J>;rt="oma.lwm2m"', "write it like </> or </lwm2m>"),
        (b"<" + b"/a" * 65 + b'>;rt="oma.lwm2m"', "write it like </> or </lwm2m>"),
        (b",".join(b"</%d/0>" % number for number in range(3001)), "3000 are the most"),
        (b" " * (256 * 1024 + 1), "262144 are the most"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason_and_the_cure(payload, reason):
    with pytest.raises(BadLinks, match=reason) as refusal:
        read_links(payload)
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 250


def test_the_limits_are_the_callers():
    assert len(read_links(b"</1/0>,</2/0>", most_links=2, most_bytes=13).to_discover) == 2
    with pytest.raises(BadLinks, match="1 are the most"):
        read_links(b"</1/0>,</2/0>", most_links=1)
    with pytest.raises(BadLinks, match="12 are the most"):
        read_links(b"</1/0>,</2/0>", most_bytes=12)


fragments = st.sampled_from(
    [
        *("<", ">", "/", ",", ";", '"', "\\", "=", " ", "\x00", "\u2028", "\r\n", "é"),
        *("</3303/0/5700>", "</3/0/4>", "</>", "</lwm2m>", "</lwm2m/3/0/1>", "/70000"),
        *("aobs", "id", "727", "obs", "ct", "rt", "v", "oma.lwm2m", '="110 112"'),
    ]
)


@settings(max_examples=40)
@given(st.lists(fragments | st.text(max_size=3), max_size=40).map("".join).map(str.encode) | st.binary())
def test_nothing_but_the_one_error_is_raised(payload):
    try:
        links = read_links(payload)
    except BadLinks:
        return
    assert len(set(paths(links))) == len(links.resources)
