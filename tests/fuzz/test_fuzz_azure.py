"""Azure's API under what its clients send with random damage: never a defect of ours, always Azure's form."""

import base64
import json
import os
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from drumbeat.server.azure.route_table import ROUTES
from drumbeat.server.resources.aliases import set_alias
from tests.faces.azure_house import WORKSPACE, AzureHouse, azure_house

SECONDS = float(os.environ.get("DRUMBEAT_FUZZ_S", "4"))
GOLDEN = Path(__file__).parents[1] / "golden" / "azure"
PLACE = "azureml://datastores/workspaceblobstore/paths/../x"
VALUES: list[Any] = [
    None, True, 0, -1, 1e308, 10**40, "", "x", "\x00", "..", "a/b", "${{inputs.x}}", "azureml:x:1", "PT1S", "P", "[",
    "ä\ud7ff", "{a: *b}", "/subscriptions/a/b/c/data/x/versions/1", PLACE, "x" * 5000, [], {}, [[]], {"a": {}},
    ["choice", [[1]]], ["choice", 3], ["uniform", [1]],
]  # fmt: skip
NAMES = [
    "known", "x", "..", ".", "\x00", "a b", "ä", "%", "azureml:known", "1", "x" * 300, "a\nb", "workspaceblobstore",
]  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureHouse]:
    with azure_house(tmp_path_factory.mktemp("azure")) as there:
        set_alias(there.control.store, "compute", "cpu-cluster", "local")
        set_alias(there.control.store, "environment", "toy-env", "current")
        there.ask("PUT", "jobs/known", {"properties": {"jobType": "Command", "command": "true"}})
        yield there


def damaged(value: Any, chance: random.Random, at: float = 0.15) -> Any:
    """A copy in which values are others, missing, or in another place."""
    if chance.random() < at:
        return chance.choice(VALUES)
    if isinstance(value, dict):
        kept = {key: damaged(one, chance, at) for key, one in value.items() if chance.random() > at / 2}
        return {**kept, **({chance.choice(NAMES): chance.choice(VALUES)} if chance.random() < at / 2 else {})}
    if isinstance(value, list):
        return [damaged(one, chance, at) for one in value for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
    return value


def require_azures_form(answer: Any, what: str) -> None:
    assert answer.status_code < 500, f"{what}: {answer.status_code} {answer.text[:500]}"
    if answer.status_code >= 400:
        body = answer.json()
        assert set(body) == {"error"}, what
        assert body["error"]["message"], what


def test_damaged_bodies_of_recorded_requests_are_refused_with_a_sentence(house: AzureHouse) -> None:
    lines = [json.loads(line) for path in sorted(GOLDEN.glob("*.jsonl")) for line in path.read_text().splitlines()]
    sent = [one for one in lines if "json" in one]
    assert len(sent) > 50
    end, seed = time.monotonic() + SECONDS / 3, 0
    while time.monotonic() < end or seed < len(sent):
        chance, line = random.Random(seed), sent[seed % len(sent)]
        body = damaged(line["json"], chance, chance.choice((0.02, 0.1, 0.3)))
        path = re.sub(r"/jobs/[^/]+$", f"/jobs/j{seed}", line["path"])
        headers = {**house.bearer(), "Content-Type": "application/json"}
        content = json.dumps(body).encode("utf-8", "surrogatepass")
        answer = house.http.request(line["method"], f"{path}?{line['query']}", headers=headers, content=content)
        require_azures_form(answer, f"seed {seed}: {line['method']} {path} {json.dumps(body)[:2000]}")
        seed += 1


def test_any_names_and_bodies_on_any_route_are_answered_in_azures_form(house: AzureHouse) -> None:
    end, seed = time.monotonic() + SECONDS / 3, 0
    while time.monotonic() < end or seed < 2 * len(ROUTES):
        chance, route = random.Random(seed), ROUTES[seed % len(ROUTES)]
        path = re.sub(r"\{\w+\}", lambda _: quote(chance.choice(NAMES), safe=""), route.path)  # noqa: B023 - called at once
        url = f"{route.before.replace(chr(92), '')}{WORKSPACE}/{path}"
        body = {"properties": damaged({"a": {"b": 1}, "properties": {}, "values": []}, chance, 0.4)}
        options = {"json": body} if chance.random() < 0.7 and route.method != "GET" else {}
        answer = house.http.request(route.method, url, headers=house.bearer(), **options)
        require_azures_form(answer, f"seed {seed}: {route.method} {url} {options}")
        seed += 1


def test_blobs_of_any_name_query_and_body_are_answered_in_the_form_of_stores(house: AzureHouse) -> None:
    end, seed = time.monotonic() + SECONDS / 3, 0
    kinds = ("", "block", "blocklist", "metadata", "list", "lease", "\x00")
    names = [name for name in NAMES if name not in (".", "..")]  # The client would resolve these.
    containers = ("workspaceblobstore", "workspaceartifactstore", "none", "code-00000000-0000")
    contents = (b"", b"x" * 100, b"<BlockList><Latest>a</Latest></BlockList>", b"<a")
    while time.monotonic() < end or seed < 200:
        chance = random.Random(seed)
        name = "/".join(quote(chance.choice(names), safe="") for _ in range(chance.choice((0, 1, 1, 2, 3))))
        query = {
            "comp": chance.choice(kinds), "blockid": base64.b64encode(chance.randbytes(3)).decode(),
            "restype": "container", "prefix": chance.choice(NAMES), "delimiter": chance.choice(("", "/", "x")),
            "marker": chance.choice(NAMES), "maxresults": chance.choice(("", "1", "-1", "x", "9" * 30)),
        }  # fmt: skip
        text = "&".join(f"{key}={quote(value)}" for key, value in query.items() if chance.random() < 0.6)
        headers = {
            "x-ms-blob-type": chance.choice(("BlockBlob", "Page", "")), "If-None-Match": chance.choice(("*", "x")),
            "x-ms-range": chance.choice(("bytes=0-", "bytes=9-1", "x")), "x-ms-meta-a": "x" * chance.choice((1, 3000)),
        }  # fmt: skip
        method, where = chance.choice(("PUT", "GET", "HEAD", "DELETE", "POST")), chance.choice(containers)
        body = {"content": chance.choice((*contents, chance.randbytes(40)))} if method == "PUT" else {}
        answer = house.blob(method, name, text, where, headers=headers, **body)
        what = f"seed {seed}: {method} {where} {name} {text} {headers} {body}: {answer.status_code} {answer.text[:300]}"
        assert answer.status_code < 500, what
        if answer.status_code >= 400:
            assert answer.headers.get("x-ms-error-code"), what
            assert method == "HEAD" or ET.fromstring(answer.text).findtext("Code"), what
        seed += 1
