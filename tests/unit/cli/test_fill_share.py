"""The job that fills a share, and the script that it runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat import jobfile
from drumbeat.cli.commands.compute_jobs import SCRIPT, fill_job
from drumbeat.model.api.computes import ComputeView
from drumbeat.model.errors import RefusedError, UnknownNameError
from tests.unit.cli.samples import sample

pytestmark = pytest.mark.feature("D9")
SHARE = {"name": "data", "type": "path", "path": "/mnt/my data"}
LAB = sample(ComputeView, name="lab", spec={"name": "lab", "type": "netlab", "shares": [SHARE]})
URI = "azureml://datastores/lake/paths/cats"


def test_job_reads_the_datastore_on_the_compute_and_writes_below_the_share() -> None:
    document = fill_job(LAB, "data", URI, "cats/2")
    assert (document["compute"], document["inputs"]) == (
        "lab", {"source": {"type": "uri_folder", "path": URI, "mode": "ro_mount"}},
    )  # fmt: skip
    assert str(document["command"]).startswith("python3 - \"${{inputs.source}}\" '/mnt/my data/cats/2' <<")
    jobfile.from_dict(document, "fill")


def test_share_that_is_not_there_and_folder_outside_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="compute lab has no share date; it has data"):
        fill_job(LAB, "date", URI)
    with pytest.raises(RefusedError, match="/etc lies outside of share data"):
        fill_job(LAB, "data", URI, "../../etc")


def test_script_copies_with_progress_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name, text in (("a", "aaa"), ("deep/b", "bb")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    command = [sys.executable, "-", str(source), str(target)]
    first = subprocess.run(command, input=SCRIPT, text=True, capture_output=True, check=True).stdout
    assert (target / "deep" / "b").read_text() == "bb"
    assert first.splitlines()[-1] == f"{target} has 2 files; 0 were there before"
    assert "2 of 2 files" in first
    (source / "a").write_text("other")
    again = subprocess.run(command, input=SCRIPT, text=True, capture_output=True, check=True).stdout
    assert (target / "a").read_text() == "other"
    assert again.splitlines()[-1] == f"{target} has 2 files; 1 were there before"
    assert not list(target.rglob("*.part"))
