"""The Ray jobs that start and end a gang, and their files. Pure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drumbeat.engines.agent_archive import AgentArchive
from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.ray.names import NAMESPACE, START, job_name
from drumbeat.jobfile.compute.ray import RayCompute
from drumbeat.ports.engines import Gang

PROGRAM, SURVEY_PROGRAM = "gang_program.py", "survey_program.py"
Json = dict[str, Any]


def bundles(spec: RayCompute, gang: Gang) -> list[dict[str, float]]:
    """The resources that each node reserves on its machine."""
    return [
        {
            "CPU": max(spec.cpus_per_node or 1, slot.cpus),
            **({"GPU": len(slot.gpus)} if slot.gpus else {}),
            **spec.resources,
        }
        for slot in gang.slots
    ]


def description(spec: RayCompute, gang: Gang, name: str) -> Json:
    """The gang as the program reads it, without its enrolments."""
    return {
        "name": name,
        "namespace": NAMESPACE,
        "strategy": "PACK" if spec.share_machines else "STRICT_SPREAD",
        "bundles": bundles(spec, gang),
        "python": spec.python,
    }


def start_files(spec: RayCompute, gang: Gang, name: str, archive: AgentArchive) -> dict[str, bytes]:
    """The files of the job that starts a gang, with its enrolments."""
    checkpoints = f"{spec.folder.rstrip('/')}/jobs/{name.rpartition('.')[0]}/checkpoints"
    texts = [enrolment(gang, slot.node, root="", checkpoints=checkpoints) for slot in gang.slots]
    return _files({**description(spec, gang, name), "enrolments": texts}, archive)


def stop_files(spec: RayCompute, name: str, archive: AgentArchive) -> dict[str, bytes]:
    """The files of the job that ends a gang."""
    return _files({"name": name, "namespace": NAMESPACE, "python": spec.python}, archive)


def _files(described: Json, archive: AgentArchive) -> dict[str, bytes]:
    program = Path(__file__).with_name(PROGRAM).read_bytes()
    return {PROGRAM: program, "gang.json": json.dumps(described).encode(), "agent.pyz": archive.content}


def gang_job(name: str, verb: str, number: int, package: str) -> Json:
    """The request for the job that starts or ends a gang. package: the URI of its files."""
    return _job(job_name(name, verb, number), f"{PROGRAM} {verb}", package)


def survey_job(name: str, package: str) -> Json:
    """The request for the job that reads the autoscaler's settings."""
    return _job(name, SURVEY_PROGRAM, package)


def survey_files() -> dict[str, bytes]:
    """The files of the job that reads the autoscaler's settings."""
    return {SURVEY_PROGRAM: Path(__file__).with_name(SURVEY_PROGRAM).read_bytes()}


def _job(submission: str, program: str, package: str) -> Json:
    return {
        "submission_id": submission,
        "entrypoint": f"python3 -u {program}",
        "runtime_env": {"working_dir": package},
        "metadata": {"by": "drumbeat"},
    }


def rendered(spec: RayCompute, gang: Gang, name: str) -> str:
    """The text that `drumbeat plan` prints: the job, and the gang that it starts."""
    job = gang_job(name, START, 1, "gcs://<package>")
    return json.dumps({"POST /api/jobs/": job, "gang.json": description(spec, gang, name)}, indent=2) + "\n"
