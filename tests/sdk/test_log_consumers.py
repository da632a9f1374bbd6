"""Reading the log over HTTP: losses, failures, many waiters, watches. The service is a script, and time is a number."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from waits import wait_until

from mirror_sdk._protocol.async_log_consumers import AsyncResponseRouter
from mirror_sdk._protocol.async_log_reader import AsyncLogReader
from mirror_sdk._protocol.async_sender import AsyncSender
from mirror_sdk._protocol.backoff import Backoff
from mirror_sdk._protocol.log_consumers import Events, ResponseRouter, Watch
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._protocol.response_matcher import ResponseMatcher
from mirror_sdk._protocol.sender import Sender
from mirror_sdk.config import ClientSettings
from mirror_sdk.errors import AuthenticationError, CompatibilityWarning, ConnectionFailed, GapWarning, ServerError
from mirror_sdk.events import Event, EventKind
from mirror_sdk.wire.notifications import AsyncResponse

SETTINGS = ClientSettings.of("localhost", "key")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Time:
    """A clock that advances during sleeps and open polls."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class Log:
    """A service with one log and a poll. ``before_poll`` is called for each poll and may fail it or add to the log.

    ``page`` is the maximum number of entries in a message. A response with a 5xx status has no body.
    """

    def __init__(self, page: int = 1000) -> None:
        self.time = Time()
        self.page = page
        self.last_seq = 0
        self.first_seq = 1
        self.entries: dict[int, tuple[str, Any]] = {}
        self.polls: list[dict[str, str]] = []
        self.before_poll: Callable[[int], httpx.Response | None] = lambda number: None

    def add(self, key: str, entry: Any) -> None:
        self.last_seq += 1
        self.entries[self.last_seq] = (key, entry)

    def add_response(self, async_id: str) -> None:
        self.add("async-responses", {"id": async_id, "status": 200, "payload": ""})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.polls.append(dict(request.url.params))
        failure = self.before_poll(len(self.polls))
        if failure is not None:
            return failure
        after = self.last_seq if request.url.params["after"] == "latest" else int(request.url.params["after"])
        if after > self.last_seq:
            return error_response(400, "CURSOR_BEYOND_LOG")
        return self._message(after, float(request.url.params["hold"]))

    def _message(self, after: int, hold_seconds: float) -> httpx.Response:
        last_seq = min(self.last_seq, after + self.page)
        headers = {"Mirror-Cursor": str(last_seq)}
        if after + 1 < self.first_seq:
            headers["Mirror-Gap"] = f"{after + 1}-{self.first_seq - 1}"
        message: dict[str, list[Any]] = {}
        for seq in range(max(after + 1, self.first_seq), last_seq + 1):
            key, entry = self.entries[seq]
            message.setdefault(key, []).append(entry)
        if message:
            return httpx.Response(200, headers=headers, json=message)
        self.time.seconds += hold_seconds
        return httpx.Response(204, headers=headers)


def error_response(status: int, reason: str | None = None, headers: dict[str, str] | None = None) -> httpx.Response:
    body = {"code": status, "type": "t", "message": "m", "reason": reason}
    return httpx.Response(status, headers=headers, json=body)


def lost() -> httpx.Response:
    raise httpx.ReadError("reset")


def send_to(log: Callable[[httpx.Request], httpx.Response]) -> Any:
    return Sender(SETTINGS, timeout_seconds=5, transport=httpx.MockTransport(log), sleep=lambda _: None).send


def reader_of(log: Log, after: int | None = None) -> LogReader:
    backoff = Backoff(rng=lambda: 1.0)
    return LogReader(send_to(log), after=after, clock=log.time, sleep=log.time.sleep, backoff=backoff)


def pump_of(log: Log) -> ResponseRouter:
    return ResponseRouter(reader_of(log), ResponseMatcher(), clock=log.time)


def watch_of(log: Log, callback: Any) -> Watch:
    reader = LogReader(send_to(log))
    reader.go_to_end()
    return Watch(reader, callback, lambda event: True)


def events_of(log: Log, after: int = 0, **options: float) -> Iterator[Event]:
    seconds: dict[str, Any] = {"timeout_seconds": 60.0, "outage_seconds": None, **options}
    return Events(reader_of(log, after), **seconds, clock=log.time, now=lambda: NOW)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def router(log: Log) -> ResponseRouter:
    return pump_of(log)


# Reading


@pytest.mark.parametrize(
    ("failure", "duration_seconds", "slept"),
    [
        (lost, 0, [0.5]),
        (lambda: error_response(410), 0, [0.5]),
        (lambda: error_response(429, headers={"Retry-After": "20"}), 0, [20.0]),
        (lambda: error_response(503), 0, [0.5, 1.0, 2.0, 4.0]),
        # A slow error also reduces the rate of requests; an interrupted poll is not an error of the service.
        (lambda: error_response(503), 10, [0.5, 1.0, 2.0, 4.0]),
        (lambda: error_response(429), 10, [0.5, 1.0, 2.0, 4.0]),
        (lambda: error_response(504), 10, [0.5] * 9),
        (lost, 10, [0.5] * 9),
    ],
)
def test_a_failed_poll_is_repeated_from_its_position_after_a_pause(log, failure, duration_seconds, slept):
    def fail(number: int) -> httpx.Response | None:
        if number > len(slept):
            return None
        log.time.seconds += duration_seconds
        return failure()

    log.add("de-registrations", "d1")
    log.before_poll = fail
    assert next(events_of(log, timeout_seconds=200)).device_id == "d1"
    assert {poll["after"] for poll in log.polls} == {"0"}
    assert log.time.slept == slept


def test_an_outage_does_not_count_as_time_without_events(log):
    def fail(number: int) -> httpx.Response | None:
        if number == 8:
            log.add("de-registrations", "d1")
        return error_response(503) if number < 7 else None

    log.before_poll = fail
    assert [event.device_id for event in events_of(log, timeout_seconds=20)] == ["d1"]
    assert sum(log.time.slept) > 20


@pytest.mark.parametrize(
    ("failure", "options", "error", "slept_seconds"),
    [
        (lambda: error_response(503), {"timeout_seconds": 0}, ServerError, 0),
        (lambda: error_response(401), {}, AuthenticationError, 0),
        (lost, {"timeout_seconds": 1000, "outage_seconds": 60}, ConnectionFailed, 60),
    ],
    ids=["an outage at a status check", "a rejected key", "a long outage"],
)
def test_a_failure_that_outlasts_the_timeout_is_raised(log, failure, options, error, slept_seconds):
    log.before_poll = lambda _: failure()
    with pytest.raises(error):
        list(events_of(log, **options))
    assert sum(log.time.slept) == slept_seconds


def test_a_pause_never_exceeds_the_remaining_time(log):
    log.before_poll = lambda number: error_response(429, headers={"Retry-After": "90"})
    reader = reader_of(log, after=0)
    for seconds in (25, 7, 0):
        reader.read(seconds)
    assert log.time.slept == [7, 0]
    assert len(log.polls) == 1


# Events


def test_each_event_restarts_the_wait_and_processing_time_does_not_count(log):
    log.add("de-registrations", "d1")
    found = events_of(log, timeout_seconds=60)
    next(found)
    log.time.seconds += 1000
    log.add("de-registrations", "d2")
    assert [event.device_id for event in found] == ["d2"]
    # Then the iterator ends after that time without any event.
    assert [poll["hold"] for poll in log.polls] == ["25", "25", "25", "25", "10"]


def test_lost_and_unknown_entries_are_events_and_warnings(log):
    for key in ("blips", "de-registrations", "blips", "de-registrations"):
        log.add(key, f"d{log.last_seq}")
    log.first_seq = 3
    with pytest.warns(GapWarning, match="1-2"), pytest.warns(CompatibilityWarning, match="blips"):
        gap, unknown, known = events_of(log, timeout_seconds=10)
    assert (gap.kind, gap.first_seq, gap.seq) == (EventKind.GAP, 1, 2)
    assert (unknown.kind, known.device_id) == (EventKind.UNKNOWN, "d3")


def test_all_of_a_longer_log_than_there_is_now_is_a_gap(log):
    with pytest.warns(GapWarning, match="all earlier entries"):
        (gap,) = events_of(log, after=400, timeout_seconds=10)
    assert (gap.kind, gap.first_seq, gap.seq) == (EventKind.GAP, None, None)


# Responses


def test_the_end_of_the_log_is_found_before_the_first_request_and_only_then(log, router):
    log.add_response("of another client")
    log.before_poll = lambda number: lost()
    with pytest.raises(ConnectionFailed):
        router.expect("a")
    assert len(log.polls) == 3
    log.before_poll = lambda number: None
    log.polls.clear()
    router.expect("a")
    router.expect("b")
    assert log.polls == [{"after": "latest", "hold": "0"}]


def test_a_wait_ends_and_can_be_resumed(log, router):
    awaited_response = router.expect("a")
    assert router.wait(awaited_response, 30) is None
    assert log.time() == 1030
    log.add_response("a")
    assert router.wait(awaited_response, 30) is not None


@pytest.mark.filterwarnings("error")
def test_a_gap_during_a_wait_is_logged_if_a_response_is_missing_and_the_wait_continues(log, router):
    received, missing = router.expect("a"), router.expect("b")
    log.add("de-registrations", "d1")
    log.add_response("a")
    log.first_seq = 2
    assert router.wait(received, 60) is not None
    late = router.expect("c")
    assert router.wait(missing, 0) is None
    assert (missing.lost, late.lost) == ((1, 1), None)


def test_after_a_long_pause_reading_starts_at_the_end_unless_a_response_is_pending(log, router):
    first = router.expect("a")
    log.add_response("a")
    log.time.seconds += 3600
    router.expect("of nobody")
    assert router.wait(first, 60) is not None
    for number in range(100):
        log.add("de-registrations", f"d{number}")
    log.first_seq = 91
    log.time.seconds += 3600
    second = router.expect("b")
    log.add_response("b")
    assert router.wait(second, 60) is not None
    assert second.lost is None
    assert [poll["after"] for poll in log.polls].count("latest") == 2


class OpenPollLog(Log):
    """A log whose polls stay open until the test releases them. It counts the open polls."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Condition()
        self.open = 0
        self.most_open = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.params["hold"] != "0":
            with self.gate:
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                self.gate.notify_all()
                self.gate.wait_for(lambda: self.last_seq > int(request.url.params["after"]), 60)
                self.open -= 1
        return super().__call__(request)

    def wait_until_open(self) -> None:
        with self.gate:
            assert self.gate.wait_for(lambda: self.open == 1, 60)

    def let_go(self, async_id: str) -> None:
        with self.gate:
            self.add_response(async_id)
            self.gate.notify_all()


def test_of_many_threads_one_reads_and_the_others_take_over_when_it_leaves():
    log = OpenPollLog()
    router = ResponseRouter(LogReader(send_to(log)), ResponseMatcher())
    names = [f"a{number}" for number in range(8)]
    expectations = [router.expect(name) for name in names]
    with ThreadPoolExecutor(8) as threads:
        responses = threads.map(lambda awaited_response: router.wait(awaited_response, 180), expectations)
        for name in names:
            log.wait_until_open()
            log.let_go(name)
    assert [response and response.id for response in responses] == names
    assert log.most_open == 1


def test_a_thread_that_becomes_the_reader_waits_only_for_its_remaining_time():
    log = OpenPollLog()
    clock_reads: list[float] = []

    def clock() -> float:
        clock_reads.append(log.time())
        return log.time()

    router = ResponseRouter(LogReader(send_to(log), clock=log.time), ResponseMatcher(), clock=clock)
    of_first, of_next = router.expect("first"), router.expect("next")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(router.wait, of_first, 180)
        log.wait_until_open()
        clock_reads.clear()
        waiting = threads.submit(router.wait, of_next, 25)
        # The second waiter has checked the time, and cannot read before the first one leaves.
        wait_until(lambda: len(clock_reads) == 2)
        log.time.seconds += 20
        log.let_go("first")
        assert first.result(60) is not None
        log.wait_until_open()
        log.let_go("next")
        assert waiting.result(60) is not None
    assert [poll["hold"] for poll in log.polls] == ["0", "25", "5"]


def test_a_task_that_starts_while_another_finds_the_end_of_the_log_gets_its_response(log):
    async def scene() -> AsyncResponse | None:
        is_seeking, may_go_on = asyncio.Event(), asyncio.Event()

        async def poll(request: httpx.Request) -> httpx.Response:
            if request.url.params["after"] == "latest":
                is_seeking.set()
                await may_go_on.wait()
            return log(request)

        sender = AsyncSender(SETTINGS, timeout_seconds=5, transport=httpx.MockTransport(poll))
        router = AsyncResponseRouter(
            AsyncLogReader(sender.send, after=0, clock=log.time), ResponseMatcher(), clock=log.time
        )
        log.time.seconds += 3600

        async def request() -> AsyncResponse | None:
            awaited_response = await router.expect("a")
            log.add_response("a")
            return await router.wait(awaited_response, 60)

        seeking = asyncio.create_task(router.expect("another"))
        await is_seeking.wait()
        request_task = asyncio.create_task(request())
        await asyncio.sleep(0)
        may_go_on.set()
        await seeking
        return await request_task

    assert asyncio.run(scene()) is not None


@pytest.mark.parametrize("timeout_seconds", [0, 60])
def test_a_failed_reader_lets_the_next_one_read(log, router, timeout_seconds):
    awaited_response = router.expect("a")
    log.before_poll = lambda number: error_response(401) if number == 2 else None
    with pytest.raises(AuthenticationError):
        router.wait(awaited_response, timeout_seconds)
    log.add_response("a")
    assert router.wait(awaited_response, 60) is not None


# Watches


def test_a_watch_starts_with_new_entries_and_records_errors_of_its_callback(caplog):
    log = OpenPollLog()
    log.add_response("before")
    seen: list[str | None] = []

    def callback(event: Event) -> None:
        seen.append(event.async_id)
        raise RuntimeError("callback")

    with caplog.at_level(logging.ERROR), watch_of(log, callback) as watch:
        for name in ("a1", "a2"):
            log.wait_until_open()
            log.let_go(name)
            wait_until(lambda name=name: name in seen)
        log.wait_until_open()
        assert watch.is_running
    log.let_go("end")
    watch._worker._thread.join(60)
    assert seen == ["a1", "a2"]
    assert not watch.is_running
    assert [str(error) for error in watch.errors] == ["callback", "callback"]
    # A poll of an earlier test may still end, and be logged.
    assert ["callback" in record.getMessage() for record in caplog.records].count(True) == 2


def test_a_watch_stopped_by_its_callback_calls_it_no_more():
    log = OpenPollLog()
    seen: list[str | None] = []

    def stop(event: Event) -> None:
        watch.stop()
        seen.append(event.async_id)

    watch = watch_of(log, stop)
    log.wait_until_open()
    with log.gate:
        log.add_response("a1")
        log.let_go("a2")
    watch._worker._thread.join(60)
    assert seen == ["a1"]


def test_a_rejected_key_ends_a_watch_and_is_recorded(log, caplog):
    log.before_poll = lambda number: error_response(401) if number == 2 else None
    watch = watch_of(log, print)
    watch._worker._thread.join(60)
    assert [type(error) for error in watch.errors] == [AuthenticationError]
    assert not watch.is_running
    assert "watch ended" in caplog.text


# Checks without waiting


def test_a_status_check_respects_retry_after(log, router):
    awaited_response = router.expect("a")
    log.before_poll = lambda number: error_response(429, headers={"Retry-After": "20"})
    assert [router.wait(awaited_response, 0) for _ in range(2)] == [None, None]
    assert len(log.polls) == 2
    log.before_poll = lambda number: None
    log.add_response("a")
    log.time.seconds += 20
    assert router.wait(awaited_response, 0) is not None


def test_a_status_check_while_another_thread_reads():
    log = Log(page=1)
    router = pump_of(log)
    waited, awaited_response = router.expect("waited"), router.expect("a")
    is_polling, may_go_on = threading.Event(), threading.Event()

    def before_poll(number: int) -> None:
        if log.polls[-1]["hold"] != "0" and not is_polling.is_set():
            is_polling.set()
            assert may_go_on.wait(60)

    log.before_poll = before_poll
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(router.wait, waited, 20)
        assert is_polling.wait(60)
        log.add_response("b")
        log.add_response("a")
        assert router.wait(awaited_response, 0) is not None
        log.add_response("waited")
        may_go_on.set()
        assert waiting.result(60) is not None
    # Entries that this reader skipped are still delivered to those who expect them.
    assert router.expect("b").response is not None
