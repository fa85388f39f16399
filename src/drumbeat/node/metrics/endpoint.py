"""The answers of a node's metrics endpoint, apart from HTTP: MLflow's routes, and `log` for `drumbeat.log`.

A write to a run of this node is answered once it is in the spool. Everything else is forwarded to the server.
"""

from __future__ import annotations

import io
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from threading import Lock
from typing import BinaryIO, cast
from urllib.parse import parse_qs, unquote, urlsplit

from drumbeat.model.agent import Enrolment
from drumbeat.model.failpoints import failpoint
from drumbeat.model.metric_lines import encode_record, point_from_wire
from drumbeat.model.metrics import (
    DEFAULT_EXPERIMENT_ALIAS,
    SET_EXPERIMENT,
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    Point,
    PointsLogged,
    RunCreated,
    TagsSet,
    experiment_id,
    run_id,
)
from drumbeat.model.mlflow_calls import (
    FULL,
    NO_MULTIPART,
    NO_ROUTE,
    NOT_IMPLEMENTED,
    SERVER_INFO,
    VERSION,
    MlflowArguments,
    MlflowRefusal,
    invalid,
)
from drumbeat.model.mlflow_runs import artifact_uri
from drumbeat.model.mlflow_writes import RUN_NAME, WRITE_RULES, MlflowWrite, created
from drumbeat.model.step_files import MAX_BYTES, is_step_file, step_file
from drumbeat.node.metrics import chosen_experiments
from drumbeat.node.metrics.artifacts import NodeArtifacts
from drumbeat.node.metrics.chosen_experiments import ChosenExperiments
from drumbeat.node.metrics.condition_states import ConditionPublisher
from drumbeat.node.metrics.early_copies import EarlyCopies
from drumbeat.node.metrics.forwarder import Forwarder
from drumbeat.node.metrics.http_messages import HttpAnswer, Read, json_answer
from drumbeat.node.metrics.mlflow_reads import Reads
from drumbeat.node.metrics.node_runs import NodeRuns
from drumbeat.node.metrics.spool import Spool, SpoolFullError
from drumbeat.node.platform.server_link import ServerLink

_API = "/api/2.0/mlflow/"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
_SERVERS = ("experiments/", "registered-models/", "model-versions/", "logged-models/", "logged-models", "metrics/")
"""Prefixes of the routes that only the server serves."""
_SERVERS_TOO = ("runs/get", "runs/search", "artifacts/list")
_MAX_MESSAGES = 10
"""The maximum number of messages in an answer about elements that aren't kept."""
_MAX_RECENT = 4096
_ONCE = (PointsLogged, InputsLogged, OutputsLogged)
"""Records that a client without an answer sends again unchanged, and that must not count twice."""


class MetricsEndpoint:
    """The endpoint of one node. Thread-safe.

    Points with the same name, value, step and time are one point, as in MLflow.
    """

    def __init__(
        self, enrolment: Enrolment, spool: Spool, forwarder: Forwarder, open_link: Callable[[], ServerLink]
    ) -> None:
        plan = enrolment.plan
        self._job, self._own_experiment = plan.job, experiment_id(plan.experiment)
        self._spool, self._lock = spool, Lock()
        job_run = RunCreated(
            run_id(plan.job), self._own_experiment, plan.job, time.time_ns() // 1_000_000, job=plan.job
        )
        self.runs = NodeRuns(job_run)
        self._experiments = ChosenExperiments(self._own_experiment)
        self._artifacts = NodeArtifacts(enrolment.root, f"{enrolment.root}/metrics/parts")
        self._early = EarlyCopies(plan.job, self._artifacts, open_link, forwarder.note)
        self._reads = Reads(self.runs, spool, forwarder, open_link, plan.experiment)
        self._recent: OrderedDict[int, None] = OrderedDict()
        """Hashes of lines that must not count twice, newest last."""
        self._begun: list[RunCreated] = []
        """Runs that began before this process: their clients may not have got an answer."""
        self._conditions = ConditionPublisher(enrolment)
        for _, record in spool.records():
            self._recall(record)
        self._conditions.take()

    def _recall(self, record: MetricRecord) -> None:
        self.runs.apply(record)
        if isinstance(record, RunCreated):
            self._begun.append(record)
        elif isinstance(record, _ONCE):
            self._is_new(encode_record(record))
        self._conditions.recall((record,))

    def _is_new(self, line: bytes) -> bool:
        digest = hash(line)
        with self._lock:
            if digest in self._recent:
                return False
            self._recent[digest] = None
            if len(self._recent) > _MAX_RECENT:
                self._recent.popitem(last=False)
            return True

    # --- requests -------------------------------------------------------------------------------------------------
    def answer(self, read: Read) -> HttpAnswer:
        """Returns the answer to any request but those for the content of an artifact. Raises MlflowRefusal."""
        path = urlsplit(read.path).path
        if path == "/version":
            return HttpAnswer(200, VERSION.encode(), "text/plain")
        if path == "/health":
            return HttpAnswer(200, b"OK", "text/plain")
        if path == "/log" and read.method == "POST":
            return self._log(read)
        if path == "/media" and read.method == "POST":
            return self._log_file(read)
        if path == "/api/3.0/mlflow/server-info":
            return json_answer(SERVER_INFO)
        if path.startswith("/api/2.0/mlflow-artifacts/mpu/"):
            raise MlflowRefusal(NOT_IMPLEMENTED, NO_MULTIPART)
        if path.startswith(_API):
            return self._mlflow(read)
        raise no_route(read.method, path)

    def _mlflow(self, read: Read) -> HttpAnswer:
        route = read.route
        if route in WRITE_RULES and read.method == "POST":
            return self._write(read)
        if route == "runs/create" and read.method == "POST":
            return self._create(read)
        if route == "artifacts/list":
            return self._list(read)
        if route in chosen_experiments.ROUTES:
            return self._experiments.answer(read, self._reads.answer)
        if route == "runs/get" and read.fields.get("run_id") == self.runs.job_run:
            return self._job_run(read)
        if route in _SERVERS_TOO or route.startswith(_SERVERS):
            return self._reads.answer(read)
        raise no_route(read.method, _API + route)

    def _job_run(self, read: Read) -> HttpAnswer:
        """Returns the job's run, in the experiment that the rank has set, which its client requires."""
        answer, name = self._experiments.shown(read.rank, self._reads.answer(read))
        if name and self.runs[self.runs.job_run].tags.get(SET_EXPERIMENT) != name:
            self.keep((TagsSet(self.runs.job_run, {SET_EXPERIMENT: name}),))
        return answer

    def _write(self, read: Read) -> HttpAnswer:
        arguments = _object(read.body)
        run = MlflowArguments(arguments).text("run_id", "run_uuid")
        if run not in self.runs:
            return self._reads.answer(read)  # The server knows the runs of other nodes.
        write = MlflowWrite(arguments, self.runs.rank_in(run, read.rank))
        written = WRITE_RULES[read.route](write, self.runs[run])
        if written.records:
            self.keep(written.records)
        if logged := [one for one in written.metrics if one.get("model_id")]:
            self._reads.keep_with_models(run, logged, read.rank)
        written.require_all()
        return json_answer({"run_info": self.runs.info(run)} if read.route == "runs/update" else {})

    def _create(self, read: Read) -> HttpAnswer:
        """Returns the new run; if a client repeats the request after the endpoint was killed, it is the earlier run."""
        write = MlflowWrite(_object(read.body))
        experiment = write.text_or("experiment_id") or DEFAULT_EXPERIMENT_ALIAS
        experiment = self._own_experiment if experiment == DEFAULT_EXPERIMENT_ALIAS else experiment
        record = created(write, experiment, self._job)
        with self._lock:
            again = next((one for one in self._begun if _is_same(one, record)), None)
            if again is not None:
                self._begun.remove(again)
        if again is None:
            self.keep((record,))
        return json_answer({"run": self.runs.view((again or record).run, 0)})

    def _log(self, read: Read) -> HttpAnswer:
        body = _object(read.body)
        points, rank = body.get("points"), body.get("rank", read.rank)
        if not isinstance(points, list) or not isinstance(rank, int):
            raise invalid("expected {points: [[name, value, step, at_ms], …], rank: N}")
        kept, refused = _storable_points(cast("list[object]", points))
        if kept:
            self.keep((PointsLogged(self.runs.job_run, rank, kept),))
        return json_answer({"refused": refused[:_MAX_MESSAGES]} if refused else {})

    def _log_file(self, read: Read) -> HttpAnswer:
        """Keeps a file of a step of the job's run, which `drumbeat.log` sends."""
        words = {key: values[0] for key, values in parse_qs(urlsplit(read.path).query).items()}
        if len(read.body) > MAX_BYTES:
            raise invalid(f"A file of a step has at most {MAX_BYTES >> 20} MiB.")
        try:
            step, at_ms, index = (int(words[key]) for key in ("step", "at_ms", "index"))
            source = f"{int(words.get('rank', read.rank))}-{index}"
            name = step_file(words["kind"], words["name"], step, at_ms, source, words["ending"])
        except (KeyError, ValueError) as error:
            raise invalid(f"expected kind, name, step, at_ms, index, ending: {error}") from None
        self._keep_artifact(self.runs.job_run, name, io.BytesIO(read.body))
        return json_answer({})

    def end(self) -> None:
        """Ends what runs beside the answers."""
        self._early.end()

    def keep(self, records: Sequence[MetricRecord]) -> None:
        """Adds records to the spool; returns when they are on disk. Raises MlflowRefusal."""
        pairs = [(encode_record(record), record) for record in records]
        new = [(line, record) for line, record in pairs if not isinstance(record, _ONCE) or self._is_new(line)]
        try:
            # Even if all are here already, the sync of their first writer may still be running.
            self._spool.append(b"".join(line for line, _ in new))
        except SpoolFullError as error:
            with self._lock:
                for line, _ in new:
                    self._recent.pop(hash(line), None)
            raise MlflowRefusal(FULL, f"drumbeat keeps no more metrics on this node: {error}") from None
        failpoint("metrics.spooled")
        for _, record in new:
            self.runs.apply(record)
        self._conditions.take(record for _, record in new)

    # --- artifacts ------------------------------------------------------------------------------------------------
    def put_artifact(self, read: Read, body: BinaryIO) -> HttpAnswer:
        """Stores an artifact of a run of this node; the server stores others. Raises MlflowRefusal."""
        place = self._own_place(read)
        if place is None:
            return self._reads.answer(Read(read.method, read.path, body.read(), read.content_type, read.rank))
        self._keep_artifact(*place, body)
        return json_answer({})

    def _keep_artifact(self, run: str, name: str, body: BinaryIO) -> None:
        self._artifacts.keep(run, name, body)
        if is_step_file(name):
            self._early.add(run, name)

    def artifact(self, read: Read) -> tuple[BinaryIO, int, str] | HttpAnswer:
        """Returns an artifact of this node as file, size and type, or the server's answer. Raises MlflowRefusal."""
        place = self._own_place(read)
        if place is not None:
            try:
                return self._artifacts.open(*place)
            except FileNotFoundError:
                pass
        return self._reads.answer(read)

    def remove_artifact(self, read: Read) -> HttpAnswer:
        """Removes an artifact on this node, or at the server. Raises MlflowRefusal."""
        place = self._own_place(read)
        if place is not None:
            try:
                self._artifacts.remove(*place)
            except FileNotFoundError:
                pass
            else:
                if not is_step_file(place[1]):  # The server may have such a file already.
                    return json_answer({})
        return self._reads.answer(read)

    def _own_place(self, read: Read) -> tuple[str, str] | None:
        """Returns run and path of an artifact of a run of this node, else None."""
        place = self._place(unquote(urlsplit(read.path).path.removeprefix(ARTIFACTS)))
        return place if place and place[1] else None

    def _place(self, path: str) -> tuple[str, str] | None:
        run, _, rest = path.strip("/").partition("/")
        folder, _, name = rest.partition("/")
        return (run, name) if run in self.runs and folder == "artifacts" else None

    def list_folder(self, read: Read) -> HttpAnswer:
        """Returns the files of one folder, for the artifacts' route rather than the run's. Raises MlflowRefusal."""
        place = self._place(parse_qs(urlsplit(read.path).query).get("path", [""])[0])
        own = self._artifacts.files(*place) if place else []
        files = [{**one, "path": one["path"].rpartition("/")[2]} for one in own]
        return self._merged(read, {"files": files}, is_known=place is not None)

    def _list(self, read: Read) -> HttpAnswer:
        run = str(read.fields.get("run_id") or read.fields.get("run_uuid") or "")
        files = self._artifacts.files(run, str(read.fields.get("path") or "")) if run in self.runs else []
        return self._merged(read, {"root_uri": artifact_uri(run), "files": files}, is_known=run in self.runs)

    def _merged(self, read: Read, own: JsonObject, *, is_known: bool) -> HttpAnswer:
        """Adds the server's list; entries that only the server knows can't be listed without it."""
        try:
            answer = self._reads.answer(read)
        except MlflowRefusal:
            if not is_known:
                raise
            return json_answer(own)
        if answer.status != 200:
            return json_answer(own) if is_known else answer
        theirs = _object(answer.body)
        by_path = {one["path"]: one for one in [*theirs.get("files", []), *own["files"]]}
        return json_answer({**own, **theirs, "files": [by_path[path] for path in sorted(by_path)]})


def no_route(method: str, path: str) -> MlflowRefusal:
    """Returns the refusal of an unsupported route."""
    kind = "traces" if "traces" in path else "the AI gateway" if "gateway" in path else f"{method} {path}"
    what = f"drumbeat's MLflow endpoint doesn't support {kind}: it keeps runs, metrics and models."
    return MlflowRefusal(NO_ROUTE, what)


def _storable_points(points: list[object]) -> tuple[tuple[Point, ...], list[str]]:
    """Returns points given as lists of name, value, step, at_ms, and messages about those that aren't kept."""
    kept: list[Point] = []
    refused: list[str] = []
    for one in points:
        try:
            kept.append(point_from_wire(one))
        except ValueError as error:
            refused.append(f"a metric is not kept: {one!r:.80}: {error}")
    return tuple(kept), refused


def _is_same(one: RunCreated, other: RunCreated) -> bool:
    return _facts(one) == _facts(other)


def _facts(record: RunCreated) -> JsonObject:
    """Returns the facts that a client repeats about a run: neither the run's id nor a name derived from it."""
    facts = {**asdict(record), "run": ""}
    if record.name == f"run-{record.run[:8]}":
        facts |= {"name": "", "tags": {**record.tags, RUN_NAME: ""}}
    return facts


def _object(body: bytes) -> JsonObject:
    try:
        value: object = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise invalid("The body of the request is not valid JSON.") from None
    if not isinstance(value, dict):
        raise invalid("The body of the request is not a JSON object.")
    return cast("JsonObject", value)
