"""Datastores, data by name and outputs, end to end: real stores, a real server, real jobs."""
# ruff: noqa: F811 - fixtures of another module are imported, and are arguments

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from drumbeat.client import git_commit
from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError, UnknownNameError
from drumbeat.server.access.home_token import user_of_server

from .house import House, contents, until
from .started import free_ports
from .store_servers import Azurite, S3Server, WebServer, azurite, s3_server, web_server  # noqa: F401

READS = "cat ${{inputs.data}}/a.csv ${{inputs.data}}/sub/b.csv"
WRITES = (
    "import os, pathlib, sys\n"
    "place = pathlib.Path(os.environ['AZURE_ML_OUTPUT_model'])\n"
    "(place / 'sub').mkdir()\n"
    "(place / 'a.bin').write_bytes(b'a' * 3_000_000)\n"
    "(place / 'sub' / 'b.bin').write_bytes(b'b')\n"
    "sys.exit(int(sys.argv[1]))\n"
)


def digits(folder: Path, first: str = "1") -> Path:
    place = folder / "digits"
    (place / "sub").mkdir(parents=True, exist_ok=True)
    (place / "a.csv").write_text(f"{first}\n")
    (place / "sub" / "b.csv").write_text("2\n")
    return place


def run(house: House, name: str, path: str, **keys: str) -> str:
    """What rank 0 of a job printed that reads the data at `path`."""
    file = house.job_file(name, command=READS, inputs=f"{{data: {{path: '{path}'}}}}", **keys)
    job = house.client.submit(file, name=name)
    ended = house.client.wait(job.name, 120)
    assert ended is not None
    assert ended.state == "completed", (ended.sentence, ended.verdict)
    return house.logs(name)[0]


def azure_store(house: House, azurite: Azurite, name: str) -> None:
    """Makes a datastore as a user does: a file without the secret, which is in the environment."""
    file = house.folder / f"{name}.yml"
    file.write_text(
        f"name: {name}\ntype: azure_blob\naccount_name: {azurite.account}\ncontainer_name: {azurite.container()}\n"
        f"endpoint: {azurite.endpoint}\ncredentials: {{account_key: 'env:KEY_OF_{name.upper()}'}}\n"
    )
    house.environment[f"KEY_OF_{name.upper()}"] = azurite.key
    made = house.run("datastore", "create", "-f", file)
    assert made.returncode == 0, made.stderr
    assert f"datastore {name} created: azure_blob, by account key (the store answers)" in made.stdout


@pytest.mark.feature("D2", "D4", "D10")
def test_the_same_job_reads_a_folder_a_datastore_a_web_server_an_asset_and_another_jobs_output(
    house: House,
    azurite: Azurite,
    s3_server: S3Server,
    web_server: WebServer,
    tmp_path: Path,
):
    place = digits(tmp_path)
    azure_store(house, azurite, "blobs")
    house.client.create_datastore(s3_server.datastore("buckets", s3_server.bucket(), "below"))
    for one in ("blobs", "buckets"):
        house.client.upload_data(place, f"azureml://datastores/{one}/paths/digits")
    for path in ("a.csv", "sub/b.csv"):
        web_server.put(f"digits/{path}", (place / path).read_bytes())
    house.client.create_datastore(web_server.datastore("web"))
    house.client.create_data({"name": "digits", "path": str(place)})
    writer = house.job_file(
        "writes", command="cp -r ${{inputs.data}}/. ${{outputs.copy}}", outputs="{copy: {}}",
        inputs=f"{{data: {{path: '{place}'}}}}",
    )  # fmt: skip
    assert house.client.wait(house.client.submit(writer, name="writes").name, 120).state == "completed"  # type: ignore[union-attr]
    said = {
        name: run(house, f"reads-{name}", path)
        for name, path in {
            "local": str(place),
            "azure": "azureml://datastores/blobs/paths/digits",
            "long": "azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/blobs/paths/digits",
            "s3": "azureml://datastores/buckets/paths/digits",
            "http": f"{web_server.url}/digits",
            "asset": "azureml:digits@latest",
            "job": "azureml://jobs/writes/outputs/copy/paths/",
        }.items()
    }
    assert said == dict.fromkeys(said, "1\n2\n")
    assert [(one.job, one.role) for one in house.client.get_data("digits", "1").used_by] == [
        ("reads-asset", "inputs.data")
    ]


@pytest.mark.feature("D4", "D5")
def test_a_file_that_changed_is_a_new_version_and_a_new_staging(house: House, tmp_path: Path):
    place = digits(tmp_path)
    assert house.client.create_data({"name": "changing", "path": str(place)}).version == "1"
    again = house.client.create_data({"name": "changing", "path": str(place)})
    assert again.version == "1"
    digits(tmp_path, first="changed")
    newer = house.client.create_data({"name": "changing", "path": str(place)})
    assert (newer.version, newer.uri == again.uri) == ("2", False)
    assert run(house, "reads-new", "changing:2") == "changed\n2\n"
    assert run(house, "reads-old", "azureml:changing:1") == "1\n2\n"


@pytest.mark.feature("D3", "D4")
def test_an_output_goes_to_its_datastore_whole_and_becomes_data_that_the_next_job_uses(
    house: House,
    azurite: Azurite,
):
    azure_store(house, azurite, "results")
    house.script(WRITES)
    output = "{model: {path: 'azureml://datastores/results/paths/models/${{name}}', name: best}}"
    job = house.client.submit(house.job_file(code=".", command="python t.py 0", outputs=output), name="trains")
    house.client.wait(job.name, 120)
    assert "known as azureml:best:1" in house.client.story("trains")[-1].sentence
    found = house.client.get_data("best")
    assert (found.made_by, found.files, found.size) == ("trains", 2, 3_000_001)
    (model,) = house.client.get("trains").outputs
    assert (model.place, model.asset, model.files, model.size) == ("in_place", "best:1", 2, 3_000_001)
    listed = house.client.list_files("azureml://datastores/results/paths/models/trains")
    assert [(one.path, one.size) for one in listed.files] == [("a.bin", 3_000_000), ("sub/b.bin", 1)]
    user = house.job_file("user", command="stat -c %s ${{inputs.m}}/a.bin", inputs="{m: {path: 'azureml:best:1'}}")
    assert house.client.wait(house.client.submit(user, name="uses").name, 120).state == "completed"  # type: ignore[union-attr]
    assert house.logs("uses")[0] == "3000000\n"


@pytest.mark.feature("D7")
def test_code_logs_and_results_stay_out_of_the_store_of_the_training_data(house: House, tmp_path: Path):
    for name in ("training", "findings"):
        (tmp_path / name).mkdir()
        house.client.create_datastore({"name": name, "type": "folder", "path": str(tmp_path / name)})
    data = "azureml://datastores/training/paths/digits"
    house.client.upload_data(digits(tmp_path), data)
    before = set(contents(tmp_path / "training"))
    house.script(
        "import pathlib, sys\nprint('said')\npathlib.Path(sys.argv[1], 'model').write_text('found')\n", "apart"
    )
    job = house.job_file(
        "apart", code=".", command="python t.py ${{outputs.model}} ${{inputs.data}}",
        inputs=f"{{data: {{path: '{data}'}}}}", outputs="{model: {path: 'azureml://datastores/findings/paths/${{name}}'}}",
    )  # fmt: skip
    ended = house.client.wait(house.client.submit(job, name="apart").name, 120)
    assert ended is not None
    assert ended.state == "completed", ended.sentence
    assert set(contents(tmp_path / "training")) == before
    assert (tmp_path / "findings" / "apart" / "model").read_text() == "found"
    own = {str(path.relative_to(house.home)) for path, _ in contents(house.home)}
    assert any(path.startswith("snapshots/") for path in own)
    assert {"jobs/apart/logs/1.1/0/0.log", "jobs/apart/outputs/model/model"} <= own


@pytest.mark.feature("D3")
def test_an_output_of_one_file_may_lie_at_the_top_of_its_datastore(house: House):
    output = "{one: {type: uri_file, path: 'azureml://datastores/default/paths/top.txt', name: at-top}}"
    job = house.client.submit(house.job_file(code=".", command="echo top > ${{outputs.one}}", outputs=output))
    ended = house.client.wait(job.name, 120)
    assert ended is not None
    assert [(one.place, one.asset) for one in ended.outputs] == [("in_place", "at-top:1")]
    assert house.client.list_files("azureml://datastores/default/paths/top.txt").size == 4


@pytest.mark.feature("D3")
def test_outputs_of_a_job_that_failed_are_kept_and_not_registered(house: House):
    house.script(WRITES)
    output = (
        "{model: {mode: upload, path: 'azureml://datastores/default/paths/failed/${{name}}', name: never},"
        " other: {path: 'azureml://datastores/default/paths/other/${{name}}', name: never}}"
    )
    file = house.job_file(code=".", command="python t.py 3", outputs=output, drumbeat="{max_retries: 0}")
    job = house.client.submit(file, name="fails")
    ended = house.client.wait(job.name, 120)
    assert [(one.name, one.place) for one in ended.outputs] == [("model", "kept"), ("other", "in_place")]  # type: ignore[union-attr]
    with pytest.raises(NotFoundError):
        house.client.get_data("never")
    with pytest.raises(NotFoundError):
        house.client.list_files("azureml://datastores/default/paths/failed/fails")
    assert "outputs/model/a.bin" in [one.path for one in house.client.files("fails")]


def put_away(house: House) -> None:
    """Runs the job `waits`, whose output goes to the datastore `away`, where nobody is."""
    down = {
        "name": "away", "type": "s3", "bucket": "away", "endpoint": f"http://127.0.0.1:{free_ports(1)[0]}",
        "credentials": {"access_key_id": "a", "secret_access_key": "b"},
    }  # fmt: skip
    house.client.create_datastore(down, check=False)
    house.script(WRITES)
    output = "{model: {path: 'azureml://datastores/away/paths/m'}}"
    house.client.submit(house.job_file(code=".", command="python t.py 0", outputs=output), name="waits")


@pytest.mark.timeout(900)
@pytest.mark.feature("D3", "D1")
@pytest.mark.thorough
def test_a_store_that_is_down_holds_nobody_up_and_has_the_output_when_it_is_back(own_house: House, tmp_path: Path):
    house = own_house
    put_away(house)
    until(lambda: "output model isn't in its place yet" in house.client.get("waits").progress, what="a try")
    assert house.client.get("waits").state == "completed"
    stopped = house.run("server", "stop")
    assert stopped.returncode == 1
    refused = stopped.stderr
    assert "outputs are still being published: those of waits" in refused
    assert "drumbeat cancel JOB --discard" in refused
    assert "isn't in its place yet" in house.run("show", "waits").stdout
    kept = house.run("datastore", "delete", "away")
    assert kept.returncode == 1
    assert "output model of job waits is still to be published to datastore away" in kept.stderr
    (tmp_path / "away").mkdir()
    house.client.create_datastore({"name": "away", "type": "folder", "path": str(tmp_path / "away")})
    # Between two tries are 300 s at most.
    until(lambda: house.client.get("waits").outputs[0].place == "in_place", 330, "the output's publishing")
    assert "output model: 2 files in" in house.client.story("waits")[-1].sentence
    assert (tmp_path / "away" / "m" / "sub" / "b.bin").read_bytes() == b"b"


@pytest.mark.feature("D3")
@pytest.mark.thorough
def test_run_ends_with_1_where_an_output_is_nowhere_and_what_is_known_is_refused_before(
    own_house: House, tmp_path: Path
):
    house = own_house
    (tmp_path / "full").mkdir()
    house.client.create_datastore({"name": "full", "type": "folder", "path": str(tmp_path / "full")})
    (tmp_path / "full" / "m").write_text("in the way")
    house.script(WRITES)
    output = "{model: {path: 'azureml://datastores/full/paths/m'}}"
    said = house.run("run", house.job_file(code=".", command="python t.py 0", outputs=output))
    assert said.returncode == 1
    assert "completed in" in said.stdout
    assert "  output model isn't in its place: " in said.stdout
    down = {"name": "away", "type": "http", "url": f"http://127.0.0.1:{free_ports(1)[0]}"}
    house.client.create_datastore(down, check=False)
    away = "{model: {path: 'azureml://datastores/away/paths/m'}}"
    refused = house.run("run", house.job_file("web", code=".", command="python t.py 0", outputs=away)).stderr
    assert "can't be written to datastore away: what a web server gives can only be read" in refused


@pytest.mark.feature("D3")
@pytest.mark.thorough
def test_an_output_that_is_held_up_can_be_given_up(own_house: House):
    house = own_house
    put_away(house)
    until(lambda: "isn't in its place yet" in house.client.get("waits").progress, what="a try")
    assert "To give them up: drumbeat cancel waits --discard" in house.run("cancel", "waits").stderr
    house.run("cancel", "waits", "--discard")
    ended = house.client.wait("waits", 60)
    assert ended
    assert ended.outputs[0].problem == f"given up by {user_of_server()}"
    until(lambda: house.run("server", "stop").returncode == 0, what="the end of the last try, and the server's with it")


@pytest.mark.feature("X4", "D1")
@pytest.mark.thorough
def test_no_secret_is_anywhere_in_what_the_server_and_a_job_wrote(own_house: House, azurite: Azurite, tmp_path: Path):
    house = own_house
    azure_store(house, azurite, "secret")
    place = digits(tmp_path / "data")
    house.client.upload_data(place, "azureml://datastores/secret/paths/digits")
    house.client.create_data({"name": "digits", "path": "azureml://datastores/secret/paths/digits"})
    out = "{model: {path: 'azureml://datastores/secret/paths/out/${{name}}', name: out}}"
    said = run(house, "quiet", "azureml:digits:1", outputs=out)
    shown = house.run("show", "quiet").stdout + house.run("datastore", "show", "secret", "--json").stdout
    shown += json.dumps(house.client.connection.call("GET", "/datastores/secret"))
    # The database's journal as well: it is a file of the home.
    kept = dict(contents(house.home))
    assert any(file.name == "drumbeat.db" for file in kept)
    secret = azurite.key.encode()
    for text in (said.encode(), shown.encode(), *kept.values()):
        assert secret not in text
        assert secret[:20] not in text


@pytest.mark.feature("D1")
@pytest.mark.thorough
def test_the_servers_log_tells_no_address_that_was_asked(own_house: House, azurite: Azurite, web_server: WebServer):
    azure_store(own_house, azurite, "told")
    web_server.put("digits/a.csv", b"1\n")
    own_house.client.create_datastore(web_server.datastore("web"))
    own_house.client.list_files(f"{web_server.url}/digits")
    own_house.client.list_files("azureml://datastores/told/paths/")
    log = (own_house.home / "server.log").read_text()
    assert log
    assert web_server.url not in log
    assert azurite.endpoint not in log


@pytest.mark.feature("D1")
def test_a_datastore_that_doesnt_let_us_in_is_said_so_and_not_kept(house: House, azurite: Azurite):
    container = azurite.container()
    wrong = azurite.datastore("wrong", container, account_key="x" * 86 + "==")
    with pytest.raises(ForbiddenError, match="datastore wrong can't be reached") as refused:
        house.client.create_datastore(wrong)
    assert "--no-check" in refused.value.fix
    with pytest.raises(NotFoundError):
        house.client.datastore("wrong")


@pytest.mark.feature("D2")
def test_names_that_arent_there_are_refused_with_the_nearest(house: House, tmp_path: Path):
    house.client.create_data({"name": "letters", "path": str(digits(tmp_path))})
    file = house.job_file("typo", command=READS, inputs="{data: {path: 'azureml:leters:1'}}")
    with pytest.raises(UnknownNameError, match="there is no data leters"):
        house.client.submit(file)
    assert "Did you mean `letters`?" in house.run("run", file).stderr


@pytest.mark.feature("D4", "D10")
def test_a_version_is_neither_written_over_nor_forgotten_by_its_name_alone(house: House, tmp_path: Path):
    house.client.create_data({"name": "kept", "path": str(digits(tmp_path))})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.csv").write_text("another\n")
    refused = house.run("data", "upload", tmp_path / "other", "azureml:kept:1")
    assert refused.returncode != 0
    assert "azureml:kept:1 is a version of data, and a version never changes" in refused.stderr
    assert "which version of kept?" in house.run("data", "delete", "kept").stderr
    assert run(house, "reads-kept", "azureml:kept:1").startswith(run(house, "reads-digits", str(tmp_path / "digits")))


@pytest.mark.feature("D10", "D3")
def test_an_upload_that_broke_off_is_told_as_partial_and_gone_on_with(house: House, tmp_path: Path):
    place = digits(tmp_path)
    (place / "big.bin").write_bytes(b"x" * 200_000)
    uri = "azureml://datastores/default/paths/half"
    whole = house.client.upload_data(place, uri)
    assert (whole.files, whole.moved) == (3, 3)
    manifest = house.client.connection.call("GET", "/storage/manifest", params={"uri": uri})
    half = {**manifest, "complete": False, "files": {"big.bin": manifest["files"]["big.bin"]}}
    house.client.connection.call("POST", "/storage/manifest", json=half)
    with pytest.raises(ConflictError, match="is incomplete"):
        house.client.list_files(uri)
    assert house.client.upload_data(place, uri).moved == 2
    got = house.client.download_data(uri, tmp_path / "got")
    assert (got.files, got.moved) == (3, 3)
    assert (tmp_path / "got" / "big.bin").read_bytes() == b"x" * 200_000
    assert not list((tmp_path / "got").rglob(".*"))


@pytest.mark.thorough
def test_a_job_remembers_which_commit_its_code_was(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(git_commit, "TIMEOUT_S", 60.0)
    folder = house.folder / "versioned"
    file = house.job_file("versioned", code=".", command="'true'")
    for words in (
        ("init", "-q", "-b", "trunk"), ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "first"),
        ("remote", "add", "origin", "https://ann:s3cret@git.example/team/code.git"),
    ):  # fmt: skip
        subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True)
    house.client.submit(file, name="committed")
    told = house.client.get("committed").properties
    assert (told["azureml.git.branch"], told["azureml.git.dirty"]) == ("trunk", "False")
    assert told["mlflow.source.git.repoURL"] == "https://git.example/team/code.git"
    (folder / "new.py").touch()
    house.client.submit(file, name="changed")
    assert "with changes" in house.run("show", "changed").stdout
    assert "s3cret" not in house.run("show", "changed", "--json").stdout
