"""The plugin leaves alone who does not use it, and says what is missing to who does."""

import json

import pytest

HEAVY = {"flask", "mirror_server", "pandas", "pyarrow", "sqlalchemy", "alembic", "uvicorn", "orjson", "numpy"}


def test_the_plugin_is_found_and_loads_nothing_heavy(pytester: pytest.Pytester, run_project) -> None:
    pytester.makepyfile(
        """
        import json, sys

        def test_modules(pytestconfig):
            assert pytestconfig.pluginmanager.get_plugin("mirror") is sys.modules["mirror_sdk.testing.plugin"]
            print("LOADED", json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
        """
    )
    result = run_project("-q", "-s")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if line.startswith("LOADED")]
    assert set(json.loads(line.removeprefix("LOADED"))) & HEAVY == set()


def test_a_project_keeps_its_own_fixtures_of_these_names(pytester: pytest.Pytester, run_project) -> None:
    pytester.makeconftest("import pytest\n@pytest.fixture\ndef clock():\n    return 'theirs'")
    pytester.makepyfile("def test_clock(clock):\n    assert clock == 'theirs'")
    run_project("-q").assert_outcomes(passed=1)


def test_tests_are_collected_as_ever(pytester: pytest.Pytester, run_project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_HOST", "http://127.0.0.1:9")
    monkeypatch.setenv("API_KEY", "key")
    pytester.makepyfile("def test_own():\n    pass")
    run_project("-q").assert_outcomes(passed=1)


def test_without_the_server_a_fixture_says_what_to_install(pytester: pytest.Pytester, run_project) -> None:
    pytester.makeconftest("import sys\nsys.modules['flask'] = None")
    pytester.makepyfile("def test_one(mirror):\n    pass")
    result = run_project("-q")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ['*ImportError: mirror_sdk.testing runs the server: pip install "device-state-mirror?server?"']
    )


def test_the_options_are_described(pytester: pytest.Pytester, run_project) -> None:
    result = run_project("--help")
    for option in ["--mirror-url=URL", "--mirror-key=KEY", "--mirror-device=ID"]:
        assert option in result.stdout.str()


def test_each_test_has_a_mirror_of_its_own(pytester: pytest.Pytester, run_project) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_devices(mirror, fleet, number):
            assert list(mirror.client.list_devices()) == []
            assert [device.endpoint_name for device in fleet(2)] == ["thermometer-01", "weather-station-01"]
        """
    )
    run_project("-q").assert_outcomes(passed=2)


def test_the_conformance_tests_say_when_no_server_is_named(run_project) -> None:
    result = run_project("-q", "--pyargs", "mirror_sdk.testing.conformance")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "API_HOST" in result.stdout.str() + result.stderr.str()
    assert "--mirror-url" in result.stdout.str() + result.stderr.str()


def test_the_conformance_tests_say_when_nobody_answers(run_project) -> None:
    result = run_project("-q", "--mirror-url=http://127.0.0.1:9", "--mirror-key=key")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "http://127.0.0.1:9" in result.stdout.str() + result.stderr.str()
