"""One poller for all widgets of a client, and the thread of each widget."""

import gc
import threading
import weakref

import httpx
import pytest
from client_test_data import URL
from resource_paths import TEMPERATURE
from thread_waits import PATIENCE_SECONDS, PAUSE, until
from widget_elements import threads_since, wait_for_events

from mirror_sdk import EventKind, MirrorClient
from mirror_sdk.widgets.feed import RETRY_SECONDS, EventFeed, Subscription, feed_of
from mirror_sdk.widgets.live import Live, stop_all


@pytest.fixture
def live(client):
    """Create lives of widgets, and stop them at the end."""
    made = []

    def make(receive=lambda *_: None, show=lambda: None, failed=lambda _: None, **options):
        made.append(Live(client, receive=receive, tick=lambda: None, show=show, failed=failed, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_all_subscriptions_of_a_client_share_one_poller_which_ends_with_the_last(client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    first, second = feed_of(client).subscribe(), feed_of(client).subscribe()
    wait_for_events(client)
    simulator.set_value(device_id, TEMPERATURE, 22)
    for subscription in (first, second):
        until(lambda one=subscription: 22.0 in [event.value.python for event in one.drain()[0]])
    assert client.notifications.status().watches == 1
    first.close()
    assert client.notifications.status().watches == 1
    second.close()
    assert client.notifications.status().watches == 0


def test_full_buffer_keeps_the_newest_events_and_counts_dropped_ones():
    subscription = Subscription(lambda _: None, buffered=3)
    for number in range(10):
        subscription.put(number)
    assert subscription.drain() == ([7, 8, 9], 7)
    assert subscription.drain() == ([], 0)


def test_rejected_poller_is_a_problem_and_restarts_with_a_gap(mirror, seconds):
    with MirrorClient(URL, f"ak_0123456789abcdef_{'x' * 43}", transport=mirror.transport) as reader:
        feed = EventFeed(reader, seconds)
        subscription = feed.subscribe()
        until(lambda: feed.problem)
        assert "401" in str(feed.problem)
        feed.ensure_running()
        assert not feed._is_starting
        reader._session.sender._http.headers["Authorization"] = f"Bearer {mirror.new_key()}"
        seconds.now += RETRY_SECONDS + 1
        feed.ensure_running()
        until(lambda: subscription._waiting)
        assert feed.problem is None
        assert [event.kind for event in subscription.drain()[0]] == [EventKind.GAP]
        subscription.close()


def test_a_feed_does_not_keep_its_client_alive():
    client = MirrorClient("http://nowhere.localhost", "key", transport=httpx.MockTransport(lambda _: None))
    feed_of(client)
    reference = weakref.ref(client)
    del client
    gc.collect()
    assert reference() is None


def test_calls_run_on_threads_and_their_outcomes_on_the_refreshing_thread(live):
    outcomes, caller = [], threading.current_thread()
    one = live()
    one.start()
    one.run(
        threading.current_thread,
        lambda made_in: outcomes.append((made_in, threading.current_thread())),
        outcomes.append,
    )
    until(lambda: outcomes)
    ((made_in, delivered_in),) = outcomes
    assert len({made_in, delivered_in, caller}) == 3


def test_a_bounded_number_of_calls_is_made_at_once(live):
    one, free, busy = live(), threading.Event(), []
    for _ in range(30):
        one.run(lambda: busy.append(1) or free.wait(PATIENCE_SECONDS), lambda _: None, lambda _: None)
    until(lambda: len(busy) == 8)
    PAUSE.wait(0.05)
    assert len(busy) == 8
    free.set()
    until(lambda: len(busy) == 30)


def test_error_while_refreshing_is_reported_and_the_thread_goes_on(live):
    errors, refreshed = [], []

    def refresh():
        refreshed.append(1)
        raise RuntimeError("broken")

    live(show=refresh, failed=errors.append).start()
    until(lambda: len(refreshed) > 2)
    assert str(errors[0]) == "broken"


def test_stop_ends_the_thread_and_drops_outcomes(live):
    outcomes, free = [], threading.Event()
    before = set(threading.enumerate())
    one = live()
    one.start()
    one.run(lambda: free.wait(PATIENCE_SECONDS), outcomes.append, outcomes.append)
    assert one.is_running
    stop_all()
    free.set()
    one.step()
    until(lambda: not threads_since(before) & {"mirror-widget", "mirror-widget-call"})
    assert outcomes == []
    assert not one.is_running


def test_service_that_does_not_respond_is_a_problem_until_it_does(client, transport, monkeypatch):
    def cut(request):
        raise httpx.ConnectError("cut", request=request)

    feed = feed_of(client)
    subscription = feed.subscribe()
    wait_for_events(client)
    with monkeypatch.context() as patched:
        patched.setattr(transport, "handle_request", cut)
        until(lambda: feed.problem)
        assert "cut" in str(feed.problem)
    until(lambda: feed.problem is None)
    assert subscription.drain() == ([], 0)
    subscription.close()
