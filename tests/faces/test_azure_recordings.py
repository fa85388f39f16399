"""Recorded requests of Azure's own client, three releases, played against the API (`python -m tools.record_azure`)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.resources.aliases import set_alias
from tests.faces.azure_house import AzureHouse, azure_house
from tools.record_azure import PRESENT_KEY

GOLDEN = Path(__file__).parents[1] / "golden" / "azure"
VERSIONS = ("1.25.0", "1.30.0", "1.35.2")

pytestmark = pytest.mark.feature("A1")


def played(house: AzureHouse, line: dict[str, Any]) -> tuple[int, str]:
    headers = dict(line.get("headers", {}))
    query = line["query"]
    if blob := re.match(r"/blob/ws/([^/]+)", line["path"]):
        query = "&".join(filter(None, (query, house.sas(blob[1]))))
    elif line["path"] not in ("/metadata/endpoints", "/discovery"):
        headers |= house.bearer()
    given = line.get("json")
    if isinstance(given, dict) and given.get("keyValue") == PRESENT_KEY:
        keys = line["path"].replace("regenerateKeys", "listKeys")
        present = house.http.post(keys, headers=headers).json()[f"{given['keyType'].lower()}Key"]
        given = {**given, "keyValue": present}
    body = json.dumps(given).encode() if "json" in line else line.get("text", "").encode()
    answer = house.http.request(line["method"], f"{line['path']}?{query}", headers=headers, content=body)
    return answer.status_code, answer.text


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_requests_get_their_status_and_jobs_are_the_same_documents(version, tmp_path, request):
    lines = [json.loads(line) for line in (GOLDEN / f"{version}.jsonl").read_text().splitlines()]
    with azure_house(tmp_path) as house:
        set_alias(house.control.store, "compute", "cpu-cluster", "local")
        set_alias(house.control.store, "environment", "toy-env", "current")
        different: list[tuple[object, ...]] = []
        for line in lines:
            status, text = played(house, line)
            if status != line["status"]:
                different.append((line["method"], unquote(line["path"])[-90:], line["status"], status, text[:300]))
        records = house.control.store.jobs(JobFilter(is_archived=None, parent=""))
    assert different == []
    # The jobs of replicas are the server's, and their names differ from run to run.
    sent = [
        one.spec for one in reversed(records) if "DRUMBEAT_SCORING" not in one.spec.get("environment_variables", {})
    ]
    documents = [{**document, "name": f"job-{n}"} for n, document in enumerate(sent)]
    made = json.loads(re.sub(r"LocalUpload/[0-9a-f]{32,64}", "LocalUpload/HASH", json.dumps(documents)))
    golden = GOLDEN / f"{version}.documents.json"
    if request.config.getoption("--update-golden"):
        golden.write_text(json.dumps(made, indent=1) + "\n")
    assert made == json.loads(golden.read_text())
