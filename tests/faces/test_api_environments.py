"""What a user's program asks of the API about environments, and what a client sends with a job that names one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.client import Client
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError, UnknownNameError
from tests.faces.api_house import TOKEN, House, house_in

pytestmark = pytest.mark.feature("E1")

PATH = "/api/v1/environments"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("home")) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as made:
        yield made


def create(house: House, name: str, text: str, **document: Any):
    body = {
        "document": {"name": name, "conda_file": "r.txt", **document},
        "texts": {"main": "r.txt", "files": {"r.txt": text}},
    }
    return house.http.post(PATH, json=body)


def test_versions_are_counted_and_the_same_content_is_the_same_version(house: House):
    first = create(house, "counted", "numpy\n", description="for numbers")
    again = create(house, "counted", "numpy\n", description="for numbers")
    other = create(house, "counted", "scipy\n")
    assert [one.status_code for one in (first, again, other)] == [201, 200, 201]
    assert [one.json()["version"] for one in (first, again, other)] == ["1", "1", "2"]
    told = house.http.get(f"{PATH}/counted/versions/1").json()
    assert told == first.json()
    assert (told["about"], told["python"]["requirements"], told["python"]["source"]) == (
        "for numbers", ["numpy"], "r.txt",
    )  # fmt: skip
    assert house.http.get(f"{PATH}/counted").json()["version"] == "2"
    listed = house.http.get(PATH, params={"name": "counted"}).json()
    assert [one["version"] for one in listed] == ["2", "1"]
    third = create(house, "counted", "numpy\n", description="for numbers")
    assert (third.json()["version"], third.json()["same_as"], told["same_as"]) == ("3", "1", "")
    taken = create(house, "counted", "pandas\n", version="2")
    assert (taken.status_code, taken.json()["code"]) == (409, "conflict")


def test_missing_environment_is_refused_with_the_nearest_name(house: House, client: Client):
    create(house, "digits", "numpy\n")
    with pytest.raises(NotFoundError, match=r"there is no environment dgits\. Did you mean `digits`"):
        client.environment("dgits")
    with pytest.raises(NotFoundError, match="Did you mean `lightgbm`"):
        client.environment("lightgmb")
    with pytest.raises(UnknownNameError, match="Did you mean `digits`"):
        client.plan({"command": "x", "environment": "dgits"})
    with pytest.raises(UnknownNameError, match=r"^(?!.*Did you mean)"):
        client.plan({"command": "x", "environment": "AzureML-nowhere@latest"})


def test_an_alias_that_can_mean_nothing_is_refused(client: Client):
    client.set_alias("environment", "round", "about")
    for name, target in (("itself", "itself"), ("about", "azureml:round:3")):
        with pytest.raises(SpecError, match=r"the aliases of environment .* are nested too deep"):
            client.set_alias("environment", name, target)
    with pytest.raises(SpecError, match="`what is` doesn't name an environment"):
        client.set_alias("environment", "cloud", "what is")
    assert [(one.name, one.target) for one in client.aliases()] == [("round", "about")]
    client.set_alias("environment", "round", None)


def test_a_version_is_forgotten(house: House):
    create(house, "brief", "numpy\n")
    assert house.http.delete(f"{PATH}/brief/versions/1").status_code == 204
    for path in (f"{PATH}/brief/versions/1", f"{PATH}/brief"):
        assert house.http.get(path).json()["code"] == "not_found"
    assert house.http.delete(f"{PATH}/brief/versions/1").status_code == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"document": {"conda_file": {}}}, "the environment needs the key `name`"),
        ({"document": {"name": "a/b", "conda_file": {}}}, "`name`: `a/b` isn't allowed here"),
        ({"document": {"name": "a", "version": "..", "conda_file": {}}}, "`version`"),
        ({"document": {"name": "a"}}, "the environment says nothing"),
        ({"document": {"name": "a", "build": {"path": "."}}}, "there is no Dockerfile at ./Dockerfile"),
        ({"document": {"name": "a", "conda_file": "r.txt"}}, "the file r.txt didn't come with the request"),
        (
            {"document": {"name": "a", "conda_file": "r.txt"}, "texts": {"main": "r.txt", "files": {"r.txt": "./x"}}},
            "is a local path, and the nodes don't have it",
        ),
        ({"document": {"name": "a", "conda_file": "r.txt"}, "texts": {"main": "r.txt"}}, "didn't come"),
        ({"document": {"name": "a", "conda_file": {}}, "texts": {"files": {"x": "y" * (1 << 21)}}}, "1 MiB together"),
    ],
)
def test_invalid_environment_is_refused(house: House, body: dict[str, Any], says: str):
    answer = house.http.post(PATH, json=body)
    assert answer.status_code in (400, 409, 413, 422), answer.text
    told = answer.json()
    assert says in " ".join([told["what"], *(one["what"] for one in told["fields"])])
    assert house.http.get(f"{PATH}/a").status_code == 404


@pytest.mark.feature("E2")
def test_curated_environments_can_be_listed_shown_and_overridden(client: Client, tmp_path: Path):
    curated = {one.name: one for one in client.environments(curated=True)}
    assert {"pytorch", "sklearn", "tensorflow", "lightgbm", "horovod", "deepspeed", "ray", "fastai"} == set(curated)
    assert client.environment("lightgbm", "7") == curated["lightgbm"]
    pinned = client.environment("AzureML-lightgbm-4.5")
    assert (pinned.title, pinned.notes) == ("lightgbm", ("with lightgbm 4.5",))
    assert client.environments("lightgbm-4", curated=True) == [curated["lightgbm"]]
    job = {"command": "true", "environment": "azureml:AzureML-lightgbm-3.3:12"}
    before = client.plan(job)
    assert before.plan.python
    assert before.plan.python.key == client.environment("AzureML-lightgbm-3.3").python.key  # pyright: ignore[reportOptionalMemberAccess]
    assert "is drumbeat's own 'lightgbm'" in before.notes[0]
    mine = client.create_environment({"name": "AzureML-lightgbm-3.3", "conda_file": {"dependencies": [{"pip": ["x"]}]}})
    after = client.plan(job)
    assert after.plan.python == mine.python
    assert after.plan.environment == "AzureML-lightgbm-3.3:1"


def test_environment_files_of_a_job_are_sent_and_errors_have_their_line(client: Client, tmp_path: Path):
    (tmp_path / "conda").mkdir()
    (tmp_path / "conda" / "env.yml").write_text("dependencies:\n- python=3.11\n- pip:\n  - numpy\n  - -r ../more.txt\n")
    (tmp_path / "more.txt").write_text("# more\nscipy\n-r gone.txt\n")
    file = tmp_path / "job.yml"
    file.write_text("command: 'true'\nenvironment:\n  conda_file: conda/env.yml\n  image: ubuntu\n")
    with pytest.raises(SpecError) as caught:
        client.plan(file)
    assert caught.value.fields[0].where == "more.txt:3"
    (tmp_path / "more.txt").write_text("# more\nscipy\n")
    shown = client.plan(file)
    python = shown.plan.python
    assert python
    assert (python.requirements, python.lines, python.source) == (("numpy", "scipy"), (4, 5), "conda/env.yml")
    assert any("the image ubuntu isn't used" in note for note in shown.notes)


def test_inline_conda_file_and_build_folder_report_their_own_lines(client: Client, tmp_path: Path):
    file = tmp_path / "job.yml"
    file.write_text(
        "command: 'true'\nenvironment:\n  conda_file:\n    dependencies:\n    - pip: [numpy,\n             scipy]\n"
    )
    python = client.plan(file).plan.python
    assert python
    assert (python.source, python.lines) == ("job.yml", (5, 6))
    file.write_text("command: 'true'\nenvironment:\n  build: {path: docker}\n")
    with pytest.raises(SpecError, match="there is no folder docker"):
        client.plan(file)
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "requirements.txt").write_text("numpy\n")
    shown = client.plan(file)
    assert shown.plan.python
    assert shown.plan.python.source == "docker/requirements.txt"
    assert "no Dockerfile is used" in shown.notes[0]


def test_missing_environment_file_is_refused_and_current_needs_none(client: Client, tmp_path: Path):
    file = tmp_path / "job.yml"
    file.write_text("command: 'true'\nenvironment: {conda_file: enviroment.yml}\n")
    (tmp_path / "environment.yml").write_text("dependencies: []\n")
    with pytest.raises(SpecError, match=r"Did you mean `environment\.yml`\?"):
        client.plan(file)
    assert client.plan(file, sets=["drumbeat.environment=current"]).plan.environment == "current"


def test_environment_lists_the_jobs_that_use_it(house: House, client: Client):
    made = client.create_environment(Environment(name="lineage", conda_file={"dependencies": [{"pip": ["numpy"]}]}))
    assert made.jobs == ()
    for name in ("first-user", "second-user"):
        house.submit(name, environment="azureml:lineage:1", drumbeat={"max_retries": 0})
    assert client.environment("lineage").jobs == ("second-user", "first-user")
    job = client.get("first-user")
    assert job.environment == "lineage:1"
    client.delete_environment("lineage", "1")
    with pytest.raises(UnknownNameError):
        client.plan({"command": "true", "environment": "lineage:1"})
    with pytest.raises(NotFoundError):
        client.environment("lineage")


def test_an_environment_made_in_python_from_a_file_or_with_other_values(client: Client, tmp_path: Path):
    (tmp_path / "r.txt").write_text("numpy\n")
    (tmp_path / "env.yml").write_text("$schema: x\nname: filed\nconda_file: r.txt\n")
    made = client.create_environment(tmp_path / "env.yml", sets=["version=5", "description=mine"])
    assert (made.title, made.about) == ("filed:5", "mine")
    with pytest.raises(ConflictError):
        client.create_environment(tmp_path / "env.yml", sets=["version=5"])
    with pytest.raises(SpecError, match="values are set in a file"):
        client.create_environment({"name": "x", "conda_file": {}}, sets=["version=5"])
    (tmp_path / "conda.yml").write_text("dependencies: [numpy]\n")
    with pytest.raises(SpecError, match="drumbeat environment create NAME --conda FILE"):
        client.create_environment(tmp_path / "conda.yml")
