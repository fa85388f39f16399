"""Records what releases of Azure's own client send, for tests that play it against the API without the client.

    python -m tools.record_azure [VERSION …]

starts a server of its own, runs the scripts of `tests/support/azure_scripts` with each release, and writes
`tests/golden/azure/VERSION.jsonl`: a request a line with its status, without tokens, keys, signatures and addresses.
What is left out: answers of files and logs, repeated looks at a job and at how far something is, requests about
children, which a test doesn't run, and those that score, which the router answers.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.kept_folder import KEPT
from tools.kept_programs import AZURE_ML

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "tests" / "support" / "azure_scripts"
GOLDEN = ROOT / "tests" / "golden" / "azure"
HOST, PAGE = "azure.test:7443", "page.test:7442"
MAX_BODY = 20_000
PRESENT_KEY = "PRESENT"
KEPT_HEADERS = (
    "x-ms-blob-type",
    "if-none-match",
    "x-ms-range",
    "x-ms-meta-upload_status",
    "x-ms-meta-name",
    "x-ms-meta-version",
)
RECORDER = """
import base64, json, os, runpy, sys
sys.path.insert(0, ".")
import requests
send = requests.adapters.HTTPAdapter.send
def recorded(self, request, **options):
    body = request.body
    if hasattr(body, "read"):
        at = body.tell(); data = body.read(); body.seek(at)
    else:
        data = body.encode() if isinstance(body, str) else bytes(body or b"")
    answer = send(self, request, **options)
    line = {"method": request.method, "url": request.url, "status": answer.status_code,
            "headers": {key.lower(): str(value) for key, value in request.headers.items()},
            "body": base64.b64encode(data).decode()}
    with open(os.environ["RECORDED"], "a") as file:
        file.write(json.dumps(line) + "\\n")
    return answer
requests.adapters.HTTPAdapter.send = recorded
for script in sys.argv[1:]:
    runpy.run_path(script, run_name="__main__")
"""


def main(versions: list[str]) -> None:
    """Records these releases, or all."""
    for version in versions or list(AZURE_ML):
        AZURE_ML[version].fetch()
        with tempfile.TemporaryDirectory() as folder:
            lines = _recorded(version, Path(folder))
        GOLDEN.mkdir(parents=True, exist_ok=True)
        (GOLDEN / f"{version}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
        print(f"{version}: {len(lines)} requests")


def _recorded(version: str, folder: Path) -> list[dict[str, Any]]:
    drumbeat = str(Path(sys.executable).with_name("drumbeat"))
    own = {**os.environ, "DRUMBEAT_HOME": str(folder / "home"), "NO_COLOR": "1"}

    def run(*words: str) -> str:
        done = subprocess.run([drumbeat, *words], env=own, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout

    work, log = folder / "work", folder / "requests.jsonl"
    shutil.copytree(SCRIPTS, work)
    try:
        run("alias", "set", "compute", "cpu-cluster", "local")
        run("alias", "set", "environment", "toy-env", "current")
        run("azure", "config", "--to", str(work))
        pairs = [shlex.split(line)[1].split("=", 1) for line in run("azure", "env").splitlines()]
        python = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(KEPT / f"azure-ai-ml-{version}"),
            "AZUREML_RUN_POLLING_INTERVAL_MIN": "1", "RECORDED": str(log), **dict(pairs),
        }  # fmt: skip
        scripts = sorted(path.name for path in SCRIPTS.glob("?_*.py"))
        subprocess.run([str(python), "-S", "-c", RECORDER, *scripts], env=environment, cwd=work, check=True)
    finally:
        subprocess.run([drumbeat, "server", "stop"], env=own, capture_output=True, check=False)
    return _kept([json.loads(line) for line in log.read_text().splitlines()])


_PAGE = re.compile(r"http://127\.0\.0\.1:\d+")
_PROGRESS = re.compile(r"/operations/|/cancellation|/(operation|deletion)$")
"""How far something is, which differs with each run."""
_RUN = re.compile(r"/(?:jobs|runs)/([^/?]+)")


def _kept(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the requests that a test can play, without what differs at each run of the recorder."""
    jobs = {
        match[1] for one in lines if one["method"] == "PUT" and (match := re.search(r"/jobs/([^/?]+)\?", one["url"]))
    }
    named = {match[1] for one in lines if one["status"] < 400 and (match := _RUN.search(urlsplit(one["url"]).path))}
    children = [f"{name}_" for name in named & jobs] + sorted(named - jobs)
    kept: list[dict[str, Any]] = []
    seen: set[str] = set()
    for one in lines:
        parts = urlsplit(one["url"])
        path = f"{parts.path}?{parts.query}"
        match = _RUN.search(parts.path)
        text = one["url"] + base64.b64decode(one["body"]).decode(errors="replace")
        is_of_child = any(name in text for name in children)
        is_look = one["method"] in ("GET", "HEAD") and (path in seen or (match is not None and "/details" in path))
        is_answer = parts.path.startswith(("/azure-logs/", "/identity", "/endpoints/")) or (
            parts.path.startswith("/blob/") and one["method"] in ("GET", "HEAD") and one["status"] < 400
            and "restype=container" not in path
        )  # fmt: skip
        if is_of_child or is_look or is_answer or _PROGRESS.search(parts.path):
            continue
        seen.add(path)
        kept.append(_plain(one))
    return kept


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    parts = urlsplit(line["url"])
    host = parts.netloc
    query = "&".join(
        one for one in parts.query.split("&") if one.split("=")[0] not in ("se", "sig", "sp", "sv", "sr", "skoid")
    )
    data = base64.b64decode(line["body"])
    made: dict[str, Any] = {"method": line["method"], "path": parts.path, "query": query, "status": line["status"]}
    headers = {key: line["headers"][key] for key in KEPT_HEADERS if key in line["headers"]}
    if headers:
        made["headers"] = headers
    if len(data) > MAX_BODY:
        raise SystemExit(f"{parts.path} has {len(data):,} bytes; record a smaller one")
    if data:
        text = _PAGE.sub(f"http://{PAGE}", data.decode("utf-8", "strict").replace(host, HOST))
        try:
            made["json"] = _without_key(json.loads(text))
        except ValueError:
            made["text"] = text
    return made


def _without_key(body: Any) -> Any:
    """Returns a body with a word in the place of an endpoint's key, which another server doesn't have."""
    return {**body, "keyValue": PRESENT_KEY} if isinstance(body, dict) and "keyValue" in body else body


if __name__ == "__main__":
    main(sys.argv[1:])
