"""`Client` against a real server in this process: what goes out and what comes back."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client, git_commit
from drumbeat.model.agent import Phase
from drumbeat.model.api.jobs import End, EventView, JobView, LogPiece
from drumbeat.model.errors import (
    ConflictError,
    NotFoundError,
    RefusedError,
    SpecError,
    UnauthorizedError,
    UnknownNameError,
    UnreachableError,
)

from .api_house import DOCUMENT, TOKEN, House, eventually, house_in


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(home=house.home, url=house.url, token=TOKEN) as there:
        yield there


def write_job(folder: Path, **keys: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = {
        "command": "echo ${{inputs.epochs}}",
        "drumbeat": "{environment: current}",
        "inputs": "{epochs: 1}",
        **keys,
    }
    (folder / "job.yml").write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return folder / "job.yml"


def test_a_file_becomes_a_job_named_after_its_folder(client: Client, tmp_path: Path) -> None:
    job = client.submit(write_job(tmp_path / "My runs"), sets=["inputs.epochs=7"])
    assert (job.experiment, job.command, job.state) == ("My-runs", "echo 7", "queued")
    assert client.submit(tmp_path / "My runs/job.yml", name="by-name").name == "by-name"
    assert next(line.n for line in client.story("by-name")) == 1
    with pytest.raises(ConflictError):
        client.submit(tmp_path / "My runs/job.yml", name="by-name")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)


def test_pipelines_steps_and_sweeps_of_components_record_the_commit(
    house: House, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_commit, "TIMEOUT_S", 60.0)
    files = {
        "src/a.py": "",
        "train.yml": "{type: command, command: python a.py, code: ./src, environment: {image: python}, "
        "inputs: {lr: {type: number, optional: true}}}\n",
        "inner.yml": "{type: pipeline, jobs: {fit: {type: command, component: ./train.yml}}}\n",
        "pipe.yml": "type: pipeline\nproperties: {azureml.git.branch: mine}\nsettings: {force_rerun: true}\n"
        "jobs:\n  one: {type: command, component: ./train.yml, properties: {azureml.git.branch: own}}\n"
        "  more: {type: pipeline, component: ./inner.yml}\n",
        "sweep.yml": "type: sweep\ntrial: ./train.yml\nsampling_algorithm: grid\n"
        "search_space: {lr: {type: choice, values: [1]}}\nobjective: {goal: minimize, primary_metric: loss}\n",
    }
    for name, text in files.items():
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text(text)
    git(tmp_path / "repo", "init", "-q", "-b", "trunk")
    git(tmp_path / "repo", "add", ".")
    git(tmp_path / "repo", "commit", "-q", "-m", "first")
    (tmp_path / "repo" / "new").touch()
    names = {"pipe.yml": "piped", "sweep.yml": "swept"}
    for file, name in names.items():
        client.submit(tmp_path / "repo" / file, name=name)
    told = {name: client.get(name).properties for name in ("piped", "piped_one", "piped_more-fit", "swept")}
    assert {name: (one["azureml.git.branch"], one["azureml.git.dirty"]) for name, one in told.items()} == {
        "piped": ("mine", "True"),
        "piped_one": ("own", "False"),
        "piped_more-fit": ("trunk", "False"),
        "swept": ("trunk", "False"),
    }
    assert len({one["mlflow.source.git.commit"] for one in told.values()}) == 1


def test_a_job_made_in_python_counts_its_paths_from_here(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drumbeat.jobfile import CommandJob, command

    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    document = {**DOCUMENT, "code": "src"}
    draft = command(command="true", code="src")
    draft.drumbeat = document["drumbeat"]
    for made in (document, CommandJob.model_validate(document), draft):
        assert client.plan(made).plan.code == client.plan(document).plan.code
    with pytest.raises(SpecError, match="job file"):
        client.plan(document, sets=["a=b"])


def test_text_input_that_looks_like_a_path_is_noted(client: Client, tmp_path: Path) -> None:
    for name in ("ok/x", "deep/ok/x", "conf.yml", "code/kept/x", "code/left/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "code" / ".amlignore").write_text("left\n")
    texts = {
        "there": "./ok", "bare": "deep/ok", "file": "conf.yml", "nowhere": "../nix", "ignored": "left", "rate": "3",
        "sent": "./kept", "word": "adam", "absolute": str(tmp_path / "ok"), "dot": ".", "long": "x" * 5000,
    }  # fmt: skip
    (tmp_path / "left").mkdir()
    (tmp_path / "code" / "train.py").touch()
    job = {"command": "python train.py", "code": "code", "inputs": texts}
    (tmp_path / "job.yml").write_text(json.dumps(job))
    told = {note.partition(" ")[0]: note for note in client.plan(tmp_path / "job.yml").notes}
    assert sorted(told) == [f"inputs.{one}" for one in ("bare", "file", "ignored", "nowhere", "there")]
    assert told["inputs.there"] == (
        "inputs.there is the text `./ok`, and no files come with it; for files write "
        "`there: {type: uri_folder, path: ./ok}`"
    )
    assert "{type: uri_file, path: conf.yml}" in told["inputs.file"]
    job_name = client.submit(tmp_path / "job.yml").name
    assert told["inputs.there"] in client.get(job_name).story[0].sentence


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("# all\n\n*\n", "line 3 of .amlignore leaves out all that is in src"),
        ("*.py\nsub/\n", ".amlignore leaves out all that is in src"),
        ("*\n!.amlignore\n", "line 1 of .amlignore leaves out all that is in src"),
        (None, "there is no file in src"),
        ("*.md\n", ""),
        ("*\n!t.py\n", ""),
    ],
)
def test_code_without_files_to_send_is_noted(client: Client, tmp_path: Path, rules: str | None, says: str) -> None:
    (tmp_path / "src" / "sub").mkdir(parents=True)
    if rules is not None:
        (tmp_path / "src" / ".amlignore").write_text(rules)
        (tmp_path / "src" / "t.py").write_text("")
        (tmp_path / "src" / "sub" / "u.py").write_text("")
    (tmp_path / "job.yml").write_text("command: python t.py\ncode: src\n")
    wanted = (f"nothing of code is sent: {says}",) if says else ()
    assert tuple(client.plan(tmp_path / "job.yml").notes) == wanted


@pytest.mark.feature("J4")
def test_script_missing_from_the_code_folder_is_noted_before_the_start(client: Client, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    (tmp_path / "job.yml").write_text("command: python trian.py\ncode: src\n")
    wanted = "the command starts trian.py, which isn't in the code folder `src`. Did you mean `train.py`?"
    assert client.plan(tmp_path / "job.yml").notes == (wanted,)
    (tmp_path / "job.yml").write_text("command: python trian.py\ncode: src\ndrumbeat: {prepare: touch trian.py}\n")
    assert client.plan(tmp_path / "job.yml").notes == ()


@pytest.mark.parametrize(("rules", "count"), [("*.log\n", 2), ("outputs/\n", 0)])
def test_old_outputs_in_the_code_folder_are_noted(client: Client, tmp_path: Path, rules: str, count: int) -> None:
    (tmp_path / "src/outputs/run").mkdir(parents=True)
    for name in ("t.py", "outputs/model.pt", "outputs/run/x.txt", "outputs/run/y.log"):
        (tmp_path / "src" / name).write_text("")
    (tmp_path / "src/.amlignore").write_text(rules)
    (tmp_path / "job.yml").write_text("command: python t.py\ncode: src\n")
    notes = client.plan(tmp_path / "job.yml").notes
    assert [f"outputs/ of the code has {count} files" in one for one in notes] == [True] * bool(count)


def test_uploaded_input_notes_links_that_lead_out_of_it(client: Client, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "x").write_text("")
    (tmp_path / "data" / "x").symlink_to("../x")
    (tmp_path / "job.yml").write_text("command: x\ninputs: {d: {path: data, datastore: default}}\n")
    wanted = "inputs.d: 1 link leads out of the folder and is followed: x"
    assert wanted in client.plan(tmp_path / "job.yml").notes


def test_invalid_job_file_is_refused_without_a_server(tmp_path: Path) -> None:
    path = write_job(tmp_path, comand="x")
    with pytest.raises(SpecError, match=r"job\.yml:4"), Client(home=tmp_path / "home", autostart=False) as client:
        client.submit(path)
    assert not (tmp_path / "home").exists()


@pytest.mark.feature("D8")
def test_code_is_sent_once_and_again_when_it_changed(client: Client, house: House, tmp_path: Path) -> None:
    path = write_job(tmp_path, code="src")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("1")
    snapshots = lambda: {place.name for place in (house.home / "snapshots").rglob("*.tar")}  # noqa: E731
    before = snapshots()
    assert client.plan(path).plan.code
    assert snapshots() == before, "a plan sends nothing"
    client.submit(path)
    once = snapshots()
    assert len(once - before) == 1
    client.submit(path)
    assert snapshots() == once
    (tmp_path / "src/a.py").write_text("2")
    client.submit(path)
    assert len(snapshots() - once) == 1


def test_a_local_input_is_used_in_place_on_the_servers_own_machine(client: Client, tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    path = write_job(tmp_path, command="ls ${{inputs.d}}", inputs="{d: {path: with space}}")
    (planned,) = client.plan(path).plan.inputs
    assert planned.uri == (tmp_path / "with space").as_uri()


def test_a_local_input_is_sent_to_a_server_elsewhere(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(type(client.connection), "is_here", property(lambda _: False))
    path = write_job(tmp_path, command="ls ${{inputs.d}}", inputs="{d: {path: data}}")
    job = client.submit(path, name=f"sent-{tmp_path.name}")
    assert job.state == "queued"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"code": "nowhere"}, "nothing at nowhere"),
        ({"command": "ls ${{inputs.d}}", "inputs": "{d: {path: ./gone}}"}, r"inputs\.d\.path"),
    ],
)
def test_missing_path_is_named(client: Client, tmp_path: Path, keys: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        client.submit(write_job(tmp_path, **keys))


def test_refusals_come_as_the_errors_that_they_are(client: Client, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="alias"):
        client.submit(write_job(tmp_path, compute="azureml:cloud"))
    with pytest.raises(NotFoundError):
        client.get("none")
    with pytest.raises(NotFoundError):
        next(iter(client.stream("none")))
    with pytest.raises(RefusedError):
        client.set_alias("colour", "a", "b")


@pytest.mark.feature("M1")
def test_a_stream_ends_with_the_job(client: Client, house: House) -> None:
    job = house.submit("streamed")
    house.agent(job).log("größer\n".encode(), 0)
    house.finish(job)
    events = list(client.stream(job))
    assert [type(one) for one in events if not isinstance(one, JobView)][-1] is End
    assert "".join(one.text for one in events if isinstance(one, LogPiece)) == "größer\n"
    assert [one.sentence for one in events if isinstance(one, EventView)] == [one.sentence for one in client.story(job)]
    assert "".join(piece.text for piece in client.logs(job)) == "größer\n"
    assert not [one for one in client.stream(job, logs=False) if isinstance(one, LogPiece)]


def test_logs_end_though_the_job_writes_on(client: Client, house: House) -> None:
    job = house.submit("talkative")
    agent = house.agent(job)
    agent.log(b"0123", 0)
    agent.log(b"4567", 4)
    seen = 0
    for n, piece in enumerate(client.logs(job), 2):
        seen += len(piece.text)
        agent.log(b"more", 4 * n)
        assert n < 10
    assert seen == 8


def test_wait_gives_the_job_or_none_when_the_time_is_up(client: Client, house: House) -> None:
    job = house.submit("awaited")
    assert client.wait(job, timeout_s=0.3) is None
    ending = threading.Timer(0.3, house.finish, (job,))
    ending.start()
    ended = client.wait(job, timeout_s=20)
    ending.join()
    assert ended is not None
    assert (ended.state, ended.exit_code, ended.has_ended) == ("completed", 0, True)
    assert client.wait(job) == ended


def test_lists_go_over_many_pages(client: Client, house: House) -> None:
    for n in range(5):
        client.submit({**DOCUMENT, "name": f"many-{n}", "experiment_name": "many"})
    assert [job.name for job in client.list(experiment="many")] == [f"many-{n}" for n in (4, 3, 2, 1, 0)]
    assert [job.name for job in client.list(experiment="many", limit=2)] == ["many-4", "many-3"]


def test_archived_jobs_are_listed_when_asked_for(client: Client, house: House) -> None:
    job = house.submit("put-away", experiment_name="away")
    with pytest.raises(ConflictError):
        client.archive(job)
    house.finish(job)
    client.archive(job)
    assert client.list(experiment="away") == []
    assert [one.name for one in client.list(experiment="away", archived=True)] == [job]
    client.restore(job)
    assert [one.name for one in client.list(experiment="away", state="completed")] == [job]


def test_an_alias_is_set_and_removed(client: Client) -> None:
    client.set_alias("environment", "azureml://registries/a/b:1", "current")
    assert [one.target for one in client.aliases() if one.name == "azureml://registries/a/b:1"] == ["current"]
    client.set_alias("environment", "azureml://registries/a/b:1", None)
    with pytest.raises(NotFoundError):
        client.set_alias("environment", "azureml://registries/a/b:1", None)


def test_client_returns_status_and_computes(client: Client, house: House) -> None:
    status = client.status()
    assert (status.url, status.home) == (house.url, str(house.home))
    (local,) = client.computes()
    assert local.machines[0].cpus == 1000


def test_cancel_ends_a_job(client: Client, house: House) -> None:
    job = house.submit("stopped")
    house.agent(job).say(Phase.ENROLLED)
    assert client.cancel(job).name == job
    eventually(lambda: client.get(job).state == "canceled")


def test_wrong_token_or_host_is_refused(house: House, tmp_path: Path) -> None:
    with pytest.raises(UnauthorizedError), Client(url=house.url, token="wrong") as client:
        client.list()
    with pytest.raises(UnauthorizedError, match="DRUMBEAT_TOKEN"), Client(tmp_path, url=house.url) as client:
        client.list()
    with (
        pytest.raises(UnreachableError, match="no server answers"),
        Client(url="http://127.0.0.1:9", token="x") as client,
    ):
        client.list()


def test_artifact_of_a_job_is_among_its_files_and_a_bad_name_is_refused(house: House, client: Client, tmp_path: Path):
    job = client.submit({**DOCUMENT, "name": "with-report"}).name
    client.log_artifact(job, "rehearsal/a report.json", b"{}")
    client.log_artifact(job, "rehearsal/a report.json", b"[1]")
    path = f"outputs/mlflow-artifacts/{client.metrics(job).run}/rehearsal/a report.json"
    assert [file.path for file in client.files(job) if "mlflow" in file.path] == [path]
    client.fetch(job, path, tmp_path / "report.json")
    assert (tmp_path / "report.json").read_bytes() == b"[1]"
    with pytest.raises(NotFoundError, match="none"):
        client.log_artifact("none", "a", b"")
    with pytest.raises(RefusedError, match="folder"):
        client.log_artifact(job, "rehearsal", b"")
