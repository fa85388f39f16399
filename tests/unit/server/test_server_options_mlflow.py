import pytest

from drumbeat.server.options import parse

pytestmark = pytest.mark.feature("M2")


def test_mlflow_server_comes_from_an_option_or_the_environment(monkeypatch):
    monkeypatch.delenv("DRUMBEAT_MLFLOW", raising=False)
    assert parse([]).mlflow == ""
    monkeypatch.setenv("DRUMBEAT_MLFLOW", "http://a")
    assert parse([]).mlflow == "http://a"
    assert parse(["--mlflow", "http://b"]).mlflow == "http://b"
