"""What two who use one key share, and what each has alone: as ``help(mirror_sdk)`` lists it, point by point."""

import threading

import httpx
import pytest

from mirror_sdk import Conflict, LimitExceeded, MirrorClient, SubscriptionState, WebhookReceiver

URL = "http://mirror.localhost"
TEMPERATURE, SWITCH = "/3303/0/5700", "/3311/0/5850"


@pytest.fixture
def key(mirror):
    return mirror.new_key()


@pytest.fixture
def one(mirror, key):
    with MirrorClient(URL, key, transport=mirror.transport, max_retries=0) as made:
        yield made


@pytest.fixture
def two(mirror, key):
    with MirrorClient(URL, key, transport=mirror.transport, max_retries=0) as made:
        yield made


@pytest.fixture
def stranger(mirror):
    """Somebody with a key of their own."""
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport, max_retries=0) as made:
        yield made


def seqs(client):
    return [event.seq for event in client.events(after=0, timeout=0)]


def test_rules_are_one_list(one, two, stranger):
    one.add_presubscriptions([{"endpoint_name": "one"}])
    two.add_presubscriptions([{"endpoint_name": "two"}])
    assert [rule.endpoint_name for rule in one.get_presubscriptions()] == ["one", "two"]
    assert stranger.get_presubscriptions() == []
    one.put_presubscriptions([{"endpoint_name": "one"}])
    assert [rule.endpoint_name for rule in two.get_presubscriptions()] == ["one"]
    two.delete_presubscriptions()
    assert one.get_presubscriptions() == []


def test_a_single_subscription_is_that_of_both(one, two, stranger, device_id):
    stranger.subscribe(device_id, TEMPERATURE)
    one.subscribe(device_id, TEMPERATURE)
    two.subscribe(device_id, TEMPERATURE)
    two.unsubscribe(device_id, TEMPERATURE)
    assert one.subscription_state(device_id, TEMPERATURE) is SubscriptionState.NONE
    assert stranger.is_subscribed(device_id, TEMPERATURE)


def test_there_is_one_log_which_each_reads_from_a_place_of_its_own(one, two, stranger, bench, device_id):
    assert seqs(one) == seqs(two)  # from the first request on it is kept
    first, second = one.events(timeout=0), two.events(timeout=0)
    one.subscribe(device_id, TEMPERATURE)
    two.read_value(device_id, SWITCH)
    begun = [event.seq for event in first]
    assert begun
    assert [event.seq for event in second] == begun
    assert seqs(one) == seqs(two)
    assert {event.path for event in stranger.events(after=0, timeout=0)} <= {None}


def test_a_request_of_one_is_listed_and_taken_up_by_the_other(one, two, stranger, bench, device_id):
    bench.set_online(device_id, False)
    request = one.begin_write(device_id, SWITCH, True, async_id="night")
    assert [waiting.async_response_id for waiting in two.list_device_requests()] == ["night"]
    assert stranger.list_device_requests() == []
    taken = two.resume_request("night", device_id, SWITCH, method="PUT")
    with pytest.raises(Conflict):
        two.begin_write(device_id, SWITCH, False, async_id="night")
    stranger.begin_write(device_id, TEMPERATURE, 1, async_id="night", allow_read_only=True)
    bench.set_online(device_id, True)
    request.result(60)
    taken.result(60)


def test_there_is_one_webhook_and_one_place_of_plain_polls(mirror, key, one, two, stranger):
    plain = {"transport": mirror.transport, "base_url": URL, "headers": {"Authorization": f"Bearer {key}"}}
    with httpx.Client(**plain) as http, WebhookReceiver() as first, WebhookReceiver() as second:
        one.use_webhook(first)
        two.use_webhook(second)
        assert http.get("/v2/notification/callback").json()["url"] == second.url
        refused = http.get("/v2/notification/pull", params={"noWait": "true"})
        assert (refused.status_code, refused.json()["reason"]) == (400, "OTHER_CHANNEL")
        two.use_long_polling()
        assert http.get("/v2/notification/callback").status_code == 404


def test_one_plain_poll_takes_what_the_other_does_not_get(mirror, key, one, device_id):
    plain = {"transport": mirror.transport, "base_url": URL, "headers": {"Authorization": f"Bearer {key}"}}
    with httpx.Client(**plain) as http:
        poll = "/v2/notification/pull?noWait=true"
        http.get(poll)
        one.read_value(device_id, SWITCH)
        assert [http.get(poll).status_code, http.get(poll).status_code] == [200, 204]
        assert len(list(one.events(after=0, timeout=0))) >= 1


def test_values_and_the_queue_of_a_device_are_those_of_all_keys(one, two, stranger, bench, device_id):
    one.write_value(device_id, SWITCH, True)
    assert stranger.get_device(device_id)[SWITCH].desired.value.python is True
    bench.set_online(device_id, False)
    for client in (one, two, stranger, stranger):
        for _ in range(5):
            client.begin_read(device_id, SWITCH)
    for client in (one, two, stranger):
        with pytest.raises(LimitExceeded, match="QUEUE_IS_FULL"):
            client.begin_read(device_id, SWITCH)
    assert len(one.list_device_requests()) == 10


def test_each_recorder_and_watch_has_its_own_place(one, two, bench, device_id, tmp_path):
    one.subscribe(device_id, TEMPERATURE)
    heard = threading.Semaphore(0)
    with (
        one.record(tmp_path / "one") as first,
        two.record(tmp_path / "two") as second,
        two.watch(lambda _: heard.release()),
    ):
        bench.set_value(device_id, TEMPERATURE, "30")
        assert heard.acquire(timeout=60)
    assert [recorder.recording.events()["value_num"].tolist()[-1] for recorder in (first, second)] == [30.0, 30.0]
