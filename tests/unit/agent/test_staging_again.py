"""What an agent that was killed had begun to copy to the node is copied anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nobody import run_as_nobody

pytestmark = pytest.mark.feature("D5")

AGAIN = """
import shutil
from drumbeat.agent.staging import Staging
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.plan import InputPlan, Plan
become_nobody()
os.makedirs("data/deep")
open("data/deep/file", "wb").close()
os.chmod("data/deep", 0o555)
os.makedirs("root/inputs")
shutil.copytree("data", "root/inputs/train.part")
plan = Plan("j", "e", "pytorch", 1, 1, "true", (), inputs=(InputPlan("train", "uri_folder", "file:data", "download"),))
Staging(Enrolment("j", 1, 0, (), "s", "root", "checkpoints", plan), None, lambda _: None).stage()
assert os.listdir("root/inputs") == ["train"]
assert os.listdir("root/inputs/train/deep") == ["file"]
"""


def test_a_read_only_folder_that_was_copied_halfway_is_copied_anew(tmp_path: Path):
    run_as_nobody(AGAIN, tmp_path)
