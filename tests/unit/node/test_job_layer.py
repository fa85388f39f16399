"""A job's own layer in front of the environment that jobs share: what is its own, and what is a link."""

import shlex
from pathlib import Path

import pytest

from drumbeat.model.errors import StorageError
from drumbeat.node.environments import job_layer

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with a script, a program, and files that a wheel has put into its prefix."""
    folder = tmp_path / "cache" / "k-1"
    texts = {
        "made": "{}",
        "pyvenv.cfg": "home = /usr/bin\n",
        "bin/tool": f"#!{folder}/bin/python\nprint()\n",
        "bin/ninja": "\x7fELF",
        "bin/activate": f"VIRTUAL_ENV={folder}\n",
        f"{SITE}/tiny.py": "",
        "lib/libmpi.so": "mpi",
        "share/man/man1/tool.1": "",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    (folder / "bin" / "tool").chmod(0o755)
    (folder / "bin" / "python").symlink_to("/usr/bin/python3.11")
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "lib64").symlink_to("lib")
    return folder


def layer_of(environment: Path, root: Path) -> Path:
    root.mkdir(exist_ok=True)
    return Path(job_layer.provide(str(environment), str(root)))


@pytest.mark.feature("E1")
def test_scripts_of_the_environment_run_in_the_layer_and_other_programs_are_linked(environment: Path, tmp_path: Path):
    layer = layer_of(environment, tmp_path / "a")
    assert (layer / "bin" / "tool").read_text() == f"#!{layer}/bin/python\nprint()\n"
    assert (layer / "bin" / "tool").stat().st_mode & 0o111
    assert (layer / "bin" / "activate").read_text() == f"VIRTUAL_ENV={layer}\n"
    links = {name: str((layer / "bin" / name).readlink()) for name in ("ninja", "python", "python3")}
    assert links == {"ninja": f"{environment}/bin/ninja", "python": "/usr/bin/python3.11", "python3": "python"}


@pytest.mark.feature("E1")
def test_folders_of_the_layer_are_its_own_so_that_an_installation_changes_no_shared_file(
    environment: Path, tmp_path: Path
):
    layer = layer_of(environment, tmp_path / "a")
    folders = [path for path in layer.rglob("*") if path.is_dir()]
    assert [path.name for path in folders if path.is_symlink()] == ["lib64"]
    assert (layer / "lib" / "libmpi.so").read_text() == "mpi"
    assert (layer / "share" / "man" / "man1" / "tool.1").is_symlink()
    assert [path.name for path in (layer / SITE).iterdir()] == [job_layer.PTH]
    assert f"{environment}/{SITE}" in (layer / SITE / job_layer.PTH).read_text()


@pytest.mark.feature("E1")
def test_layer_of_an_attempt_is_kept_when_a_second_agent_provides_it(environment: Path, tmp_path: Path):
    layer = layer_of(environment, tmp_path / "a")
    (layer / SITE / "own.py").touch()
    assert layer_of(environment, tmp_path / "a") == layer
    assert (layer / SITE / "own.py").exists()


def test_layer_in_a_prefix_without_configuration_is_of_the_python_there(environment: Path, tmp_path: Path):
    (environment / "pyvenv.cfg").unlink()
    layer = layer_of(environment, tmp_path / "a")
    assert (layer / "pyvenv.cfg").read_text() == f"home = {environment}/bin\ninclude-system-site-packages = false\n"
    assert (layer / "bin" / "python3").readlink() == environment / "bin" / "python3"


def test_script_of_a_layer_with_a_long_path_begins_with_a_shell(environment: Path, tmp_path: Path):
    layer = layer_of(environment, tmp_path / ("a b" * 50))
    first, second, *_ = (layer / "bin" / "tool").read_text().splitlines()
    program = shlex.quote(f"{layer}/bin/python")
    assert (first, second) == ("#!/bin/sh", f"'''exec' {program} \"$0\" \"$@\"")


def test_folder_with_more_files_than_links_are_made_is_linked_whole(environment: Path, tmp_path: Path):
    many = environment / "share" / "terminfo"
    many.mkdir()
    for number in range(job_layer.MAX_LINKS + 1):
        (many / str(number)).symlink_to("x")
    layer = layer_of(environment, tmp_path / "a")
    assert (layer / "share" / "terminfo").readlink() == many
    assert (layer / "share" / "man" / "man1" / "tool.1").is_symlink()


def test_layer_that_cannot_be_written_is_an_error_that_names_its_place(environment: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as caught:
        job_layer.provide(str(environment), str(tmp_path / "file"))
    assert "the job's layer of its environment can't be written" in str(caught.value)
