"""The names of a pipeline's jobs: no step is named like a trial."""

import pytest

from drumbeat.core.pipelines.child_names import check_child_names
from drumbeat.model.errors import SpecError
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("P1")


def test_step_named_like_a_trial_is_refused_with_both_steps(messages: Messages) -> None:
    with pytest.raises(SpecError) as refused:
        check_child_names(["train", "train_7"], {"train": 8})
    assert refused.value.where == "step train_7"
    messages.check(refused.value.what)
    messages.check(refused.value.fix)


def test_sweep_named_like_a_trial_within_a_nested_pipeline_is_refused() -> None:
    with pytest.raises(SpecError, match="both jobs would be named PIPELINE_x-t_1_0"):
        check_child_names(["x/t", "x/t_1", "x/t_1_0"], {"x/t": 1, "x/t_1": 9, "x/t_1_0": 9})


@pytest.mark.parametrize("name", ["train_8", "train_07", "train_x", "train_", "train7", "x/train_0"])
def test_step_whose_name_no_trial_has_is_accepted(name: str) -> None:
    check_child_names(["train", "step", name, "step_0"], {"train": 8})
