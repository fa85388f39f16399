"""The names that scripts for Azure's SDK import: what they are here, and what those say that aren't here yet."""

import pytest

import drumbeat
from drumbeat import AmlCompute, AssetTypes, Data, InputOutputModes, Model, UserIdentityConfiguration
from drumbeat.jobfile import Input, Output, dumps, from_dict, to_dict
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.model.errors import SpecError

pytestmark = pytest.mark.feature("J2")


@pytest.mark.parametrize("name", sorted(drumbeat.__all__))
def test_every_name_of_the_package_can_be_imported(name: str):
    assert getattr(drumbeat, name) is not None


def test_entities_take_the_keys_of_azures_examples():
    data = Data(name="digits", path="./digits", type=AssetTypes.URI_FOLDER, description="Digits", version="1")
    assert to_dict(data)["type"] == "uri_folder"
    model = Model(name="net", path="./model", type=AssetTypes.MLFLOW_MODEL)
    assert "type: mlflow_model" in dumps(model)
    compute = AmlCompute(
        name="gpu-cluster",
        type="amlcompute",
        size="STANDARD_NC6S_V3",
        min_instances=0,
        max_instances=4,
        idle_time_before_scale_down=180,
        tier="Dedicated",
    )
    assert (compute.name, compute.tier) == ("gpu-cluster", "dedicated")
    assert UserIdentityConfiguration().type == "user_identity"


def test_constants_are_the_words_that_inputs_and_outputs_take():
    for kind in (value for name, value in vars(AssetTypes).items() if name.isupper()):
        assert Input(type=kind, path="./a").type == kind
        assert Output(type=kind).type == kind
    for mode in ("RO_MOUNT", "DOWNLOAD", "DIRECT"):
        assert Input(path="./a", mode=getattr(InputOutputModes, mode)).mode == getattr(InputOutputModes, mode)
    for mode in ("RW_MOUNT", "MOUNT", "UPLOAD", "DIRECT"):
        assert Output(mode=getattr(InputOutputModes, mode)).mode == getattr(InputOutputModes, mode)


@pytest.mark.parametrize("kind", ["amlcompute", "AmlCompute", "computeinstance", "virtualmachine"])
def test_compute_of_azures_is_refused_with_the_alias_to_set(kind: str):
    with pytest.raises(SpecError) as refused:
        compute_from({"name": "gpu", "type": kind, "size": "STANDARD_NC6S_V3"})
    assert "is made of machines in Azure" in refused.value.what
    assert refused.value.fix == "Say what its name means here: drumbeat alias set compute gpu local"


def test_entity_of_a_cluster_is_refused_as_its_file_is():
    with pytest.raises(SpecError, match="drumbeat alias set compute gpu local"):
        compute_from(to_dict(AmlCompute(name="gpu")))


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("MLClient", "this version of drumbeat has no MLClient: import it from drumbeat.ml"),
        ("ManagedOnlineEndpoint", "this version of drumbeat has no ManagedOnlineEndpoint: see docs/features.md"),
        ("automl", "write the training as a command"),
    ],
)
def test_name_that_is_not_here_yet_says_what_to_use_instead(name: str, advice: str):
    with pytest.raises(ImportError, match=advice):
        exec(f"from drumbeat import {name}", {})  # As a script writes it.


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(drumbeat, "Nonsense")
    assert from_dict({"command": "true"})
