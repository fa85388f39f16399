"""What 0.2 says and leaves on disk says the same to this version: golden files of every wire type.

A class that moved or got another name changes its line in `CLASSES` or `RENAMED`, and nothing else here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from drumbeat.client.discovery import ServerAddress
from drumbeat.core.lifecycle import events, job
from drumbeat.model import agent, input_listing, preflight, stacks, supervisor, wire
from drumbeat.model.api import (
    components,
    computes,
    data,
    environments,
    jobs,
    ledger,
    metrics,
    nodes,
    notices,
    page,
    pipelines,
    requests,
    server,
    sessions,
    space,
    sweeps,
    users,
)
from drumbeat.model.api import stacks as api_stacks
from drumbeat.model.metric_lines import decode_record, encode_record
from drumbeat.node.platform.gpu_readings import GpuReading
from drumbeat.node.supervisor.round_records import Records
from drumbeat.server.home_folder.output_folder import OutputManifest
from tests.support.golden import FOLDER, differences

pytestmark = pytest.mark.feature("U2")

CLASSES: tuple[Any, ...] = (
    # What agents and the server say to each other.
    agent.AgentStatus,
    agent.Directive,
    agent.Enrolment,
    input_listing.Listing,
    input_listing.Link,
    stacks.NodeFacts,
    # What lies on nodes, and what agents and supervisors say to each other.
    supervisor.SupervisorState,
    supervisor.NodeTaskRequest,
    supervisor.NodeTaskResult,
    preflight.NodeCheck,
    agent.NodeMessage,
    GpuReading,
    ServerAddress,
    OutputManifest,
    # What lies in databases.
    job.Job,
    events.JobEvent,
    events.StartGang,
    events.StopGang,
    events.KeepEvents,
    events.PublishOutputs,
    events.ProposeTrials,
    events.SubmitChild,
    events.CancelChild,
    events.SendNotice,
    events.StatusReported,
    events.CancelRequested,
    events.ValueLogged,
    events.CheckpointSaved,
    # The API of clients.
    components.ComponentView,
    computes.ComputeView,
    computes.AliasView,
    data.DatastoreView,
    data.DataView,
    data.EntryView,
    data.ListingView,
    data.Written,
    environments.EnvironmentView,
    environments.RegistryView,
    jobs.JobWithEvents,
    jobs.JobPage,
    jobs.PreviewView,
    jobs.LogPage,
    jobs.End,
    jobs.FileView,
    ledger.LedgerView,
    metrics.MetricsView,
    metrics.CurveView,
    metrics.JobCurveView,
    metrics.HistoryView,
    metrics.ComparisonView,
    metrics.ExperimentView,
    nodes.NodeProcesses,
    notices.NoticeTargetView,
    page.PageLinkView,
    page.PageSessionView,
    page.JobChanges,
    page.DefinitionView,
    users.TokenView,
    users.NewToken,
    users.QuotaView,
    users.UsesView,
    pipelines.PipelineView,
    requests.StepParts,
    requests.JobRequest,
    server.ErrorView,
    server.VersionView,
    server.StatusView,
    server.ServerView,
    sessions.SessionView,
    sessions.ServiceLinkView,
    space.Usage,
    space.Freed,
    space.Retention,
    api_stacks.NodeStacks,
    sweeps.SweepView,
)
BODIES = (users.HalfLife, users.QuotaLimits, users.TokenRequest, sessions.SessionStartRequest)
"""Of requests, which the server has pydantic read."""
RENAMED: dict[str, Any] = {
    "WrittenView": data.Written,
    "KeeperState": supervisor.SupervisorState,
    "Manifest": OutputManifest,
    "ErrandRequest": supervisor.NodeTaskRequest,
    "ErrandResult": supervisor.NodeTaskResult,
    "StoryEntry": events.JobEvent,
    "KeepStory": events.KeepEvents,
    "AgentSaid": events.StatusReported,
    "Remark": agent.NodeMessage,
    "JobWithStory": jobs.JobWithEvents,
}
"""By the name that 0.2 has for it, today's class."""

BY_NAME = {one.__name__: one for one in (*CLASSES, *BODIES)} | RENAMED
ROOMS = ("agents", "node_files", "records", "api")


def read(room: str) -> dict[str, Any]:
    """The documents of a golden file by the names of their classes."""
    return json.loads((FOLDER / "wire" / f"{room}.json").read_text(encoding="utf-8"))


def documents() -> Iterator[Any]:
    for room in ROOMS:
        for name, document in read(room).items():
            if isinstance(document, dict):
                yield pytest.param(name, document, id=f"{room}-{name}")


@pytest.mark.parametrize(("name", "document"), list(documents()))
def test_document_of_version_0_2_says_the_same(name: str, document: dict[str, Any]):
    kind = BY_NAME[name]
    value = TypeAdapter(kind).validate_python(document) if kind in BODIES else wire.from_wire(kind, document)
    assert list(differences(document, wire.to_wire(value))) == []


def test_requests_of_agent_of_version_0_2_are_read_by_supervisor():
    for document in read("node_files")["requests"]:
        request = supervisor.decode_request(json.dumps(document).encode())
        assert request is not None, document
        assert list(differences(document, json.loads(supervisor.encode_request(request)))) == []


def test_spool_of_version_0_2_is_read():
    lines: list[str] = read("node_files")["spool"]
    assert [encode_record(decode_record(line.encode())).decode().rstrip() for line in lines] == lines


def test_records_of_supervisor_of_version_0_2_are_read(tmp_path: Path):
    files = read("node_files")
    for name in ("round.json", "exits.jsonl"):
        (tmp_path / name).write_text(files[name], encoding="utf-8")
    records = Records(str(tmp_path))
    assert list(differences(json.loads(files["round.json"]), records.read_round())) == []
    written = [json.loads(line) for line in files["exits.jsonl"].splitlines() if line]
    read_back = [{"round": 3, **supervisor.exit_to_wire(one)} for one in records.read_exits(3)]
    assert list(differences(written, read_back)) == []


def test_missing_and_changed_values_of_a_golden_document_are_named():
    golden = {"same": [1, {"gone": 2}], "changed": 1}
    assert list(differences(golden, {"same": [1, {}], "changed": True, "new": 3})) == [
        ".same[1].gone: 2 is missing",
        ".changed: was 1, is True",
    ]
