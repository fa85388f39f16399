"""`drumbeat environment` as a user types it, against a server in memory."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drumbeat.model.api.computes import ComputeView, Machine
from drumbeat.model.api.environments import EnvironmentView
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import PythonEnvironment
from tests.unit.cli.fake_server import FakeServer, Type, typing_in
from tests.unit.cli.samples import a_job, sample

pytestmark = pytest.mark.feature("E1")


@pytest.fixture
def drumbeat(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    (tmp_path / "env.yml").write_text("name: mine\nimage: x\nconda_file: conda.yml\n")
    (tmp_path / "conda.yml").write_text("dependencies:\n- pip:\n  - torch==2.13.0\n")
    (tmp_path / "requirements.txt").write_text("numpy\n-r more.txt\n")
    (tmp_path / "more.txt").write_text("scipy\n")
    return typing_in(tmp_path, monkeypatch)


def mine() -> EnvironmentView:
    python = PythonEnvironment(
        "0123456789abcdef" * 4, "mine:2", "3.11", ("torch==2.13.0", "numpy", "--pre"), ("gcc=13",), ("conda-forge",),
        "conda.yml", (3, 4, 5),
    )  # fmt: skip
    at = datetime(2026, 1, 2, 12, tzinfo=UTC)
    jobs = tuple(f"job-{n}" for n in range(7))
    return sample(
        EnvironmentView, "mine", "2", python, "", at, about="for \x1b[2J digits", notes=("python 3.11.4: …",), jobs=jobs
    )


def curated() -> EnvironmentView:
    python = PythonEnvironment("f" * 64, "sklearn", "", ("scikit-learn",), source="curated sklearn")
    return sample(
        EnvironmentView, "sklearn", "", python, curated=True, about="For trees.", means=("sklearn-*", "sklearn")
    )


MADE = """\
environment mine:1 created: 2 packages with pip, Python 3.11
  note: the image x isn't used
  to use it, write in a job's file: environment: azureml:mine:1
  to have it made before a job needs it: drumbeat environment build mine:1
"""


def test_environment_is_created_from_its_file_with_the_files_it_names(drumbeat: Type, server: FakeServer):
    assert drumbeat("environment", "create", "-f", "env.yml", "--set", "version=7").stdout == MADE
    files = {"conda.yml": "dependencies:\n- pip:\n  - torch==2.13.0\n"}
    texts = {"main": "conda.yml", "files": files, "lines": [], "context": "", "dockerfile": ""}
    document = {"name": "mine", "version": "7", "image": "x", "conda_file": "conda.yml"}
    assert server.calls == [("create_environment", {"document": document, "source": "env.yml", "texts": texts})]


@pytest.mark.parametrize(("option", "file"), [("--requirements", "requirements.txt"), ("--conda", "conda.yml")])
def test_an_environment_is_made_from_options(drumbeat: Type, server: FakeServer, option: str, file: str):
    assert drumbeat("environment", "create", "mine", option, file).stdout == MADE
    ((_, body),) = server.calls
    assert isinstance(body, dict)
    assert body["document"] == {"name": "mine", "conda_file": file}
    assert set(body["texts"]["files"]) == ({"requirements.txt", "more.txt"} if "req" in option else {"conda.yml"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name a file with -f, or give a name and one of --requirements and --conda"),
        (("mine",), "name a file with -f"),
        (("mine", "--requirements", "requirements.txt", "--conda", "conda.yml"), "name a file with -f"),
        (("mine", "--requirements", "conda.yml"), "conda.yml would be read as a conda file"),
        (("mine", "--conda", "requirements.txt"), "requirements.txt would be read as a requirements file"),
        (("mine", "--set", "version=1"), "--set changes a value of a file"),
        (("-f", "env.yml", "--conda", "conda.yml"), "In the file: conda_file: conda.yml"),
        (("mine", "--conda", "cnda.yml"), "Did you mean `conda.yml`?"),
        (("-f", "conda.yml"), "drumbeat environment create NAME --conda FILE"),
    ],
)
def test_invalid_options_are_refused(drumbeat: Type, server: FakeServer, words: tuple[str, ...], says: str):
    shown = drumbeat("environment", "create", *words)
    assert shown.exit_code == 2
    assert says in shown.stderr
    assert server.calls == []


def test_list_is_a_table(drumbeat: Type, server: FakeServer):
    assert drumbeat("environment", "list").stdout.startswith("no environments; ")
    broken = sample(EnvironmentView, "old", "1", problem="its file didn't come")
    boxed = sample(EnvironmentView, "boxed", "1", image="ubuntu:24.04")
    server.known_environments = [mine(), broken, boxed, curated()]
    lines = drumbeat("environment", "list").stdout.splitlines()
    assert lines[0].split() == ["environment", "made", "of", "key", "since", "jobs"]
    assert lines[2].split()[0] == "mine:2"
    assert "2 packages with pip, 1 with conda, Python" in lines[2]
    assert any(line.split()[:3] == ["boxed:1", "image", "ubuntu:24.04"] for line in lines)
    assert lines[-1] == "environment old:1 can't be made: its file didn't come"


@pytest.mark.feature("E2")
def test_curated_environments_are_listed_with_their_names(drumbeat: Type, server: FakeServer):
    server.known_environments = [mine(), curated()]
    text = drumbeat("environment", "list", "--curated").stdout
    assert "mine" not in text
    for word in ("sklearn-*, sklearn", "For trees.", "Yours comes first"):
        assert word in text


SHOWN = """\
environment  mine:2
what it is   for \\x1b[2J digits
since        {since}
Python       3.11
key          0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
used by      job-0, job-1, job-2, job-3, job-4 and 2 more

With pip, from conda.yml
  torch==2.13.0
  numpy
  --pre

With conda, from conda-forge
  gcc=13

Notes
  python 3.11.4: …
"""


def test_show_prints_all_of_an_environment(drumbeat: Type, server: FakeServer):
    server.known_environments = [mine(), curated()]
    since = datetime(2026, 1, 2, 12, tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert drumbeat("environment", "show", "azureml:mine:2").stdout == SHOWN.format(since=since)
    assert (
        "means sklearn-*, sklearn, with AzureML- in front or not" in drumbeat("environment", "show", "sklearn").stdout
    )
    told = json.loads(drumbeat("environment", "show", "mine", "--json").stdout)
    assert (told["version"], told["python"]["lines"]) == ("2", [3, 4, 5])
    assert [one["name"] for one in json.loads(drumbeat("environment", "list", "--json").stdout)] == ["mine"]


@pytest.mark.parametrize(
    "spelled", ["mine", "mine:2", "mine@latest", "azureml:mine:2", "azureml:mine@latest", "azureml:mine"]
)
def test_environment_is_shown_for_every_spelling_of_its_name(drumbeat: Type, server: FakeServer, spelled: str):
    server.known_environments = [mine(), curated()]
    assert drumbeat("environment", "show", spelled).stdout.splitlines()[0] == "environment  mine:2"


def test_label_other_than_latest_is_refused_for_users_environments(drumbeat: Type, server: FakeServer):
    server.known_environments = [mine(), curated()]
    shown = drumbeat("environment", "show", "mine@stable")
    assert (shown.exit_code, shown.stderr.splitlines()[0]) == (
        2,
        "error: there is no label 'stable'; there is `latest`",
    )
    assert drumbeat("environment", "show", "sklearn@stable").exit_code == 0


def test_list_of_a_missing_environment_is_refused(drumbeat: Type, server: FakeServer):
    server.known_environments = [mine(), curated()]
    shown = drumbeat("environment", "list", "--name", "nix")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (1, "", "error: there is no environment nix\n")
    brought = drumbeat("environment", "list", "--name", "sklearn").stdout
    assert brought.endswith("drumbeat brings one: drumbeat environment show sklearn\n")
    made = drumbeat("environment", "list", "--curated", "--name", "mine").stdout
    assert made.endswith("users made it: drumbeat environment list --name mine\n")


def test_a_build_is_a_job_on_every_machine_that_can_be_used(drumbeat: Type, server: FakeServer):
    machines = (sample(Machine, "a", 4), sample(Machine, "b", 4), sample(Machine, "c", 4, unusable="away"))
    kept = sample(Machine, "g", 4, is_for_gpus=True)
    server.known_computes = [sample(ComputeView, "rack", "ssh", (*machines, kept))]
    shown = drumbeat("environment", "build", "mine:2", "--compute", "rack", "--detach")
    assert shown.stdout == f"{a_job().name}\n"
    assert shown.stderr == f"follow it: drumbeat logs -f {a_job().name}\n"
    (_, job, _, _) = next(call for call in server.calls if call[0] == "submit")
    assert isinstance(job, dict)
    assert (job["environment"], job["compute"], job["resources"]) == ("mine:2", "rack", {"instance_count": 2})
    assert "sys.prefix" in job["command"]


def test_delete_removes_a_version_and_requires_it(drumbeat: Type, server: FakeServer):
    server.known_environments = [mine()]
    shown = drumbeat("environment", "delete", "mine")
    assert (shown.exit_code, "which version of mine?" in shown.stderr) == (2, True)
    for spelled in ("mine:2", "azureml:mine:2", "mine@latest"):
        server.known_environments = [mine(), curated()]
        assert drumbeat("environment", "delete", spelled).stdout == "environment mine:2 deleted\n"
    assert "environment sklearn is drumbeat's own, and stays" in drumbeat("environment", "delete", "sklearn@1").stderr
    server.error = RefusedError("no", fix="Do.")
    assert drumbeat("environment", "show", "mine").stderr == "error: no\n  → Do.\n"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("current", ""),
        ("mine", ""),
        ("mine:2", ""),
        ("azureml:mine@latest", ""),
        ("AzureML-sklearn-1", ""),
        ("other", ""),
        ("nowhere:1", "there is no environment nowhere yet; there is current, mine, pytorch, sklearn"),
        ("mine:9", "environment mine has no version 9 yet; there is 2\n"),
        ("what is", "`what is` doesn't name an environment"),
    ],
)
def test_alias_takes_any_environment_and_notes_a_missing_one(
    drumbeat: Type, server: FakeServer, target: str, says: str
):
    server.known_environments = [mine()]
    server.known_aliases = {("environment", "other"): "mine"}
    shown = drumbeat("alias", "set", "environment", "cloud", target)
    assert shown.stdout == f"environment cloud now means {target}\n"
    assert says in shown.stderr
    assert bool(shown.stderr) == bool(says)
