"""Component files that a pipeline or a sweep names: read from where each is written, and put into the document."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest

from drumbeat.client.component_files import FileOrigin, Inlined, inline, inline_trial
from drumbeat.client.connection import Connection
from drumbeat.client.discovery import ServerLocation
from drumbeat.client.environment_files import EnvironmentOrigin, collect_files
from drumbeat.client.snapshot import pack
from drumbeat.client.step_files import Courier
from drumbeat.jobfile import from_dict, load_component, pipeline
from drumbeat.jobfile.data.inputs_outputs import DataType
from drumbeat.jobfile.job_file import load_file
from drumbeat.jobfile.pipelines.absolute_paths import with_absolute_paths
from drumbeat.jobfile.pipelines.component_file import component_path
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.errors import SpecError

TRAIN = """\
type: command
name: train
command: python train.py ${{inputs.data}} ${{inputs.lr}} ${{outputs.model}}
code: ./src
environment: {conda_file: conda.yml, image: i}
inputs: {data: {type: uri_folder}, lr: {type: number, default: 0.1}, note: {type: string, optional: true}}
outputs: {model: {type: uri_folder}}
"""
INNER = """\
type: pipeline
inputs: {data: {type: uri_folder}}
outputs: {model: }
jobs:
  fit:
    type: command
    component: ../train/train.yml
    inputs: {data: "${{parent.inputs.data}}"}
    outputs: {model: "${{parent.outputs.model}}"}
"""


def lay(folder: Path, **files: str) -> Path:
    for name, text in {"train/train.yml": TRAIN, "inner/inner.yml": INNER, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def inlined(folder: Path, text: str) -> Inlined:
    file = lay(folder, **{"p.yml": text}) / "p.yml"
    loaded = load_file(file)
    return inline(to_dict(loaded.job), FileOrigin(loaded.base, "p.yml", loaded.text))


@pytest.mark.feature("P1")
def test_components_are_put_into_the_pipeline_and_keep_the_folder_of_their_file(tmp_path: Path) -> None:
    text = (
        "type: pipeline\njobs:\n  fit: {component: ./train/train.yml, inputs: {data: ./data}}\n"
        "  outer: {component: file:./inner/inner.yml, inputs: {data: {path: ./data}}}\n"
    )
    made = inlined(tmp_path, text)
    assert [*made.steps] == ["fit", "outer", "outer/fit"]
    assert made.document["jobs"]["outer"]["type"] == "pipeline"
    assert made.document["jobs"]["fit"]["inputs"] == {"data": {"type": "uri_folder", "path": "./data"}}
    for path in ("fit", "outer/fit"):
        source = made.steps[path]
        assert source.command
        assert source.environment
        assert source.command[1].base.resolve() == tmp_path / "train"
        assert source.command[0]["code"] == "./src"
        assert source.environment[1].base.resolve() == tmp_path / "train"
    assert made.steps["fit"].inputs[1].base == tmp_path
    assert from_dict(made.document)


@pytest.mark.parametrize("kind", ["automl", "parallel_for", "if_else"])
def test_step_that_is_not_run_is_sent_as_it_is(tmp_path: Path, kind: str) -> None:
    text = (
        f"type: pipeline\njobs:\n  m: {{type: {kind}, search_space: [{{lr: 1}}], inputs: [a]}}\n  a: {{command: x}}\n"
    )
    made = inlined(tmp_path, text)
    assert [*made.steps] == ["a"]
    assert made.document["jobs"]["m"] == {"type": kind, "search_space": [{"lr": 1}], "inputs": ["a"]}


@pytest.mark.feature("P1")
def test_an_environment_at_the_step_is_looked_up_beside_the_pipeline(tmp_path: Path) -> None:
    text = (
        "type: pipeline\njobs:\n  fit:\n    component: ./train/train.yml\n    inputs: {data: {path: d}}\n"
        "    environment: {conda_file: here.yml, image: i}\n  own: {command: x, code: ./c}\n"
    )
    made = inlined(tmp_path, text)
    fit, own = made.steps["fit"].environment, made.steps["own"].command
    assert fit
    assert own
    assert (fit[1].base, fit[1].keys) == (tmp_path, ("jobs", "fit"))
    assert (own[0]["code"], own[1].base) == ("./c", tmp_path)


@pytest.mark.feature("P1")
def test_a_registered_component_stays_a_name(tmp_path: Path) -> None:
    made = inlined(
        tmp_path, "type: pipeline\njobs: {fit: {component: azureml:train@latest, inputs: {data: {path: d}}}}\n"
    )
    assert made.document["jobs"]["fit"]["component"] == "azureml:train@latest"
    assert made.steps["fit"].command is None


@pytest.mark.feature("P1")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("./trian/train.yml", "p.yml: jobs.fit.component: no such file"),
        ("./train.yml", "A registered component is named `azureml:NAME:VERSION`."),
        ("azureml:x@best", "components have no label `best`; there is `latest`"),
        ("./sweep.yml", "this version of drumbeat doesn't run components of type `sweep`"),
        ("./loop.yml", "component files name one another in a circle"),
    ],
)
def test_a_component_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, name: str, problem: str) -> None:
    loop = "type: pipeline\njobs: {again: {type: pipeline, component: ./loop.yml}}\n"
    lay(tmp_path, **{"sweep.yml": "type: sweep\ntrial: {}\n", "loop.yml": loop})
    with pytest.raises(Exception) as caught:  # noqa: PT011 - SpecError and NotYetError
        inlined(tmp_path, f"type: pipeline\njobs: {{fit: {{component: '{name}'}}}}\n")
    assert problem in str(caught.value)


SWEEP = """\
type: sweep
trial: ./train/train.yml
sampling_algorithm: random
search_space: {lr: {type: uniform, min_value: 0, max_value: 1}}
objective: {goal: minimize, primary_metric: loss}
inputs: {data: {path: ./data}}
"""


@pytest.mark.feature("S1", "P1")
def test_a_sweep_of_a_component_has_its_command_and_its_defaults(tmp_path: Path) -> None:
    lay(tmp_path)
    loaded = from_dict({**_document(SWEEP), "inputs": {"data": {"path": "./data"}}})
    document, origin = inline_trial(to_dict(loaded), FileOrigin(tmp_path, "s.yml"))
    assert document["trial"]["command"] == ("python train.py ${{inputs.data}} ${{search_space.lr}} ${{outputs.model}}")
    assert document["inputs"]["note"] == {"type": "string", "optional": True}
    assert origin.base.resolve() == tmp_path / "train"
    assert from_dict(document)
    with pytest.raises(SpecError, match=r"s\.yml: search_space\.rate: the component has no input `rate`"):
        inline_trial(
            {**document, "trial": "./train/train.yml", "search_space": {"rate": {}}}, FileOrigin(tmp_path, "s.yml")
        )


def _document(text: str) -> dict[str, Any]:
    import yaml

    return yaml.safe_load(text)


@pytest.mark.feature("P1", "J2")
def test_a_component_loaded_in_python_keeps_the_paths_of_its_file(tmp_path: Path) -> None:
    lay(tmp_path)
    fit, outer = load_component(tmp_path / "train/train.yml"), load_component(tmp_path / "inner/inner.yml")

    @pipeline
    def whole() -> dict[str, Any]:
        first = fit(data="./d")
        return {"model": outer(data=first.outputs.model).outputs.model}

    jobs = to_dict(whole().to_job())["jobs"]
    assert jobs["first"]["component"]["code"] == str(tmp_path / "train/src")
    assert jobs["first"]["component"]["environment"]["conda_file"] == str(tmp_path / "train/conda.yml")
    nested = jobs["step"]["component"]["jobs"]["fit"]["component"]
    assert nested == str(tmp_path / "train/train.yml")


@pytest.mark.feature("P1")
def test_code_with_additional_includes_is_packed_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, **{
        "train/more.yml": f"{TRAIN}additional_includes: [../common, ../config.yml]\n",
        "train/conda.yml": "name: c", "train/src/train.py": "x", "train/src/.gitignore": "/data/", "common/a.py": "y",
        "config.yml": "z", "train/src/data/big.bin": "never read",
    })  # fmt: skip
    os.mkfifo(tmp_path / "train/src/data/pipe")
    (tmp_path / "train/src/link").symlink_to(tmp_path / "train/src/train.py")
    text = "type: pipeline\njobs:\n  fit: {component: ./train/more.yml, inputs: {data: {path: azureml:d:1}}}\n"
    made = inlined(tmp_path, text)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))  # Nothing is copied.
    connection = Connection(ServerLocation(tmp_path), is_starting=False)
    parts = Courier(connection, is_sending=False).parts("fit", made.steps["fit"])
    whole = tmp_path / "whole"
    lay(whole, **{"train.py": "x", ".gitignore": "/data/", "common/a.py": "y", "config.yml": "z"})
    shutil.rmtree(whole / "train")
    shutil.rmtree(whole / "inner")
    (whole / "link").symlink_to("train.py")
    packed = pack(whole, "code")
    packed.file.close()
    assert parts.code == packed.digest


BOUND = """\
type: pipeline
inputs: {raw: {path: ./raw}}
jobs:
  fit:
    command: x
    inputs:
      plain:
        type: TYPE
        path: ${{parent.jobs.prep.outputs.rows}}
      quoted: {type: TYPE, mode: download, path: "${{parent.inputs.raw}}"}
      part: {type: TYPE, path: '${{ jobs.prep.outputs.rows }}/part'}
  outer: {component: ./inner/inner.yml, inputs: {data: {type: TYPE, path: "${{parent.inputs.raw}}"}}}
  prep: {command: y, outputs: {rows: }}
"""


@pytest.mark.feature("P1")
@pytest.mark.parametrize("type_", get_args(DataType))
def test_input_of_a_step_by_an_expression_with_keys_is_no_local_path(tmp_path: Path, type_: str) -> None:
    made = inlined(tmp_path, BOUND.replace("TYPE", type_))
    courier = Courier(Connection(ServerLocation(tmp_path), is_starting=False), is_sending=False)
    assert courier.parts("fit", made.steps["fit"]).inputs == {}
    assert courier.parts("outer", made.steps["outer"]).inputs == {}


@pytest.mark.feature("P1")
def test_local_path_of_a_step_that_is_not_there_is_refused(tmp_path: Path) -> None:
    made = inlined(tmp_path, "type: pipeline\njobs: {fit: {command: x, inputs: {a: {path: ./here}}}}\n")
    with pytest.raises(SpecError, match="there is nothing at"):
        Courier(Connection(ServerLocation(tmp_path), is_starting=False), is_sending=False).parts(
            "fit", made.steps["fit"]
        )


@pytest.mark.feature("P1")
def test_local_path_that_is_a_components_default_counts_from_the_components_file(tmp_path: Path) -> None:
    default = "inputs: {data: {type: uri_folder, path: ./default}"
    files = {
        "train/train.yml": TRAIN.replace("inputs: {data: {type: uri_folder}", default),
        "inner/inner.yml": INNER.replace("inputs: {data: {type: uri_folder}", default),
    }
    text = (
        "type: pipeline\njobs:\n  fit: {component: ./train/train.yml}\n  outer: {component: ./inner/inner.yml}\n"
        "  own: {component: ./train/train.yml, inputs: {data: ./data}}\n"
    )
    lay(tmp_path, **files, **{"p.yml": text, "whole.yml": "type: pipeline\ncomponent: ./inner/inner.yml\n"})
    made, whole = (
        inline(to_dict(loaded.job), FileOrigin(loaded.base, loaded.source, loaded.text))
        for loaded in (load_file(tmp_path / "p.yml"), load_file(tmp_path / "whole.yml"))
    )
    of_train, of_inner = str(tmp_path / "train" / "default"), str(tmp_path / "inner" / "default")
    for path, place in (("fit", of_train), ("outer", of_inner), ("own", "./data")):
        assert made.document["jobs"][path]["inputs"]["data"]["path"] == place
        assert made.steps[path].inputs[0]["inputs"]["data"]["path"] == place
    assert whole.document["inputs"]["data"]["path"] == of_inner
    assert from_dict(made.document)
    assert from_dict(whole.document)
    sweep, _ = inline_trial({"trial": "./train/train.yml", "search_space": {}}, FileOrigin(tmp_path, "s.yml"))
    assert sweep["inputs"]["data"]["path"] == of_train


@pytest.mark.feature("P1", "J2")
@pytest.mark.parametrize("url", ["file:", "file://", "file://{folder}/", "file://localhost{folder}/", "FILE:"])
def test_file_url_of_a_component_names_the_path_with_its_encoded_characters(tmp_path: Path, url: str) -> None:
    folder = lay(tmp_path, **{"my dir/env 1.yml": "name: e\n", "my dir/train.yml": TRAIN})
    begin = url.format(folder=folder)
    assert component_path(f"{begin}my%20dir/train.yml", folder) == folder / "my dir/train.yml"
    document = {
        "code": f"{begin}my%20dir",
        "environment": {"conda_file": f"{begin}my%20dir/env%201.yml"},
        "inputs": {
            "data": {"path": f"{begin}my%20dir"},
            "of": {"path": "azureml:d:1"},
            "url": {"path": "s3://a/b%20c"},
        },
    }
    made = with_absolute_paths(document, folder)
    place = str(folder / "my dir")
    assert (made["code"], made["environment"]["conda_file"]) == (place, f"{place}/env 1.yml")
    assert [one["path"] for one in made["inputs"].values()] == [place, "azureml:d:1", "s3://a/b%20c"]


@pytest.mark.feature("E1")
@pytest.mark.parametrize("url", ["file:", "file://", "file://{folder}/", "file://localhost{folder}/", "FILE:"])
def test_file_url_of_an_environment_names_the_path_with_its_encoded_characters(tmp_path: Path, url: str) -> None:
    folder = lay(tmp_path, **{"my dir/env 1.yml": "name: e\n", "my dir/Dockerfile": "FROM scratch\n"})
    begin = url.format(folder=folder)
    kept: list[Path] = []

    def keep(place: Path, _key: str) -> str:
        kept.append(place)
        return "0" * 64

    of_file = collect_files({"conda_file": f"{begin}my%20dir/env%201.yml"}, EnvironmentOrigin(folder), keep)
    assert [*of_file.files.values()] == ["name: e\n"]
    assert collect_files({"build": {"path": f"{begin}my%20dir"}}, EnvironmentOrigin(folder), keep).context
    assert [place.resolve() for place in kept] == [folder / "my dir"]
    with pytest.raises(SpecError, match="isn't fetched"):
        collect_files({"conda_file": "https://h/e.yml"}, EnvironmentOrigin(folder), keep)
