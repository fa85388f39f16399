"""Environments as they are handed on: what of a file is a folder's own, the manifest, and how far the making is."""

from __future__ import annotations

import compileall
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.model.environment_manifest import EnvironmentManifest
from drumbeat.model.errors import RefusedError
from drumbeat.node.environments.install_progress import describe as progress
from drumbeat.node.environments.manifest import describe, of_folder
from drumbeat.node.environments.relocation import (
    BINARY,
    MARK,
    TEXT,
    NotRelocatableError,
    canonical,
    relocated,
)
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.handed import layout

pytestmark = [pytest.mark.feature("E6")]

OLD, NEW = b"/home/a/environments/k-1", b"/srv/b/k-1"


# --- what of a file is its folder's -------------------------------------------------------------------------------
def test_text_names_the_folder_that_it_comes_to():
    text = b"#!" + OLD + b"/bin/python\nVIRTUAL_ENV=" + OLD + b"\n"
    given = canonical("bin/tool", text, [OLD])
    assert given.rewrite == TEXT
    assert given.data is not None
    assert OLD not in given.data
    assert relocated(TEXT, given.data, OLD, NEW) == text.replace(OLD, NEW)


def test_text_of_two_makers_is_the_same_content():
    first, second = (canonical("bin/tool", b"#!" + place + b"/bin/python\n", [place]) for place in (OLD, NEW))
    assert first == second


def test_file_without_the_folder_is_handed_on_as_it_is():
    assert canonical("a.py", b"x = 1\n", [OLD]) == canonical("a.so", b"\0\1", [OLD])
    assert canonical("a.py", b"x = 1\n", [OLD]).data is None


def test_binary_file_keeps_its_length_when_its_folder_becomes_shorter():
    data = b"\x7fELF\0" + OLD + b"/lib:" + OLD + b"/lib64\0rest\0"
    assert canonical("lib/a.so", data, [OLD]).rewrite == BINARY
    moved = relocated(BINARY, data, OLD, NEW)
    assert len(moved) == len(data)
    assert moved.startswith(b"\x7fELF\0" + NEW + b"/lib:" + NEW + b"/lib64\0\0")
    assert moved.endswith(b"\0rest\0")


def test_binary_file_whose_folder_becomes_longer_is_refused():
    with pytest.raises(NotRelocatableError, match="shorter"):
        relocated(BINARY, b"\0" + NEW + b"\0", NEW, OLD)


def test_script_whose_first_line_becomes_too_long_is_refused():
    text = canonical("bin/tool", b"#!" + OLD + b"/bin/python\n", [OLD]).data
    assert text is not None
    with pytest.raises(NotRelocatableError, match="first line"):
        relocated(TEXT, text, OLD, b"/" + b"x" * 120)


def test_compiled_python_is_the_same_wherever_and_whenever_it_was_compiled(tmp_path: Path):
    given: list[bytes | None] = []
    for name, time in (("one", 1_000_000_000), ("two", 1_700_000_000)):
        source = tmp_path / name / "a.py"
        source.parent.mkdir()
        source.write_text("def f():\n    return 1\n")
        os.utime(source, (time, time))
        compileall.compile_file(source, quiet=2)
        compiled = Path(importlib.util.cache_from_source(str(source)))
        given.append(canonical(str(compiled), compiled.read_bytes(), [os.fsencode(source.parent)]).data)
    assert given[0] == given[1]


def test_compiled_python_is_used_beside_a_source_of_another_time_and_names_that(tmp_path: Path):
    source, moved = tmp_path / "one" / "a.py", tmp_path / "another place" / "a.py"
    source.parent.mkdir()
    source.write_text("def f():\n    raise ValueError\n")
    compileall.compile_file(source, quiet=2)
    compiled = Path(importlib.util.cache_from_source(str(source)))
    given = canonical(str(compiled), compiled.read_bytes(), [os.fsencode(source.parent)]).data
    there = Path(importlib.util.cache_from_source(str(moved)))
    there.parent.mkdir(parents=True)
    there.write_bytes(given or b"")
    moved.write_text("print('compiled again')\n")
    code = f"import sys; sys.path.insert(0, {str(moved.parent)!r}); import a; print(a.f.__code__.co_filename)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{moved}\n"


# --- a folder and its manifest ------------------------------------------------------------------------------------
def an_environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "bin" / "tool").write_text(f"#!{folder}/bin/python\n")
    (folder / "bin" / "tool").chmod(0o755)
    (folder / "lib").mkdir()
    (folder / "lib" / "a.py").write_text("x = 1\n")
    (folder / "lib" / "b.py").write_text("x = 1\n")
    (folder / "lib" / "none.py").touch()
    (folder / "lib64").symlink_to("lib")
    (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "own").symlink_to(folder / "bin" / "tool")
    return folder


def kept(cache: Path, folder: Path) -> tuple[Files, EnvironmentManifest]:
    """A cache with all contents of an environment."""
    made, files = describe(str(folder), {"python": "3.11.7"}), Files(str(cache))
    for digest, own in made.own.items():
        place = Path(files.place(digest))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(own.read(0, made.manifest.contents[digest]))
    return files, made.manifest


def test_environment_is_laid_out_elsewhere_with_its_own_paths(tmp_path: Path):
    files, manifest = kept(tmp_path / "cache", an_environment(tmp_path / "one"))
    there = tmp_path / "another"
    layout.check(manifest)
    layout.build(files, manifest, str(there))
    assert (there / "bin" / "tool").read_text() == f"#!{there}/bin/python\n"
    assert os.access(there / "bin" / "tool", os.X_OK)
    assert (there / "lib64" / "a.py").read_text() == "x = 1\n"
    assert (there / "lib" / "none.py").read_bytes() == b""
    assert (there / "empty").is_dir()
    assert str((there / "bin" / "own").readlink()) == f"{there}/bin/tool"
    assert str((there / "bin" / "python").readlink()) == sys.executable


def test_equal_files_of_two_environments_lie_on_the_disk_once(tmp_path: Path):
    files, manifest = kept(tmp_path / "cache", an_environment(tmp_path / "one"))
    for name in ("two", "three"):
        layout.build(files, manifest, str(tmp_path / name))
    same = {(tmp_path / name / "lib" / file).stat().st_ino for name in ("two", "three") for file in ("a.py", "b.py")}
    assert len(same) == 1


def test_environment_that_was_taken_over_is_handed_on_with_the_same_content(tmp_path: Path):
    files, manifest = kept(tmp_path / "cache", an_environment(tmp_path / "one"))
    layout.build(files, manifest, str(tmp_path / "two"))
    again = describe(str(tmp_path / "two"), manifest.record).manifest
    assert (again.files, again.links) == (manifest.files, manifest.links)
    own = of_folder(manifest, str(tmp_path / "two")).own
    assert {digest: len(one.read(0, 1 << 20)) for digest, one in own.items()} == manifest.contents


@pytest.mark.parametrize("path", ["../a", "/a", "a//b", "lib64/a"])
def test_manifest_with_a_file_outside_of_its_folder_is_refused(tmp_path: Path, path: str):
    manifest = describe(str(an_environment(tmp_path / "one")), {}).manifest
    (file, *_), links = manifest.files, {"lib64": "/etc"}
    with pytest.raises(RefusedError):
        layout.check(EnvironmentManifest("/x", (type(file)(path, 1, file.sha256),), (), links))


def test_mark_in_a_text_of_a_package_is_left_alone():
    assert canonical("a.txt", MARK + OLD, [OLD]).rewrite == BINARY


# --- how far it is ------------------------------------------------------------------------------------------------
PIP = "Collecting torch\n  Downloading torch.whl (700 MB)\nCollecting numpy>=1.2 (from torch)\n"


@pytest.mark.parametrize(
    ("tool", "output", "present", "said"),
    [
        ("pip", "", (), ""),
        ("pip", PIP, (), "2 packages found"),
        ("pip", f"{PIP}Installing collected packages: numpy, Torch_Vision, torch\n", ("numpy",), "1 of 3 packages"),
        ("pip", "Installing collected packages: tiny\n", ("tiny", "pip"), "1 of 1 package"),
        ("uv", "Using Python 3.11\n", (), ""),
        ("uv", "Resolved 101 packages in 1.2s\n", ("pip",), "101 packages found"),
        ("uv", "Resolved 101 packages in 1.2s\n", ("pip", "numpy", "torch"), "2 of 101 packages"),
    ],
)
def test_progress_counts_packages(tool: str, output: str, present: tuple[str, ...], said: str):
    assert progress(tool, output, present, ("pip",) if tool == "uv" else ()) == said
