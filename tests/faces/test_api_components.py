"""Components through the API and the client: registered with their code, listed, shown, deleted, kept by prune."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.errors import ConflictError, NotFoundError, SpecError
from tests.faces.api_house import TOKEN, House, house_in

pytestmark = pytest.mark.feature("P1")

TRAIN = """\
name: train
display_name: Train it
command: python train.py ${{inputs.lr}} ${{outputs.model}}
code: ./src
environment: {conda_file: conda.yml, image: i}
inputs: {lr: {type: number, default: 0.1}}
outputs: {model: {type: uri_folder}}
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("home")) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as made:
        yield made


def lay(folder: Path, text: str = TRAIN) -> Path:
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src/train.py").write_text("print('hello')\n")
    (folder / "conda.yml").write_text("dependencies: [python=3.11]\n")
    (folder / "train.yml").write_text(text)
    return folder / "train.yml"


def test_component_is_registered_with_its_code_and_same_content_as_same_version(client: Client, tmp_path: Path) -> None:
    first, again = client.create_component(lay(tmp_path)), client.create_component(tmp_path / "train.yml")
    assert first == again
    assert (first.title, first.type, first.display_name, [*first.inputs]) == ("train:1", "command", "Train it", ["lr"])
    assert len(first.code[""]) == 64
    (tmp_path / "src/train.py").write_text("print('other')\n")
    assert client.create_component(tmp_path / "train.yml").version == "2"
    assert client.component("train").version == "2"
    assert [one.version for one in client.components("train")] == ["2", "1"]
    assert client.component("train", "1").document["command"].startswith("python train.py")
    with pytest.raises(ConflictError, match="train:2"):
        client.create_component(tmp_path / "train.yml", sets=["version=2", "description=another"])
    client.delete_component("train", "2")
    assert client.component("train").version == "1"


def test_a_pipeline_component_is_registered_with_the_components_that_it_names(client: Client, tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "all.yml").write_text("name: all\ntype: pipeline\njobs: {fit: {component: ./train.yml}}\n")
    made = client.create_component(tmp_path / "all.yml")
    assert (made.type, [*made.code]) == ("pipeline", ["fit"])
    assert made.document["jobs"]["fit"]["component"]["name"] == "train"


def test_unregistered_component_is_refused_with_the_nearest_name(client: Client, tmp_path: Path) -> None:
    client.create_component({"name": "evaluate", "command": "echo"})
    with pytest.raises(NotFoundError, match=r"there is no component evaluat\. Did you mean `evaluate`"):
        client.component("evaluat")
    with pytest.raises(NotFoundError, match="component evaluate has no version 7"):
        client.component("evaluate", "7")
    with pytest.raises(SpecError, match="the component needs the key `name`"):
        client.create_component(lay(tmp_path, TRAIN.replace("name: train\n", "", 1)))


def test_the_code_of_a_registered_component_is_kept_by_prune(client: Client, tmp_path: Path) -> None:
    made = client.create_component(lay(tmp_path, TRAIN.replace("name: train", "name: kept", 1)))
    client.prune(timedelta(0))
    client.connection.send("HEAD", f"/snapshots/{made.code['']}")


READ = """\
name: read
command: cat ${{inputs.data}}/a ${{inputs.n}}
inputs: {data: {type: uri_folder, path: ./words}, n: {type: integer, default: 1}}
"""
CURRENT = {"environment": "current"}


def lay_data(folder: Path) -> Path:
    (folder / "words").mkdir()
    (folder / "words/a").write_text("then")
    (folder / "read.yml").write_text(READ)
    (folder / "all.yml").write_text(
        "name: read_all\ntype: pipeline\ninputs: {words: {type: uri_folder, path: ./words}}\n"
        "jobs: {read: {component: ./read.yml, inputs: {data: '${{parent.inputs.words}}'}}}\n"
    )
    return folder / "read.yml"


def test_local_data_that_is_a_default_of_a_registered_component_goes_along(client: Client, tmp_path: Path) -> None:
    made = client.create_component(lay_data(tmp_path))
    whole = client.create_component(tmp_path / "all.yml")
    (tmp_path / "words/a").write_text("now")
    name, other = f"azureml:{made.title}", "https://localhost/x/"
    client.prune(timedelta(0))
    steps = {
        "here": {"component": name},
        "there": {"component": name, "inputs": {"data": {"type": "uri_folder", "path": other}}},
        "inside": {"component": f"azureml:{whole.title}"},
    }
    search = {"n": {"type": "choice", "values": [1]}}
    sweep = {
        "type": "sweep", "trial": name, "sampling_algorithm": "grid", "search_space": search,
        "objective": {"goal": "minimize", "primary_metric": "loss"}, "drumbeat": CURRENT,
    }  # fmt: skip
    taken: dict[str, str] = {}
    for step, node in steps.items():
        (planned,) = client.plan({"type": "pipeline", "jobs": {step: node}, "drumbeat": CURRENT}).plan.inputs
        taken[step] = planned.uri
    (planned,) = client.plan(sweep).plan.inputs
    taken["trial"] = planned.uri
    (planned,) = client.plan(
        {"type": "pipeline", "component": f"azureml:{whole.title}", "drumbeat": CURRENT}
    ).plan.inputs
    taken["whole"] = planned.uri
    assert taken["there"] == other
    (snapshot,) = {uri for step, uri in taken.items() if step != "there"}
    digest = snapshot.removeprefix("snapshot:")
    assert len(digest) == 64
    client.connection.send("HEAD", f"/snapshots/{digest}")
