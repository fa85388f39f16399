"""Sends traces of jobs, their events and the server's log to an OpenTelemetry collector by OTLP over HTTP.

Only this module imports OpenTelemetry's packages, and it is imported only if a collector is configured. Data that can't
be sent is dropped. The control loop only puts a reference into a queue.
"""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from opentelemetry._logs import LogRecord as OtelRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, set_span_in_context

from drumbeat._version import __version__
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError, NotFoundError
from drumbeat.server.control import Control
from drumbeat.server.loop.loop import Applied
from drumbeat.server.operations.job_trace import SpanDraft, TraceOrigin, job_attributes, job_spans

MAX_WAITING = 10_000
"""Maximum number of pending changes of jobs; further ones are dropped."""
_SHUTDOWN_S = 2.0
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SEVERITIES = {
    logging.DEBUG: SeverityNumber.DEBUG,
    logging.INFO: SeverityNumber.INFO,
    logging.WARNING: SeverityNumber.WARN,
    logging.ERROR: SeverityNumber.ERROR,
    logging.CRITICAL: SeverityNumber.FATAL,
}
_OWN_LOGGERS = ("opentelemetry", "urllib3", "requests")
"""Loggers of the exporter itself, whose records are not sent."""

log = logging.getLogger(__name__)


class OtlpSender(logging.Handler):
    """Sends changes of jobs and the server's log to the collector at `endpoint`, such as `http://host:4318`.

    OpenTelemetry's variables (OTEL_EXPORTER_OTLP_…) set headers, certificates, timeouts and compression.
    """

    def __init__(self, endpoint: str, control: Control) -> None:
        super().__init__(logging.INFO)
        base = endpoint.rstrip("/")
        self._control = control
        self._resource = Resource.create(
            {"service.name": "drumbeat", "service.version": __version__, "host.name": socket.gethostname()}
        )
        self._spans = BatchSpanProcessor(OTLPSpanExporter(f"{base}/v1/traces"))
        self._logs = LoggerProvider(self._resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{base}/v1/logs")))
        self._queue: queue.Queue[Applied | None] = queue.Queue(MAX_WAITING)
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)

    def start(self) -> None:
        """Begins to send the server's log and changes of jobs."""
        logging.getLogger().addHandler(self)
        self._control.loop.observers.append(self.note)
        self._thread.start()

    def stop(self) -> None:
        """Sends pending data, for at most two seconds each."""
        logging.getLogger().removeHandler(self)
        self._control.loop.observers.remove(self.note)
        self._put(None)
        self._thread.join(_SHUTDOWN_S)
        for close in (self._spans.shutdown, self._logs.shutdown):
            thread = threading.Thread(target=close, name="otlp shutdown", daemon=True)
            thread.start()
            thread.join(_SHUTDOWN_S)

    def note(self, applied: Applied) -> None:
        """Queues a change of a job on the loop's thread; another thread reads and sends it."""
        if applied.events or applied.job.state.is_terminal:
            self._put(applied)

    def _put(self, item: Applied | None) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            return

    def _run(self) -> None:
        while (applied := self._queue.get()) is not None:
            try:
                self._send(applied)
            except DrumbeatError as error:
                log.warning("the trace of job %s was not sent: %s", applied.job.name, error)
            except Exception:
                log.exception("the trace of job %s was not sent", applied.job.name)

    def _send(self, applied: Applied) -> None:
        job, origin = applied.job, self._origin(applied.job)
        context = SpanContext(origin.trace_id, _own(job).span_id(""), is_remote=False, trace_flags=_SAMPLED)
        for line in applied.events:
            self._send_line(job, line, context)
        if job.state.is_terminal and not applied.before.state.is_terminal:
            for draft in job_spans(job, self._control.store.events(job.name), job.ended_at or applied.at):
                self._spans.on_end(self._span(job, origin, draft))

    def _origin(self, job: Job) -> TraceOrigin:
        """Returns the outermost parent of a job, because parents and children share a trace."""
        while job.parent:
            try:
                job = self._control.loop.record(job.parent).job
            except NotFoundError:
                break
        return _own(job)

    def _span(self, job: Job, origin: TraceOrigin, draft: SpanDraft) -> ReadableSpan:
        own = _own(job)

        def context(span_id: int) -> SpanContext:
            return SpanContext(origin.trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)

        parent = context(own.span_id(draft.parent)) if draft.key else self._parent(job, context)
        return ReadableSpan(
            draft.name,
            context(own.span_id(draft.key)),
            parent,
            self._resource,
            attributes=draft.attributes,
            status=Status(StatusCode.ERROR, draft.error) if draft.error else Status(StatusCode.OK),
            start_time=_ns(draft.start),
            end_time=_ns(draft.end),
            instrumentation_scope=InstrumentationScope("drumbeat", __version__),
        )

    def _parent(self, job: Job, context: Callable[[int], SpanContext]) -> SpanContext | None:
        if not job.parent:
            return None
        try:
            return context(_own(self._control.loop.record(job.parent).job).span_id(""))
        except NotFoundError:
            return None

    def _send_line(self, job: Job, line: JobEvent, context: SpanContext) -> None:
        severity = SeverityNumber.ERROR if line.state == "failed" else SeverityNumber.INFO
        attributes = {**job_attributes(job), "drumbeat.state": line.state.value, "drumbeat.reason": line.reason.value}
        self._logs.get_logger("drumbeat.story").emit(
            OtelRecord(
                timestamp=_ns(line.at),
                observed_timestamp=_ns(datetime.now(UTC)),
                context=set_span_in_context(NonRecordingSpan(context)),
                severity_number=severity,
                severity_text=severity.name,
                body=line.sentence,
                attributes=attributes,
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Sends a record of the server's log."""
        if record.name.startswith(_OWN_LOGGERS):
            return
        attributes = {"thread.name": record.threadName or "", "code.function.name": record.funcName}
        if record.exc_info:
            attributes["exception.stacktrace"] = (logging.Formatter().formatException(record.exc_info))[:20_000]
        self._logs.get_logger(record.name).emit(
            OtelRecord(
                timestamp=int(record.created * 1e9),
                observed_timestamp=int(record.created * 1e9),
                severity_number=_SEVERITIES.get(record.levelno, SeverityNumber.INFO),
                severity_text=record.levelname,
                body=record.getMessage(),
                attributes=attributes,
            )
        )


def _own(job: Job) -> TraceOrigin:
    return TraceOrigin(job.name, job.submitted_at)


def _ns(at: datetime) -> int:
    return int(at.timestamp() * 1e9)
