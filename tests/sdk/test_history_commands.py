"""mirror history and mirror as-of, with a real server. Source: wire.md 10."""

import csv
import io
import json

import pandas as pd
import pytest
from changed_responses import LIGHT, RESOURCES, TEMPERATURE

from mirror_server.devices.interface import Content, Observation

pytestmark = pytest.mark.keeps_history


@pytest.fixture
def times(simulator, plain):
    """The times of three temperatures, 21.5, 22.5 and 23.5, an hour apart; a write ended at the last one."""
    device_id = simulator.add_device("a", RESOURCES, endpoint_type="Light")
    plain.subscribe(device_id, TEMPERATURE)
    found = [simulator.get_clock()]
    for value in (22.5, 23.5):
        found.append(simulator.advance(3600))
        simulator.set_value(device_id, TEMPERATURE, value)
    plain.write_value(device_id, LIGHT, True)
    return found


def rows(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def values(result):
    return [row["value"] for row in rows(result)]


def test_history_shows_the_events_of_a_device(shell, times):
    result = shell("history", "a")
    assert result.exit_code == 0
    assert "23.5" in result.stdout
    assert "registration" in result.stdout
    events = rows(shell("history", "a", TEMPERATURE, "--json"))
    reported = [("reported", value) for value in (21.5, 22.5, 23.5)]
    assert [(row["event"], row["value"]) for row in events] == [("registration", None), *reported]
    (write,) = [row for row in rows(shell("history", "a", "/3311/*", "--json")) if row["path"] == LIGHT]
    assert (write["event"], write["value"], write["origin"], write["status"]) == ("write", True, "write", "success")
    events = list(csv.DictReader(io.StringIO(shell("history", "a", "/3303/*", "--csv").stdout)))
    assert [row["value"] for row in events] == ["", "21.5", "22.5", "23.5"]
    assert events[-1]["at"] == times[2].isoformat(timespec="milliseconds")


def test_history_of_an_interval_by_instants_or_by_age(shell, times):
    begin, end = (f"{at:%Y-%m-%dT%H:%M:%S}Z" for at in times[1:])
    expected = {
        ("--begin", begin, "--end", end): [22.5],
        ("--since", "90m"): [22.5, 23.5],
        ("--since", "0.5h"): [23.5],
        ("--begin", begin, "--limit", "1"): [22.5],
    }
    for words, found in expected.items():
        assert values(shell("history", "a", TEMPERATURE, "--json", *words)) == found


def test_span_longer_than_the_history_shows_all_of_it_with_a_notice(shell, times):
    complete = shell("history", "a", TEMPERATURE, "--json", "--since", "9d")
    assert values(complete) == [None, 21.5, 22.5, 23.5]
    (said,) = complete.stderr.splitlines()
    assert said.startswith("the history begins at 2026-01-05T08:00:00.000Z")
    assert rows(shell("history", "a", TEMPERATURE, "--json", "--since", "9d", "--limit", "2")) == rows(complete)[:2]
    nothing = shell("history", "a", "--since", "9d", "--end", "2026-01-04T00:00Z")
    assert nothing.exit_code == 1
    assert shell("history", "a", "--since", "1h").stderr == ""


def test_span_longer_than_the_history_includes_values_dated_before_it(shell, mirror, simulator):
    device_id = simulator.add_device("early", RESOURCES)
    dated = int(simulator.get_clock().timestamp() * 1000) - 30_000
    value = Observation(device_id, TEMPERATURE, Content(b"19.5"), dated, is_unsolicited=True)
    mirror.services.devices.observed([value]).result(60)
    simulator.advance(10)
    result = shell("history", "early", TEMPERATURE, "--json", "--since", "60s")
    assert values(result) == [None, 19.5]
    assert "the history begins at 2026-01-05T08:00:00.000Z" in result.stderr
    limited = shell("history", "early", TEMPERATURE, "--json", "--since", "60s", "--limit", "1")
    assert rows(limited) == rows(result)[:1]
    # These are older than the requested times.
    assert values(shell("history", "early", TEMPERATURE, "--json", "--since", "20s")) == [None]


def test_history_commands_reject_wrong_usage(shell, tmp_path):
    for words, expected_message in (
        (["history", "a", "--begin", "2026-01-05T08:00"], "has no time zone; write 2026-01-05T08:00:00Z"),
        (["history", "a", "--begin", "yesterday"], "is not a time"),
        (["history", "a", "--since", "2 weeks"], "is not a time span"),
        (["history", "a", "--since", "2h", "--begin", "2026-01-05T08:00Z"], "pass one of them"),
        (["history", "a", "/3*/0"], "at the end"),
        (["history"], "Missing argument 'DEVICE'"),
        (["as-of", "2026-01-05T08:00", tmp_path / "then.csv"], "has no time zone"),
        (["as-of", "2026-01-05T08:00Z", tmp_path / "then.xlsx"], "ends neither in .parquet nor in .csv"),
        (["as-of", "2026-01-05T08:00Z", tmp_path / "then.csv", "--overwrite"], "only applies to --dataset"),
        (["as-of", "1h", tmp_path / "then", "--dataset", "--pseudonymize"], "cannot be combined with --dataset"),
    ):
        found = shell(*words)
        assert found.exit_code == 2, words
        assert expected_message in found.stderr


def test_errors_of_history_commands_are_one_line(shell, times, tmp_path):
    file = tmp_path / "then.csv"
    for words, expected_message in (
        (["history", "a", "--begin", "2020-01-01T00:00Z"], "before the start of the stored history, 2026-"),
        (["as-of", "2020-01-01T00:00Z", file], "before the start of the stored history, 2026-"),
        (["history", "nobody"], "nobody"),
        (["history", "a", "--begin", "9999999d"], "beyond the years 1 to 9999"),
        (["as-of", "9999999d", file], "beyond the years 1 to 9999"),
    ):
        found = shell(*words)
        assert (found.exit_code, len(found.stderr.splitlines())) == (1, 1), words
        assert expected_message in found.stderr
        assert "oldest_at" not in found.stderr, words
        assert found.stderr.count("or a later one") == ("stored history" in expected_message), words
    assert not file.exists()


def test_as_of_writes_the_fleet_at_an_instant(shell, times, tmp_path):
    at = f"{times[1]:%Y-%m-%dT%H:%M:%S}Z"
    for ending, read in (("parquet", pd.read_parquet), ("csv", pd.read_csv)):
        file = tmp_path / f"then.{ending}"
        result = shell("as-of", at, file, "--path", "/3303/*")
        assert result.exit_code == 0, result.output
        assert f"into {file}" in result.stderr
        assert read(file)["reported_num"].dropna().tolist() == [22.5]
    assert "wrote 0 rows of 0 devices" in shell("as-of", at, tmp_path / "fans.parquet", "--type", "Fan").stderr
    result = shell("as-of", at, tmp_path / "fleet", "--dataset")
    assert result.exit_code == 0, result.output
    assert pd.read_parquet(tmp_path / "fleet")["reported_num"].dropna().tolist() == [22.5]
    assert "--overwrite" in shell("as-of", at, tmp_path / "fleet", "--dataset").stderr
    assert shell("as-of", at, tmp_path / "fleet", "--dataset", "--overwrite").exit_code == 0
