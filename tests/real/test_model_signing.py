"""Exported models before OpenSSF's own verifier, and pickles before the scanner, each in processes of their own."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from drumbeat.server.models.scan import scan
from tools.kept_programs import MODEL_SIGNING

from . import mlflows, started
from .house import House
from .test_mlflow_clients import SCRIPTS, run_script

pytestmark = [pytest.mark.real, pytest.mark.feature("R1")]


def accepted(folder: Path, key: Path, packages: Path) -> subprocess.CompletedProcess[str]:
    """Verifies an exported model with model-signing, without a network."""
    program = "from model_signing._cli import main; main()"
    words = ["verify", "key", str(folder / "model"), "--signature", str(folder / "model.sig"), "--public_key", str(key)]
    return subprocess.run(
        ["unshare", "--map-root-user", "-n", sys.executable, "-c", program, *words], env={"PYTHONPATH": str(packages)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.thorough
def test_exported_model_is_accepted_by_model_signing_without_a_network(own_house: House, tmp_path: Path):
    packages = started.provide(MODEL_SIGNING).parents[1]
    source, key, out = tmp_path / "net", tmp_path / "key.pem", tmp_path / "out"
    (source / "data").mkdir(parents=True)
    (source / "MLmodel").write_text("flavors: {}")
    (source / "data/ä b.bin").write_bytes(bytes(range(256)))
    (source / ".gitignore").write_text("x")
    made = own_house.client.create_model({"name": "net", "path": str(source), "type": "mlflow_model"})
    own_house.client.export_model("net", made.version, out)
    key.write_text(own_house.client.registry_key().pem)
    verified = accepted(out, key, packages)
    assert (verified.returncode, "Verification succeeded" in verified.stdout) == (0, True), verified.stderr
    for file in ("MLmodel", "data/ä b.bin"):
        place = out / "model" / file
        whole = place.read_bytes()
        place.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        refused = accepted(out, key, packages)
        assert (refused.returncode == 0, file in refused.stdout + refused.stderr) == (False, True)
        place.write_bytes(whole)


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_model_of_an_output_is_loaded_by_mlflow_by_name_and_alias(own_house: House):
    packages = mlflows.provide("mlflow", mlflows.NEWEST)
    own_house.script((SCRIPTS / "output_model.py").read_text(), file="output_model.py")
    variables = {"PYTHONPATH": str(packages), "MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    file = own_house.job_file(
        command="python output_model.py ${{outputs.model}}",
        code=".",
        outputs="{model: {type: mlflow_model, name: made}}",
        drumbeat="{environment: current, max_retries: 0}",
        environment_variables=json.dumps(variables),
    )
    done = own_house.run("run", file, "--name", "maker")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    own_house.client.set_model_alias("made", "1", "champion")
    run_script(own_house, "output_model_after_job", packages)
    assert [one.part for one in own_house.client.verify_model("made", "1").findings if one.state == "wrong"] == []
    assert [one.version for one in own_house.client.models("made")] == ["2", "1"]


class _Calls:
    def __init__(self, module: str, name: str, *arguments: object) -> None:
        self.text = f"c{module}\n{name}\n"
        self.arguments = arguments

    def pickled(self) -> bytes:
        return self.text.encode() + pickle.dumps(self.arguments, 2)[2:-1] + b"R."


HARMFUL = (
    _Calls("os", "system", "true"),
    _Calls("builtins", "eval", "1"),
    _Calls("timeit", "timeit", "1"),
    _Calls("numpy.testing._private.utils", "runstring", "1", {}),
)


@pytest.mark.parametrize("name", ["net.pkl", "net.bin", "net.txt", "net", "net.pt"])
def test_pickle_that_runs_commands_is_called_dangerous_whatever_its_name(tmp_path: Path, name: str):
    pytest.importorskip("picklescan", reason="install drumbeat[scan]")
    paths: list[str] = []
    for number, one in enumerate(HARMFUL):
        file = tmp_path / str(number) / name
        file.parent.mkdir()
        if name.endswith(".pt"):
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("archive/data.pkl", one.pickled())
        else:
            file.write_bytes(one.pickled())
        paths.append(f"{number}/{name}")
    result = scan(tmp_path, paths)
    assert (result.state, [one.partition(":")[0] for one in result.names]) == ("dangerous", paths), result


def test_sound_files_have_nothing_known(tmp_path: Path):
    pytest.importorskip("picklescan", reason="install drumbeat[scan]")
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"w": [1.0, 2.0]}))
    (tmp_path / "README.md").write_text("# The net\n")
    result = scan(tmp_path, ["a.pkl", "README.md"])
    assert (result.state, result.sentence.startswith("nothing known was found (picklescan ")) == ("clean", True)
