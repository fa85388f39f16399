"""The advice on instance types of a cloud, by their family and by what the compute has."""

import pytest

from drumbeat.core.planning.node_resources import InstanceTypeAdvice, parse_kind
from drumbeat.model.errors import UnknownNameError
from tests.support.messages import Messages


@pytest.mark.parametrize(
    ("name", "gpus", "ranks", "target"),
    [
        ("Standard_DS3_v2", 8, 4, "cpu"),
        ("Standard_E4s_v3", 8, 1, "cpu"),
        ("Standard_NC6s_v3", 8, 1, "gpu:1"),
        ("STANDARD_ND40rs_v2", 8, 8, "gpu:8"),
        ("Standard_ND96asr_v4", 4, 8, "gpu:4"),
        ("big-gpu", 2, 1, "gpu:1"),
        ("Standard_NV12s_v3", 0, 1, "cpu (it has GPUs, and compute lab has none)"),
    ],
)
@pytest.mark.feature("J1")
def test_advice_on_an_instance_type_goes_by_its_family(
    name: str, gpus: int, ranks: int, target: str, messages: Messages
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_kind(name, name, InstanceTypeAdvice("lab", gpus, ranks))
    messages.check(caught.value.fix)
