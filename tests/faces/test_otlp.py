"""Traces of jobs, stories and the server's log arrive at a collector by OTLP."""

from __future__ import annotations

import gzip
import http.server
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from drumbeat.server.operations.opentelemetry import OtlpSender

from .api_house import House, house_in

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="pip install 'drumbeat[otel]'")

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

pytestmark = [pytest.mark.feature("M5"), pytest.mark.xdist_group("test_otlp")]


class Collector(http.server.ThreadingHTTPServer):
    """An OTLP receiver: it keeps spans and log records as they come."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[Any] = []
        self.records: list[Any] = []
        self.arrived = threading.Condition()

    def wait_for(self, condition: Any) -> None:
        with self.arrived:
            assert self.arrived.wait_for(condition, timeout=60), "it didn't arrive"


class Receiver(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer = self._take(body).SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _take(self, body: bytes) -> Any:
        with self.server.arrived:
            if self.path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(body)
                self.server.spans += [one for r in request.resource_spans for s in r.scope_spans for one in s.spans]
                answer: Any = ExportTraceServiceResponse()
            else:
                logs = ExportLogsServiceRequest.FromString(body)
                self.server.records += [one for r in logs.resource_logs for s in r.scope_logs for one in s.log_records]
                answer = ExportLogsServiceResponse()
            self.server.arrived.notify_all()
            return answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield there
        there.shutdown()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, collector: Collector) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch, house_in(tmp_path_factory.mktemp("house")) as there:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        patch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "100")
        sender = OtlpSender(f"http://127.0.0.1:{collector.server_port}", there.control)
        sender.start()
        yield there
        sender.stop()


def attributes(one: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in one.attributes}


def trace_of(collector: Collector, job: str) -> list[Any]:
    """The spans of a job, its own first, once they have all come: they are sent at once."""

    def roots() -> list[Any]:
        return [one for one in collector.spans if one.name == f"job {job}"]

    collector.wait_for(roots)
    own = roots()[0]
    return [own, *(one for one in collector.spans if one.trace_id == own.trace_id and one is not own)]


def test_job_that_fails_is_a_trace_of_its_attempts_rounds_and_classes(house: House, collector: Collector) -> None:
    house.submit("failed", experiment_name="traced")
    house.finish("failed", code=3)
    own, *spans = trace_of(collector, "failed")
    names = [one.name for one in spans]
    assert {"attempt 1", "round 1", "queue", "lost", "stage"} <= set(names)
    assert (own.parent_span_id, own.status.code) == (b"", 2)
    assert "exit code 3" in own.status.message
    assert attributes(own)["drumbeat.experiment"] == "traced"
    by_id = {one.span_id: one for one in [own, *spans]}
    assert all(one.parent_span_id in by_id for one in spans)
    (lost,) = (one for one in spans if one.name == "lost")
    assert by_id[lost.parent_span_id].name == "round 1"
    assert own.start_time_unix_nano <= lost.start_time_unix_nano < lost.end_time_unix_nano <= own.end_time_unix_nano


def test_every_event_is_a_record_in_the_trace_of_its_job(house: House, collector: Collector) -> None:
    house.submit("told")
    house.finish("told")
    own = trace_of(collector, "told")[0]
    sentences = [line.sentence for line in house.control.store.events("told")][1:]

    def records() -> list[Any]:
        return [one for one in collector.records if attributes(one).get("drumbeat.job") == "told"]

    collector.wait_for(lambda: len(records()) == len(sentences))
    assert [one.body.string_value for one in records()] == sentences
    assert {one.trace_id for one in records()} == {own.trace_id}


def test_children_are_in_the_trace_of_their_parent(house: House, collector: Collector) -> None:
    house.submit("parent")
    house.submit_part("child", "parent")
    with house.engine.changed:
        assert house.engine.changed.wait_for(lambda: "child.1" in house.engine.gangs, timeout=60)
    house.finish("child")
    house.finish("parent")
    own, *spans = trace_of(collector, "parent")
    child = next(one for one in spans if one.name == "job child")
    assert child.parent_span_id == own.span_id


def test_log_of_the_server_is_sent_with_its_errors(house: House, collector: Collector) -> None:
    try:
        raise ValueError("out of sorts")
    except ValueError:
        logging.getLogger("drumbeat.test").exception("a test wrote %s", "this")

    def found() -> list[Any]:
        return [one for one in collector.records if one.body.string_value == "a test wrote this"]

    collector.wait_for(found)
    assert found()[0].severity_text == "ERROR"
    assert "ValueError: out of sorts" in attributes(found()[0])["exception.stacktrace"]


def test_collector_that_is_away_delays_no_job(tmp_path_factory: pytest.TempPathFactory) -> None:
    with house_in(tmp_path_factory.mktemp("house")) as house:
        sender = OtlpSender("http://127.0.0.1:9", house.control)
        sender.start()
        house.submit("a")
        house.finish("a")
        assert house.control.store.load("a").job.state == "completed"
        sender.stop()
