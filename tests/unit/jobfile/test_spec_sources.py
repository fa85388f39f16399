"""Packages that nodes build from source, as users write them."""

import pytest

from drumbeat.jobfile.environments.curated import CURATED
from drumbeat.jobfile.environments.definition import Definition, define, define_curated, environment_key
from drumbeat.jobfile.environments.environment_keys import environment_from
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("E1")

HOW = {
    "variables": {"WITH_MPI": 1},
    "cxx_standard": 17,
    "requires": ["cmake<4", "wheel"],
    "programs": ["c++"],
    "linked_to": ["torch"],
}


def made(how: dict[str, object], name: str = "horovod", wanted: str = "torch\nhorovod==0.28.1\n") -> Definition:
    document = {"name": "mine", "conda_file": "r.txt", "drumbeat": {"from_source": {name: how}}}
    return define(environment_from(document), EnvironmentFiles("r.txt", {"r.txt": wanted}), (3, 11))


def test_what_is_written_reaches_the_nodes():
    definition = made(HOW)
    python = definition.environment("mine")
    assert python
    (build,) = python.builds
    assert (build.package, build.variables, build.cxx_standard) == ("horovod", {"WITH_MPI": "1"}, 17)
    assert (build.requires, build.programs, build.linked_to) == (("cmake<4", "wheel"), ("c++",), ("torch",))


def test_a_setting_makes_another_key_and_the_name_is_spelt_in_any_way():
    assert environment_key(made(HOW)) == environment_key(made(HOW, "Horovod"))
    assert (
        len({environment_key(made(HOW)), environment_key(made({})), environment_key(made({**HOW, "cxx_standard": 20}))})
        == 3
    )


@pytest.mark.parametrize(
    "line", ["horovod==0.28.1", "horovod[x] == 0.28.1", "horovod===0.28.1", "horovod @ https://x.org/h-0.28.1.tar.gz"]
)
def test_an_exact_version_or_an_address_says_which_source(line: str):
    assert made(HOW, wanted=f"torch\n{line}\n").builds[0].package == "horovod"


@pytest.mark.parametrize(
    ("wanted", "name", "said"),
    [
        ("torch\nhorovod>=0.28\n", "horovod", "which version isn't said"),
        ("torch\nhorovod==0.28.*\n", "horovod", "which version isn't said"),
        ("torch\nhorovod\n", "horovod", "r.txt:2"),
        ("torch\nhorovod==0.28.1\n", "horovd", "`horovd` isn't among the requirements"),
        ("torch\n", "horovod", "Add horovod==VERSION to them"),
    ],
)
def test_what_no_two_nodes_would_build_alike_is_refused(wanted: str, name: str, said: str):
    with pytest.raises(SpecError, match=r".") as caught:
        made(HOW, name, wanted)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("cxx_standard", 15, "there is no C++15. One of 11, 14, 17, 20, 23."),
        ("cxx_standard", True, "expected a number"),
        ("requires", ["./tools"], "the nodes don't have it"),
        ("requires", ["-e tools"], "an editable install"),
        ("variables", {"A=B": "1"}, "A=B"),
        ("standard", 17, "standard"),
    ],
)
def test_a_wrong_setting_is_refused_where_it_stands(key: str, value: object, said: str):
    with pytest.raises(SpecError) as caught:
        made({**HOW, key: value})
    assert said in str(caught.value)
    assert "from_source.horovod" in str(caught.value)


@pytest.mark.feature("E2")
def test_horovods_own_definition_builds_it_against_its_torch_and_mpi():
    known = next(one for one in CURATED if one.title == "horovod")
    python = define_curated(known).environment("horovod")
    assert python
    (build,) = python.builds
    pinned = {line.partition("==")[0] for line in python.requirements if "==" in line}
    assert {"horovod", *build.linked_to} <= pinned
    assert build.cxx_standard == 17
