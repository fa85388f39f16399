"""The server's log as JSON."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from drumbeat.server.options import parse
from drumbeat.server.process.serve import JsonFormatter


@pytest.mark.feature("M5")
def test_each_record_is_one_line_of_json():
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        record = logging.LogRecord("drumbeat.x", logging.ERROR, "x.py", 1, "job %s\nis gone", ("ü",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    shown = json.loads(line)
    assert (shown["level"], shown["logger"], shown["message"]) == ("error", "drumbeat.x", "job ü\nis gone")
    assert shown["at"].endswith("+00:00")
    assert "ValueError: first\nsecond" in shown["exception"]


def test_options_of_log_and_collector_come_from_the_environment_or_the_command_line(monkeypatch: pytest.MonkeyPatch):
    assert (parse([]).log_format, parse([]).otlp) == ("text", "")
    monkeypatch.setenv("DRUMBEAT_LOG_FORMAT", "json")
    monkeypatch.setenv("DRUMBEAT_OTLP", "http://collector:4318")
    assert (parse([]).log_format, parse([]).otlp) == ("json", "http://collector:4318")
    assert parse(["--log-format", "text", "--otlp", "http://x"]).otlp == "http://x"
    with pytest.raises(SystemExit):
        parse(["--log-format", "xml"])
