"""A part that becomes a whole file may be claimed by others all the while, also where its user isn't root."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.node.inputs.cache.files import Files
from tests.nobody import run_as_nobody

pytestmark = pytest.mark.feature("D5")

BEGIN = """
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import Claim, Part, claim
from drumbeat.node.inputs.cache.eviction import CacheSpace
from drumbeat.node.inputs.cache.small_file import Small, claim_small
from drumbeat.node.host.machine import boot
from drumbeat.model.input_listing import ListedFile
boot()  # What is imported later, only root may be able to read.
become_nobody()
files, file = Files("."), ListedFile("f", 4, "a" * 64)
name = name_of(file)
"""

SECOND = """
found, rename = [], os.rename
def claimed_just_before(*paths):
    found.extend((claim(files, file), claim_small(files, file)))
    rename(*paths)
os.rename = claimed_just_before
assert claim_small(files, file).finish(b"data")
assert set(found) == {Claim.TAKEN}, found
assert os.stat(files.place(name)).st_mode & 0o777 == 0o444
"""

KILLED = """
if os.fork() == 0:
    os.rename = lambda *_: os._exit(0)
    claim_small(files, file).finish(b"data")
os.wait()
assert os.path.exists(files.part(name))
assert claim_small(files, file).finish(b"data")
"""

LEFT = """
def leave():
    with open(files.part(name), "w") as part:
        part.write("data")
    os.chmod(files.part(name), 0o444)
leave()
part = claim(files, file)
assert isinstance(part, Part), part
part.close()
leave()
small = claim_small(files, file)
assert isinstance(small, Small), small
small.drop()
leave()
os.environ["DRUMBEAT_CACHE_BYTES"] = "5"
os.mkdir("root")
assert CacheSpace(files).take("j", "root", [ListedFile("g", 4, "b" * 64)]) == ""
assert os.listdir("parts") == []
"""


@pytest.mark.parametrize("script", [SECOND, KILLED, LEFT], ids=["second", "killed", "left"])
def test_a_part_can_be_claimed_whatever_became_of_the_one_before(tmp_path: Path, script: str):
    run_as_nobody(BEGIN + script, tmp_path)


def test_a_file_whose_maker_was_killed_just_as_it_came_is_made_read_only(tmp_path: Path):
    files, name = Files(str(tmp_path)), "a" * 64
    place = Path(files.place(name))
    place.parent.mkdir()
    place.touch(0o600)
    files.touch(name)
    assert place.stat().st_mode & 0o777 == 0o444
