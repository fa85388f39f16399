"""What atheris feeds: each target takes bytes, and may refuse them only in drumbeat's own words.

python tests/fuzz/targets.py TARGET [libFuzzer's options and folders] runs one; `inputs.py` says with which.
"""

import hashlib
import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["drumbeat", "ruamel"]):
    from drumbeat.client.job_downloads import place_in
    from drumbeat.jobfile import job_file
    from drumbeat.jobfile.reading import writer
    from drumbeat.model.errors import DrumbeatError, ForbiddenError, RefusedError, SpecError, StorageError
    from drumbeat.node.platform.snapshot_archive import unpack
    from drumbeat.server.home_folder.paths import inside, log_at, one_name

HOUSE = Path(tempfile.mkdtemp(prefix="fuzz-")).resolve()
FOLDER = HOUSE / "folder"
FOLDER.mkdir()
(FOLDER / "out").symlink_to("/etc")
(FOLDER / "in").symlink_to("below")


def fuzz_yaml(data: bytes) -> None:
    """A job file is read, or refused with the place of each problem."""
    with suppress(SpecError, RefusedError):
        job = job_file.loads(data.decode("utf-8", "replace"))
        assert job_file.from_dict(writer.to_dict(job)) == job


def fuzz_paths(data: bytes) -> None:
    """A path stays in its folder, or is refused."""
    path = data.decode("utf-8", "surrogateescape")
    for place_of in (inside, place_in):
        with suppress(ForbiddenError):
            place = place_of(FOLDER, path)
            real = os.path.realpath(place.parent)
            assert real == str(FOLDER) or real.startswith(f"{FOLDER}/"), (place_of, path)
            assert ".." not in place.parts
    with suppress(ForbiddenError):
        assert "/" not in one_name(path)
    with suppress(ForbiddenError):
        assert all(number >= 0 for number in log_at(path))


def fuzz_archive(data: bytes) -> None:
    """A snapshot is unpacked below its folder, or refused."""
    place = HOUSE / "code"
    # An OSError is put into words by the one who stages.
    with suppress(RefusedError, StorageError, OSError):
        unpack(io.BytesIO(data), hashlib.sha256(data).hexdigest(), str(place))  # type: ignore[arg-type]
    for one in HOUSE.iterdir():
        assert one in (FOLDER, place), one
    for one in place.rglob("*"):
        assert str(one.resolve()).startswith(f"{place}/"), one
        assert one.is_symlink() or one.is_file() or one.is_dir(), one
    assert {one.name for one in FOLDER.iterdir()} == {"in", "out"}
    remove(place)


def remove(place: Path) -> None:
    """Whatever the archive's own modes say."""
    for one in [place, *place.rglob("*")]:
        if one.is_dir() and not one.is_symlink():
            one.chmod(0o700)
    shutil.rmtree(place)


TARGETS: dict[str, Callable[[bytes], None]] = {"yaml": fuzz_yaml, "paths": fuzz_paths, "archive": fuzz_archive}


def main() -> None:
    """Runs a target; atheris ends the process."""
    name, *options = sys.argv[1:]
    target = TARGETS[name]

    def once(data: bytes) -> None:
        try:
            target(data)
        except DrumbeatError as error:
            raise AssertionError(f"refused in the wrong words: {error!r}") from error

    # A merge starts the program again, by a shell and this first word.
    atheris.Setup([shlex.join([sys.executable, __file__, name]), *options], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
