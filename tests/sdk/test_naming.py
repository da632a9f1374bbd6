"""A device is named by its id, its endpoint name, or what has its id; what a name leads to is never guessed."""

import pytest

SWITCH, TEMPERATURE = "/3311/0/5850", "/3303/0/5700"
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": SWITCH, "value": "0", "observable": True, "writable": True},
    {"path": "/3/0/4", "value": "", "executable": True},
]
ODD_NAMES = ["light-01", "Küche, links", "a,b", "100%", "a&b=c#d?e", "..", "/3303/0/5700", "'; drop--", "x" * 64]

CALLS = {
    "get_device": lambda c, d: c.get_device(d).device_id,
    "get_directory_device": lambda c, d: c.get_directory_device(d).id,
    "list_resources": lambda c, d: sorted(one.uri for one in c.list_resources(d)),
    "explain": lambda c, d: c.explain(d, TEMPERATURE).title,
    "begin_read": lambda c, d: c.begin_read(d, TEMPERATURE).device_id,
    "begin_write": lambda c, d: c.begin_write(d, SWITCH, True).device_id,
    "begin_execute": lambda c, d: c.begin_execute(d, "/3/0/4").device_id,
    "read_value": lambda c, d: c.read_value(d, TEMPERATURE),
    "write_value": lambda c, d: c.write_value(d, SWITCH, True),
    "execute": lambda c, d: c.execute(d, "/3/0/4"),
    "list_device_requests": lambda c, d: [one for one in c.list_device_requests(d) if one.method == "PUT"],
    "resume_request": lambda c, d: c.resume_request("x", d, TEMPERATURE).device_id,
    "subscribe": lambda c, d: (c.subscribe(d, TEMPERATURE), c.is_subscribed(d, TEMPERATURE)),
    "subscription_state": lambda c, d: c.subscription_state(d, TEMPERATURE),
    "list_subscriptions": lambda c, d: (c.subscribe(d, TEMPERATURE), c.list_subscriptions(d)),
    "unsubscribe": lambda c, d: (c.unsubscribe(d, TEMPERATURE), c.list_subscriptions(d)),
    "delete_subscriptions": lambda c, d: (c.delete_subscriptions(d), c.list_subscriptions(d)),
    "state_frame": lambda c, d: c.state_frame([d])["device_id"].unique().tolist(),
    "snapshot": lambda c, d: c.snapshot([d])["device_id"].unique().tolist(),
    "plan": lambda c, d: c.plan([(d, SWITCH, True)]).frame["device_id"].tolist(),
}
SPELLINGS = {
    "name": lambda client, device_id: "light-01",
    "directory": lambda client, device_id: client.get_directory_device(device_id),
    "object": lambda client, device_id: client.get_device(device_id),
    "handle": lambda client, device_id: client.begin_read(device_id, TEMPERATURE),
}


@pytest.fixture
def light(bench):
    bench.add_device("station-01", RESOURCES)
    return bench.add_device("light-01", RESOURCES, endpoint_type="Light")


@pytest.mark.parametrize("call", CALLS)
def test_each_method_takes_a_device_however_it_is_named(client, light, call):
    by_id = CALLS[call](client, light)
    for spelling, name in SPELLINGS.items():
        assert CALLS[call](client, name(client, light)) == by_id, spelling


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_name_may_be_any_text(client, bench, name):
    bench.add_device("another", RESOURCES)
    device_id = bench.add_device(name, RESOURCES)
    assert client.get_device(name).device_id == device_id
    assert client.state_frame([name, "another"])["device_id"].nunique() == 2
    bench.set_value(name, TEMPERATURE, 3.5)
    assert client.read_value(name, TEMPERATURE) == 3.5
