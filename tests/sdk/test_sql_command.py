"""mirror sql: its output formats, its files and its prompt."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from client_test_data import SENSOR
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from mirror_sdk.cli import main
from mirror_sdk.cli.sql_prompt import QueryCompleter, prompt
from mirror_sdk.errors import InvalidValue

QUERY = "select endpoint_name, reported_num, attributes from state join devices using (endpoint_name) order by all"


@pytest.fixture
def sensors(simulator, client):
    for number in range(2):
        simulator.add_device(f"sensor-{number}", [SENSOR])
    client.devices.update("sensor-1", attributes={"site": "Köln"})


def test_result_is_printed_or_written(shell, sensors, tmp_path):
    assert "sensor-1" in shell("sql", QUERY).stdout
    assert '{"site": "Köln"}' in shell("sql", QUERY).stdout
    row = json.loads(shell("sql", QUERY, "--json").stdout)[1]
    assert (row["endpoint_name"], row["attributes"]) == ("sensor-1", {"site": "Köln"})
    assert [row["endpoint_name"] for row in csv.DictReader(io.StringIO(shell("sql", QUERY, "--csv").stdout))] == [
        "sensor-0",
        "sensor-1",
    ]
    written = shell("sql", QUERY, "--parquet", tmp_path / "state.parquet")
    assert written.stderr == f"wrote 2 rows into {tmp_path / 'state.parquet'}\n"
    assert pq.read_table(tmp_path / "state.parquet")["endpoint_name"].to_pylist() == ["sensor-0", "sensor-1"]
    assert "path=/3303/*" in shell("sql", "from state where path like '/3303/%'", "--explain").stdout
    for arguments in ([], ["-"]):
        result = CliRunner().invoke(main, ["sql", "--csv", *arguments], input="select 1 as one")
        assert result.stdout == "one\n1\n"


def test_errors_of_a_query(shell, sensors, tmp_path):
    failed = shell("sql", "select pth from state")
    assert failed.exit_code == 1
    expected = "Error: there is no column 'pth'; similar: path\n\nLINE 1: select pth from state\n               ^"
    assert failed.stderr.rstrip("^\n") == expected.rstrip("^")
    assert "pass a larger --max-rows" in shell("sql", "from state", "--max-rows", 1).stderr
    assert shell("sql", "from state", "--csv", "--parquet", tmp_path / "x.parquet").exit_code == 2


def completions(completer, text):
    return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]


def test_completion_of_names(plain, sensors):
    completer = QueryCompleter(plain)
    assert completions(completer, "from hist") == ["history"]
    assert completions(completer, "select endpoint_") == ["endpoint_name", "endpoint_type"]
    assert completions(completer, "SEL") == ["select"]
    assert completions(completer, "from state where endpoint_name = 'sensor") == ["sensor-0", "sensor-1"]
    assert completions(completer, "from state where path = '/3303/") == ["/3303/0/5700"]
    assert completions(completer, "from state where path = '/3303/0/5700' ") == []
    assert completions(completer, "from devices where attributes['s") == ["site"]


def test_prompt_runs_each_query(plain, capsys):
    queries = []

    def run(query):
        queries.append(query)
        if query == "wrong;":
            raise InvalidValue("it is wrong")
        if query == "full;":
            raise OSError("the disk is full")

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("help\nfrom state\nwhere true;\nwrong;\nfull;\nselect 1\n\nexit\n")
        prompt(plain, run)
    assert queries == ["from state\nwhere true;", "wrong;", "full;", "select 1"]
    printed = capsys.readouterr()
    assert "The tables are devices, state" in printed.out
    assert printed.err == "Error: it is wrong\nError: the disk is full\n"
