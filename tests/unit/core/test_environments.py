"""Which environment a job means."""

import pytest

from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.environments import (
    EnvironmentCatalog,
    Registered,
    ResolvedEnvironment,
    resolve,
    to_document,
    wanted_names,
)
from drumbeat.core.planning.plan import PlanFacts, Sources
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import SpecError, UnknownNameError
from tests.support.messages import Messages


def version(name: str, number: str, text: str = "numpy\n") -> Registered:
    return Registered(name, number, to_document({"conda_file": "r.txt"}, EnvironmentFiles("r.txt", {"r.txt": text})))


MINE = {"mine": (version("mine", "2", "numpy==2\n"), version("mine", "1", "numpy==1\n"))}


def find(text: str, aliases: dict[str, str] | None = None, **registered: tuple[Registered, ...]) -> ResolvedEnvironment:
    named = {("environment", name): target for name, target in (aliases or {}).items()}
    return resolve(text, EnvironmentFiles(), EnvironmentCatalog({**MINE, **registered}, named))


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("text", "number", "is_noted"),
    [
        ("azureml:mine:1", "1", False),
        ("mine:2", "2", False),
        ("azureml:mine@latest", "2", False),
        ("mine", "2", True),
        ("azureml://registries/r/environments/mine/versions/1", "1", False),
        ("azureml://registries/r/environments/mine/labels/latest", "2", False),
    ],
)
def test_environment_of_a_user_is_found_by_every_form_of_its_name(text: str, number: str, is_noted: bool):
    found = find(text)
    assert found.python
    assert (found.name, found.python.name, found.asset) == (f"mine:{number}", f"mine:{number}", ("mine", number))
    assert found.python.requirements == (f"numpy=={number}",)
    assert (found.python.source, found.python.lines) == ("r.txt", (1,))
    assert bool(found.notes) == is_noted


@pytest.mark.feature("E1", "E2")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mine:7", "environment mine has no version 7; there is 2, 1"),
        ("mine@stable", "has no label 'stable'; there is `latest`"),
        ("nowhere:1", "drumbeat alias set environment nowhere current"),
        ("skleran", "Did you mean `sklearn`?"),
        ("azureml:mien:1", "Did you mean `mine`?"),
    ],
)
def test_missing_environment_is_refused_with_what_to_type(text: str, says: str):
    with pytest.raises(UnknownNameError) as caught:
        find(text)
    assert says in str(caught.value)


@pytest.mark.feature("E1")
def test_suggested_name_exists_and_differs_from_the_requested_one():
    for text, says in (
        ("yuors", "Did you mean `yours`?"),
        ("yours@latest", "Make it:"),
        ("ours", "Did you mean `yours`?"),
    ):
        with pytest.raises(UnknownNameError) as caught:
            resolve(text, EnvironmentFiles(), EnvironmentCatalog({text.partition("@")[0]: ()}, names=("yours",)))
        assert caught.value.fix.startswith(says)


@pytest.mark.feature("E2")
def test_curated_environment_is_named_as_such(messages: Messages):
    found = find("azureml://registries/azureml/environments/acpt-pytorch-2.2-cuda12.1/versions/44")
    assert found.python
    assert 'torch==2.2.*; python_version < "3.13"' in found.python.requirements
    assert found.name == "acpt-pytorch-2.2-cuda12.1 (curated: pytorch)"
    assert found.asset == ("acpt-pytorch-2.2-cuda12.1", "curated")
    messages.check(found.notes[0])


@pytest.mark.feature("E2", "J1")
@pytest.mark.parametrize("asked", ["AzureML-sklearn-1.5", "azureml:azureml-sklearn-1.5:7", "SKLEARN-1.5"])
def test_alias_of_a_curated_name_holds_for_its_other_spellings(asked: str):
    assert find(asked, {"sklearn-1.5": "mine:1"}).asset == ("mine", "1")
    assert find(asked, {"AzureML-Sklearn-1.5": "current"}).python is None
    assert find(asked, {"AzureML-sklearn-1.5": "sklearn-1.5"}).name.endswith("(curated: sklearn)")


@pytest.mark.feature("E2")
def test_users_environment_with_a_curated_name_counts_with_and_without_prefix():
    own = (version("sklearn-1.5", "1"),)
    assert find("AzureML-sklearn-1.5", **{"sklearn-1.5": own}).asset == ("sklearn-1.5", "1")
    assert wanted_names("AzureML-sklearn-1.5", {}) == ["AzureML-sklearn-1.5", "sklearn-1.5"]
    assert wanted_names("sklearn-1.5", {}) == ["sklearn-1.5", "AzureML-sklearn-1.5"]


@pytest.mark.feature("J1")
def test_alias_of_an_image_is_what_a_job_that_names_the_image_alone_runs_in():
    shelf = EnvironmentCatalog(MINE, {("environment", "library/python:3.11"): "mine:1"})
    image = Environment.made({"image": "library/python:3.11"})
    assert resolve(image, EnvironmentFiles(), shelf).asset == ("mine", "1")
    assert wanted_names(image, shelf.aliases) == ["mine"]
    other = Environment.made({"image": "library/python:3.12"})
    assert resolve(other, EnvironmentFiles(), shelf).image == "library/python:3.12"


@pytest.mark.feature("E2")
def test_users_environment_precedes_the_curated_one_in_any_version(messages: Messages):
    own = (version("AzureML-sklearn-1.0", "1", "scikit-learn==1.0\n"),)
    found = find("azureml:AzureML-sklearn-1.0:44", **{"AzureML-sklearn-1.0": own})
    assert found.python
    assert found.python.requirements == ("scikit-learn==1.0",)
    messages.check(*found.notes)


@pytest.mark.feature("E2", "J1")
def test_aliases_lead_to_current_to_curated_ones_and_to_a_persons_own():
    assert find("azureml:cloud:3", {"cloud": "current"}).python is None
    assert find("azureml:cloud:3", {"cloud:3": "mine:1", "cloud": "current"}).asset == ("mine", "1")
    assert find("azureml://registries/r/environments/x/versions/1", {"x": "sklearn"}).asset == ("sklearn", "curated")
    assert find("AzureML-sklearn-1", {"AzureML-sklearn-1": "current"}) == ResolvedEnvironment(
        notes=("environment AzureML-sklearn-1 means current here (drumbeat alias list)",)
    )
    assert find("a", {"a": "b", "b": "mine"}).asset == ("mine", "2")
    with pytest.raises(SpecError, match="are nested too deep"):
        find("a", {"a": "b", "b": "a"})


def test_only_versions_of_possible_names_are_requested():
    aliases = {("environment", "cloud"): "mine:1", ("environment", "x"): "current"}
    assert [wanted_names(one, aliases) for one in ("azureml:cloud:3", "x", "other@latest", None)] == [
        ["mine"], [], ["other"], [],
    ]  # fmt: skip
    assert wanted_names(Environment(image="x"), aliases) == []


def plan(**keys: object) -> planning.Planned:
    facts = PlanFacts(
        {"local": (4, 0)}, environments=EnvironmentCatalog(MINE), prepare={"local": "set -e\nmodule load 'cuda'"}
    )
    texts = EnvironmentFiles("env.yml", {"env.yml": "dependencies:\n- pip:\n  - numpy\n"})
    return planning.make(CommandJob.made({"command": "x"} | keys), "j", "e", Sources(environment=texts), facts)


@pytest.mark.feature("E1")
def test_plan_has_the_environment_that_nodes_build():
    made = plan(environment={"conda_file": "env.yml", "image": "x"})
    assert made.plan.python
    assert (made.plan.environment, made.plan.python.requirements, made.plan.python.lines) == (
        "env.yml",
        ("numpy",),
        (3,),
    )
    assert made.asset is None
    assert plan(environment="mine").asset == ("mine", "2")
    assert plan().plan.python is None
    current = plan(environment="mine", drumbeat={"environment": "current"}).plan
    assert (current.environment, current.python) == ("current", None)


@pytest.mark.parametrize("install", ["pip install x", "python -m pip3.11 install -U x", "uv pip install x"])
def test_installation_into_the_shared_python_is_noted(install: str):
    def notes(**keys: object) -> list[str]:
        return [note for note in plan(**keys).notes if "changes the Python that every job" in note]

    assert notes(command=f"{install} && python t.py")
    assert notes(drumbeat={"prepare": install})
    assert not notes(command="python t.py")
    assert not notes(command=install, environment="mine")
    assert not notes(command=install, environment={"image": "x"})


@pytest.mark.feature("L12")
def test_preparation_of_a_compute_precedes_the_jobs_in_its_own_shell():
    assert plan().plan.prepare == "set -e\nmodule load 'cuda'"
    both = plan(drumbeat={"prepare": "make"}).plan.prepare
    assert both == "/bin/bash -c 'set -e\nmodule load '\"'\"'cuda'\"'\"'' || exit\nmake"


@pytest.mark.feature("L12")
def test_preparation_has_the_values_of_the_job_and_keeps_its_files():
    inputs = {"ver": "1.0", "data": {"type": "uri_folder", "path": "/d"}, "extra": {"type": "string", "optional": True}}
    prepare = "pip install foo==${{inputs.ver}}$[[ ${{inputs.extra}}]] && ls ${{inputs.data}} > ${{name}}"
    facts = PlanFacts({"local": (4, 0)}, prepare={"local": "echo ${{inputs.ver}}"})
    job = CommandJob.made({"command": "x", "inputs": inputs, "drumbeat": {"prepare": prepare}})
    made = planning.make(job, "j", "e", Sources(inputs={"data": "file:///d"}), facts)
    assert made.plan.prepare == (
        "/bin/bash -c 'echo ${{inputs.ver}}' || exit\npip install foo==1.0 && ls ${{inputs.data}} > j"
    )
