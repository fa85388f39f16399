"""What a conda file and a requirements file ask for, line by line, and the key of what comes of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.client.environment_files import EnvironmentOrigin, collect_files
from drumbeat.jobfile.environments.curated import CURATED, curated, curated_image, for_name, package_name
from drumbeat.jobfile.environments.definition import (
    Definition,
    define,
    define_file,
    define_requirements,
    environment_key,
)
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.environments.included_files import beside
from drumbeat.jobfile.environments.inline_conda import requirement_lines, requirements_in
from drumbeat.jobfile.environments.references import EnvironmentReference, parse_reference
from drumbeat.jobfile.environments.requirements import included
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import RefusedError, SpecError

OWN = (3, 11)
DOCKERFILE = "docker/Dockerfile"

CONDA = """\
name: mine
channels:
  - conda-forge
dependencies:
  - python=3.11
  - pip=24
  - gcc_linux-64=13
  - pip:
      - torch==2.13.0   # the CPU build where it is
      - -r ../pip.txt
      - --extra-index-url https://pypi.example/simple
"""


def read(text: str, name: str = "requirements.txt", **others: str) -> Definition:
    return define_file(EnvironmentFiles(name, {name: text, **others}), name, OWN)


@pytest.mark.feature("E1")
def test_a_conda_file_is_read_with_its_lines():
    texts = EnvironmentFiles("conda/env.yml", {"conda/env.yml": CONDA, "pip.txt": "numpy\npandas>=2\n"})
    made = define(Environment(image="mcr.microsoft.com/azureml/openmpi", conda_file="conda/env.yml"), texts, OWN)
    python = made.environment("mine:1")
    assert (python.name, python.python, python.source) == ("mine:1", "3.11", "conda/env.yml")
    assert python.requirements == (
        "torch==2.13.0", "numpy", "pandas>=2", "--extra-index-url https://pypi.example/simple",
    )  # fmt: skip
    assert python.lines == (9, 10, 10, 11), "what another file brought stands where that is named"
    assert (python.conda, python.channels) == (("gcc_linux-64=13",), ("conda-forge",))
    assert [(line.file, line.number) for line in made.lines[1:3]] == [("pip.txt", 1), ("pip.txt", 2)]
    assert any("openmpi isn't used" in note for note in made.notes)


@pytest.mark.feature("E1")
def test_comments_continuations_and_empty_lines_are_pips():
    text = "\ufeff# first\n\nnumpy>=2, \\\n    <3  # why\n   pandas # x\n# a \\\nscipy\nlast \\"
    found = define_requirements(text, "r.txt")
    assert [(line.text, line.number) for line in found.lines] == [
        ("numpy>=2,     <3", 3), ("pandas", 5), ("scipy", 7), ("last", 8),
    ]  # fmt: skip


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("-i https://x/simple", "--index-url https://x/simple"),
        ("--index-url=https://x/simple", "--index-url https://x/simple"),
        ("--find-links /opt/wheels", "--find-links /opt/wheels"),
        ("-f https://x/wheels", "--find-links https://x/wheels"),
        ("--no-index", "--no-index"),
        ("--pre", "--pre"),
        ("git+https://github.com/a/b@v1#egg=b", "git+https://github.com/a/b@v1#egg=b"),
        ("b @ git+ssh://git@github.com/a/b", "b @ git+ssh://git@github.com/a/b"),
        ("https://x/b-1-py3-none-any.whl", "https://x/b-1-py3-none-any.whl"),
        ("numpy==2.1 --hash=sha256:00", "numpy==2.1 --hash=sha256:00"),
        ("--extra-index-url https://${USER}:${TOKEN}@x/simple", "--extra-index-url https://${USER}:${TOKEN}@x/simple"),
        ("--index-url https://__token__:${TOKEN}@x/simple", "--index-url https://__token__:${TOKEN}@x/simple"),
        ("b @ git+https://oauth2:${TOKEN}@x/a/b.git", "b @ git+https://oauth2:${TOKEN}@x/a/b.git"),
    ],
)
def test_what_pip_takes_from_elsewhere_stays(line: str, kept: str):
    assert [one.text for one in read(f"{line}\n").lines] == [kept]


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("./pkg", "is a local path, and the nodes don't have it"),
        ("../pkg[extra]", "is a local path"),
        (".", "is a local path"),
        ("-e .", "an editable install can't be shared"),
        ("-e git+https://github.com/a/b", "an editable install can't be shared"),
        ("file:///pkg", "is a local path"),
        ("pkg @ file:///pkg", "is a local path"),
        ("sub/pkg", "is a local path"),
        ("wheels/b-1-py3-none-any.whl", "is a local path"),
        ("b-1-py3-none-any.whl", "is a local path"),
        ("--find-links wheels", "is a folder beside this file"),
        ("-c pins.txt", "there is no file `pins.txt`"),
        ("-c https://host/pins.txt", "aren't fetched"),
        ("--user", "the option `--user` isn't supported"),
        ("--extra-index https://x", "Did you mean `--extra-index-url`?"),
        ("-r other.txt", "there is no file `other.txt`"),
        ("-r requirements.txt", "includes itself"),
        ("-r https://x/r.txt", "aren't fetched"),
        ("numpy=2.1", "`numpy=2.1` isn't a requirement"),
        ("two words", "isn't a requirement"),
        ("--index-url https://me:secret@x/simple", "has credentials in it"),
        ("b @ https://token@x/b.whl", "has credentials in it"),
        ("b @ https://token:@x/b.whl", "has credentials in it"),
        ("--index-url https://me:pre${TOKEN}@x/simple", "has credentials in it"),
        ("--index-url https://me:${TOKEN}x@x/simple", "has credentials in it"),
        ("--extra-index-url https://x/simple?token=hush", "`token=…` in this URL is a credential"),
        ("--find-links=https://${USER_TOKEN}@x/list?a=1&api_key=hush", "`api_key=…` in this URL is a credential"),
        ("b @ https://x/b.whl?sig=hush", "`sig=…` in this URL is a credential"),
        ("git+https://x/y.git?access_token=hush", "`access_token=…` in this URL is a credential"),
        ("--index-url https://x/simple?token=${TOKEN}", "`token=…` in this URL is a credential"),
    ],
)
def test_what_the_nodes_cant_have_is_refused_at_its_line(line: str, says: str):
    with pytest.raises(SpecError) as caught:
        read(f"numpy\n{line}\n")
    assert caught.value.fields[0].where == "requirements.txt:2"
    assert says in str(caught.value)


@pytest.mark.feature("E1")
def test_a_secret_isnt_repeated_in_its_refusal():
    with pytest.raises(SpecError) as caught:
        read("--index-url https://me:hush@x/simple\n")
    assert "hush" not in str(caught.value)


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    "line", ["--index-url https://me:hush@x/simple", "--extra-index-url https://x/simple?token=hush"]
)
@pytest.mark.parametrize("file", ["requirements.txt", "env.yml"])
def test_credentials_in_an_environments_files_are_refused_before_they_are_sent(tmp_path: Path, file: str, line: str):
    text = f"numpy\n{line}\n" if file == "requirements.txt" else f"dependencies:\n- pip:\n  - {line}\n"
    (tmp_path / file).write_text(text)
    written = {"conda_file": file}
    with pytest.raises(SpecError) as caught:
        collect_files(written, EnvironmentOrigin(tmp_path), lambda _path, _key: "")
    assert caught.value.fields[0].where in ("requirements.txt:2", "env.yml:3")
    assert "hush" not in str(caught.value)


@pytest.mark.feature("E1")
def test_a_wrong_line_of_a_file_that_is_taken_in_is_said_with_that_file():
    with pytest.raises(SpecError) as caught:
        read("-r more.txt\n", **{"more.txt": "numpy\n./x\n"})
    assert caught.value.fields[0].where == "more.txt:2"


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 0, "the conda file is empty"),
        ("- numpy\n", 1, "a conda file is a mapping"),
        ("dependencies:\n- pip:\n  - numpy\n  - 'a b'\n", 4, "isn't a requirement"),
        ("dependencies:\n- pip:\n  - numpy\n- conda:\n  - x\n", 4, "a dependency is a text, or `pip:`"),
        ("dependencies: numpy\n", 1, "`dependencies` is a list"),
        ("dependencies:\n- '-x'\n", 2, "isn't a package of conda's"),
        ("dependencies:\n- python>=3.8,<3.10\n", 2, "allows none of them"),
        ("dependencies:\n- python=>3\n", 2, "names no Python"),
        ("variables:\n  A: b\n", 1, "`variables` of a conda file aren't set"),
        ("dependancies: []\n", 1, "Did you mean `dependencies`?"),
        ("dependencies:\n- [a]\n", 2, "a dependency is a text"),
        ("a: b: c\n", 1, "not readable as YAML"),
    ],
)
def test_a_conda_file_that_cant_be_meant_is_refused_at_its_line(text: str, line: int, says: str):
    with pytest.raises(SpecError) as caught:
        read(text, "env.yml")
    where = (caught.value.fields[0].where if caught.value.fields else caught.value.where) or ""
    assert where.split(":")[:2] == (["env.yml", str(line)] if line else ["env.yml"])
    assert says in str(caught.value)


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("version", "python", "is_noted"),
    [
        ("", "", False),
        ("=3", "", False),
        ("=3.10", "3.10", False),
        ("==3.10", "3.10", False),
        ("=3.10.*", "3.10", False),
        (" 3.10", "3.10", False),
        ("=3.10.4", "3.10", True),
        ("=3.10.4=h1234_0_cpython", "3.10", True),
        (">=3.8", "", False),
        (">=3.8,<3.12", "3.11", True),
        ("<=3.12", "3.11", True),
        (">=3.12", "3.12", True),
        ("~=3.11", "", False),
    ],
)
def test_the_python_is_what_a_node_can_decide(version: str, python: str, is_noted: bool):
    made = read(f"dependencies:\n- python{version}\n", "env.yml")
    assert (made.python, bool(made.notes)) == (python, is_noted)


@pytest.mark.feature("E1")
def test_the_key_is_of_the_content_and_not_of_its_spelling():
    one = environment_key(read("Torch == 2.13.0\nscikit_learn[b,A] >=1,<2\nnumpy # x\n"))
    assert one == environment_key(read("numpy\nscikit-learn[a,b]<2,>=1\ntorch==2.13.0\ntorch==2.13.0\n"))
    assert one == environment_key(read("-r more.txt\ntorch==2.13.0", **{"more.txt": "numpy\nscikit-learn[a,b]<2,>=1"}))
    assert len(one) == 64
    others = {
        environment_key(read(text))
        for text in ("", "numpy", "numpy==2", "numpy;python_version<'4'", "--pre\nnumpy", "--no-index\n--pre\nnumpy",
                     "--pre\n--no-index\nnumpy", "numpy --hash=sha256:00")
    }  # fmt: skip
    conda = "dependencies: [{}]\nchannels: [{}]\n"
    others |= {
        environment_key(read(conda.format(*one), "e.yml"))
        for one in (("python=3.11", ""), ("python=3.12", ""), ("a,b", ""), ("a", "x,y"), ("a", "y,x"))
    }
    assert len(others) == 13
    assert environment_key(read(conda.format("a,b", "x"), "e.yml")) == environment_key(
        read(conda.format("b, A ", "x"), "f.yml")
    )


@pytest.mark.feature("E1")
def test_a_conda_file_that_is_written_out_knows_its_lines_in_the_job():
    table = {"dependencies": ["python=3.11", {"pip": ["numpy", "a b"]}]}
    text = "command: x\nenvironment:\n  conda_file:\n    dependencies:\n    - pip:\n      - numpy\n      - a b\n"
    assert requirement_lines(text, ("environment", "conda_file"), table) == (6, 7)
    with pytest.raises(SpecError) as caught:
        define(Environment(conda_file=table), EnvironmentFiles("job.yml", {}, (6, 7)), OWN)
    assert caught.value.fields[0].where == "job.yml:7"
    table = {"dependencies": [{"pip": ["numpy", "scipy"]}]}
    assert requirement_lines(text, ("environment", "conda_file"), table) == (6, 0), "one was set from outside"
    assert requirement_lines("command: x\n", ("environment", "conda_file"), table) == (0, 0)
    assert requirements_in({"dependencies": None}) == []
    made = define(Environment(conda_file=table), EnvironmentFiles("job.yml", {}, (6, 0)), OWN).environment("x")
    assert (made.source, made.requirements, made.lines) == ("job.yml", ("numpy", "scipy"), (6, 0))
    with pytest.raises(SpecError, match="expected 2 requirement lines, got 1"):
        define(Environment(conda_file=table), EnvironmentFiles("job.yml", {}, (6,)), OWN)


@pytest.mark.feature("E1")
def test_an_image_without_packages_is_run_in_containers():
    made = define(Environment.made({"image": "ghcr.io/a/b:1"}), EnvironmentFiles(), OWN)
    assert (made.image, made.environment("x")) == ("ghcr.io/a/b:1", None)


@pytest.mark.feature("E1")
@pytest.mark.parametrize(
    ("written", "kind", "says"),
    [
        ({"build": {"path": "docker"}}, SpecError, "there is no Dockerfile at docker/Dockerfile"),
        ({"conda_file": "e.yml"}, SpecError, "the file e.yml didn't come with the request"),
        ({"conda_file": {}, "os_type": "windows"}, RefusedError, "Windows"),
    ],
)
def test_what_cant_be_made_is_refused_with_what_to_do(written: dict[str, object], kind: type, says: str):
    with pytest.raises(kind) as caught:
        define(Environment.made(written), EnvironmentFiles(), OWN)
    assert says in str(caught.value)


@pytest.mark.feature("E1")
def test_an_image_is_run_only_where_no_packages_are_named():
    alone = define(Environment(image="ubuntu"), EnvironmentFiles(), OWN)
    assert (alone.image, alone.environment("x"), alone.notes) == ("ubuntu", None, ())
    curated_one = define(Environment(image="mcr.microsoft.com/azureml/curated/sklearn-1.5:3"), EnvironmentFiles(), OWN)
    assert (curated_one.image, curated_one.lines[0].text) == ("", 'scikit-learn==1.5.*; python_version < "3.14"')
    assert "its packages are those of drumbeat's 'sklearn'" in curated_one.notes[0]


@pytest.mark.feature("E1")
def test_packages_stand_in_for_a_dockerfile_that_isn_t_there_or_that_nobody_can_build():
    packages = {"docker/requirements.txt": "numpy\n"}
    alone = EnvironmentFiles("docker/requirements.txt", packages)
    both = replace(alone, files={**packages, DOCKERFILE: "FROM a"}, context="0" * 64, dockerfile=DOCKERFILE)
    written = Environment.made({"build": {"path": "docker"}})
    for texts, has_containers, why in ((alone, True, "the folder has none"), (both, False, "there is no Podman")):
        made = define(written, texts, OWN, has_containers=has_containers)
        assert ([line.text for line in made.lines], made.image) == (["numpy"], "")
        assert made.notes[0].startswith(f"no Dockerfile is used, for {why}")
        assert made.notes[0].endswith("the nodes make the Python environment of docker/requirements.txt")


@pytest.mark.feature("E5")
def test_a_dockerfile_is_built_and_its_content_names_the_image():
    def built(context: str, path: str = "Dockerfile") -> Definition:
        texts = EnvironmentFiles("", {DOCKERFILE: "FROM a"}, context=context, dockerfile=DOCKERFILE)
        return define(Environment.made({"build": {"path": "docker", "dockerfile_path": path}}), texts, OWN)

    made = built("0" * 64)
    assert (made.environment("x"), made.notes) == (None, ())
    assert made.build
    assert made.image == f"localhost/drumbeat:{made.build.key[:32]}"
    assert made.image == built("0" * 64).image
    assert len({made.image, built("1" * 64).image, built("0" * 64, "other").image}) == 3


@pytest.mark.feature("E5")
def test_a_folder_to_build_that_was_not_sent_is_refused():
    texts = EnvironmentFiles("", {DOCKERFILE: "FROM a"}, dockerfile=DOCKERFILE)
    with pytest.raises(SpecError, match="the folder docker didn't come"):
        define(Environment.made({"build": {"path": "docker"}}), texts, OWN)


@pytest.mark.feature("E1")
def test_constraints_limit_versions_and_count_in_the_key():
    def made(pins: str) -> Definition:
        texts = EnvironmentFiles("r.txt", {"r.txt": "numpy\n-c pins.txt\ntorch\n", "pins.txt": pins})
        return define(Environment(conda_file="r.txt"), texts, OWN)

    first = made("# ours\nnumpy<2\nscipy==1.14\n")
    assert [(line.text, line.of) for line in first.lines] == [
        ("numpy", 1), ("--constraint numpy<2", 2), ("--constraint scipy==1.14", 2), ("torch", 3),
    ]  # fmt: skip
    assert environment_key(first) != environment_key(made("numpy<3\n"))
    with pytest.raises(SpecError, match=r"pins\.txt:1: `torch\[x\]` has extras, which a constraint can't have"):
        made("torch[x]\n")
    assert included("a\n-c pins.txt\n--constraint=more.txt\n") == ["pins.txt", "more.txt"]


@pytest.mark.feature("E2")
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("AzureML-acpt-pytorch-2.2-cuda12.1", "pytorch"),
        ("acpt-pytorch-2.2-cuda12.1", "pytorch"),
        ("AzureML-pytorch-1.10-ubuntu18.04-py38-cuda11-gpu", "pytorch"),
        ("azureml-sklearn-1.5", "sklearn"),
        ("AzureML-tensorflow-2.16-cuda12", "tensorflow"),
        ("AzureML-lightgbm-3.3", "lightgbm"),
        ("horovod", "horovod"),
        ("deepspeed", "deepspeed"),
        ("fastai", "fastai"),
        ("mine", None),
        ("torch", None),
    ],
)
def test_names_of_clouds_have_definitions(name: str, title: str | None):
    found = curated(name)
    assert (found.title if found else None) == title


@pytest.mark.feature("E2")
def test_every_curated_definition_can_be_read_and_pins_one_torch():
    for one in CURATED:
        made = define_requirements(one.requirements, one.source)
        assert curated(one.title) == one
        assert one.about
        assert [line.text for line in made.lines if line.text.startswith("torch=")] in ([], ["torch==2.13.0"])
        assert "mlflow-skinny>=3,<4" in [line.text for line in made.lines]
    found = curated_image("mcr.microsoft.com/azureml/curated/acpt-pytorch-2.2-cuda12.1:12")
    assert found
    assert (found[0], found[1].title) == ("acpt-pytorch-2.2-cuda12.1", "pytorch")
    assert curated_image("mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04") is None


def lines_for(name: str, python: int) -> tuple[list[str], str]:
    """The requirements of a curated name on a server with Python 3.`python`, and what is said of its version."""
    known = curated(name)
    assert known
    made, said = for_name(known, name, (3, python))
    return made.requirements.splitlines(), said


@pytest.mark.feature("E2")
def test_version_in_a_curated_name_pins_its_main_package_and_those_of_its_time():
    lines, said = lines_for("AzureML-acpt-PyTorch-2.2-cuda12.1", 12)
    assert said == "with torch 2.2"
    pins = ['torch==2.2.*; python_version < "3.13"', 'torch==2.13.0; python_version >= "3.13"']
    assert lines[:4] == [*pins, 'numpy<2; python_version < "3.13"', 'numpy; python_version >= "3.13"']
    lines, _ = lines_for("tensorflow-2.12-cuda11", 11)
    assert [line for line in lines if line.startswith("tf-keras")] == ['tf-keras==2.21.0; python_version >= "3.12"']


@pytest.mark.feature("E2")
@pytest.mark.parametrize(
    ("name", "python", "says"),
    [
        ("AzureML-sklearn-0.24-ubuntu18.04-py37-cpu", 11,
         "of scikit-learn 0.24 it knows no wheel for Python 3.11: the newest scikit-learn is taken"),
        ("acpt-pytorch-2.2-cuda12.1", 13, "of torch 2.2 it knows no wheel for Python 3.13: torch==2.13.0 is taken"),
        ("ray-2.9", 11, "of ray 2.9 it knows no wheel for Python 3.11: ray[default,train]==2.60.0 is taken"),
    ],
)  # fmt: skip
def test_version_without_a_wheel_leaves_the_definition_as_it_is_and_is_said(name: str, python: int, says: str):
    known = curated(name)
    assert known
    assert lines_for(name, python) == (known.requirements.splitlines(), says)


@pytest.mark.parametrize("name", ["sklearn", "acft-hf-nlp-gpu", "pytorch-2.13-cpu", "tensorflow-2.21"])
def test_name_without_a_version_or_with_that_of_the_definition_changes_nothing(name: str):
    known = curated(name)
    assert known
    assert lines_for(name, 14) == (known.requirements.splitlines(), "")


@pytest.mark.feature("E2")
def test_every_release_of_a_curated_environment_can_be_read_and_is_of_its_own_packages():
    for one in CURATED:
        own = {package_name(line) for line in one.requirements.splitlines()}
        for version, release in one.releases.items():
            assert {package_name(each) for each in (*release.beside, *release.without)} <= own
            made, said = for_name(one, f"{one.title}-{version}", (3, release.last_python))
            assert said == f"with {one.main or one.title} {version}"
            assert len(define_requirements(made.requirements, made.source).lines) > len(own)


@pytest.mark.parametrize("named", ["requirements.txt", "file:requirements.txt", '"file:requirements.txt"'])
def test_conda_file_takes_in_requirements_by_a_path_or_a_file_reference(tmp_path: Path, named: str):
    (tmp_path / "requirements.txt").write_text("numpy\n")
    (tmp_path / "env.yml").write_text(f"dependencies:\n- pip:\n  - -r {named}\n")
    texts = collect_files({"conda_file": "env.yml"}, EnvironmentOrigin(tmp_path), lambda *_: "")
    assert [line.text for line in define_file(texts, "env.yml", OWN).lines] == ["numpy"]


ARM = "azureml:/subscriptions/s/resourceGroups"


@pytest.mark.feature("E1", "E2")
@pytest.mark.parametrize(
    ("text", "name", "version", "label"),
    [
        ("azureml:env:3", "env", "3", ""),
        ("env:3", "env", "3", ""),
        ("azureml:env@latest", "env", "", "latest"),
        ("env", "env", "", ""),
        ("/subscriptions/s/resourceGroups/g/providers/M/workspaces/w/environments/env/versions/4", "env", "4", ""),
        ("azureml:/subscriptions/s/resourceGroups/g/workspaces/w/environments/env/versions/4", "env", "4", ""),
        ("azureml://subscriptions/s/resourcegroups/g/workspaces/w/environments/env/labels/x", "env", "", "x"),
        ("azureml://registries/azureml/environments/env/labels/latest", "env", "", "latest"),
        ("azureml://registries/azureml/environments/env/versions/12", "env", "12", ""),
        ("azureml://registries/azureml/environments/env", "env", "", ""),
        (f"{ARM}/environments/workspaces/w/environments/env/versions/4", "env", "4", ""),
        (f"{ARM}/g/workspaces/environments/environments/env/labels/x", "env", "", "x"),
        (f"{ARM}/g/workspaces/w/environments/environments/versions/4", "environments", "4", ""),
    ],
)
def test_every_form_of_reference_is_read(text: str, name: str, version: str, label: str):
    found = parse_reference(text)
    assert (found.name, found.version, found.label) == (name, version, label)
    assert found.registry == ("azureml" if "registries" in text else "")
    assert found.alias_names[0] == text
    assert found.alias_names[-1] == name


@pytest.mark.feature("E1")
@pytest.mark.parametrize("text", ["", "a:", "a@", "@latest", ":1", "a b", "a/b", "a:1:2", "azureml://registries/r/x/1",
                                  "azureml://registries/r/environments/e/foo/1", "../x"])  # fmt: skip
def test_what_names_nothing_is_refused(text: str):
    with pytest.raises(SpecError, match="doesn't name an environment"):
        parse_reference(text)


@pytest.mark.feature("X5")
def test_hostile_files_end_soon_in_a_sentence():
    bomb = {f"{n}.txt": f"-r {n + 1}.txt\n" * 2 for n in range(40)} | {"40.txt": ""}
    with pytest.raises(SpecError, match="includes itself, or too many files"):
        define_file(EnvironmentFiles("0.txt", bomb), "0.txt", OWN)
    assert read(" " * 500_000 + "x\n").lines[0].text == "x"
    assert read("#" * 500_000).lines == ()


def test_files_that_are_taken_in_are_found():
    text = "numpy\n-r a.txt\n  --requirement=b.txt # x\n-r 'c d'\n-c no.txt\n-rd.txt\n-r \\\n e f\n#-r g\n"
    assert included(text) == ["a.txt", "b.txt", "c d", "no.txt", "d.txt", "e f"]
    assert beside("conda/env.yml", "../pip.txt") == "pip.txt"
    assert EnvironmentReference("x", "x").alias_names == ["x"]


@pytest.mark.parametrize(
    "text",
    [
        "dependencies: [python=3.11, pip, {pip: [-r my reqs.txt, -c pins.txt]}]\n",
        "dependencies:\n  - pip: ['-r my reqs.txt', torch, '-cpins.txt']\n",
        "dependencies:\n- pip:\n  - -r 'my reqs.txt'  # ours\n  - \"--constraint=pins.txt\"\n",
    ],
)
def test_files_that_a_conda_file_takes_in_are_sent_along_however_it_is_written(text: str, tmp_path: Path):
    written = {"env.yml": text, "my reqs.txt": "numpy\n-r deep/more.txt\n", "pins.txt": "numpy<3\n"}
    for name, content in {**written, "deep/more.txt": "scipy\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    texts = collect_files({"conda_file": "env.yml"}, EnvironmentOrigin(tmp_path), lambda *_: "")
    assert texts.files == {**written, "deep/more.txt": "scipy\n"}
    lines = [line.text for line in define_file(texts, "env.yml", OWN).lines]
    assert {"numpy", "scipy", "--constraint numpy<3"} <= {*lines}


def test_a_conda_file_that_cannot_be_read_takes_in_nothing(tmp_path: Path):
    for number, text in enumerate(("dependencies: [", "- -r other.txt\n", "dependencies: {pip: [-r x.txt]}\n", "")):
        (tmp_path / f"{number}.yml").write_text(text)
        texts = collect_files({"conda_file": f"{number}.yml"}, EnvironmentOrigin(tmp_path), lambda *_: "")
        assert [*texts.files] == [f"{number}.yml"]


@pytest.mark.feature("E2")
def test_the_page_lists_every_curated_definition_as_it_is():
    page = (Path(__file__).parents[3] / "docs" / "environments.md").read_text()
    for one in CURATED:
        names = ", ".join(f"`{pattern}`" for pattern in one.patterns if pattern != one.title)
        packages = ", ".join(f"`{line}`" for line in one.requirements.split())
        assert f"| `{one.title}` | {names} | {packages} |\n" in page
        assert f"- `{one.title}`: {one.about}\n" in page
