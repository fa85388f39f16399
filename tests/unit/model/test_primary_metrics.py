"""Which metric counts, and which of its values are better."""

import pytest

from drumbeat.model.primary_metrics import PrimaryMetric, goal_of, guess_place, parse_primary

pytestmark = pytest.mark.feature("M2")

LAYERS = [f"grad/layer{number:02}.mean" for number in range(80)]


def guessed(*names: str) -> str | None:
    places = [(place, n) for n, name in enumerate(names) if (place := guess_place(name)) is not None]
    return names[min(places)[1]] if places else None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((*LAYERS, "loss", "lr", "perf/step_s"), "loss"),
        (("train/loss", "lr", "train/grad_norm", "val/loss", "val/accuracy"), "val/accuracy"),
        (("train_loss", "eval_accuracy", "valAcc"), "valAcc"),
        (("train/accuracy", "train/loss", "test/loss"), "test/loss"),
        (("train/loss", "loss"), "loss"),
        (("accuracy", "loss"), "loss"),
        (("lr", "reward", "episode_length"), "reward"),
        (("train_loss_step", "val_loss_epoch", "epoch"), "val_loss_epoch"),
        (("loss_scale", "perf/samples_per_s", "mem_bytes", "time/data"), None),
        ((), None),
    ],
)
def test_guess_is_held_out_accuracy_then_loss(names: tuple[str, ...], expected: str | None) -> None:
    assert guessed(*names) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("val/accuracy", "maximize"), ("valid_top1", "maximize"), ("eval/F1", "maximize"), ("train/loss", "minimize"),
        ("wer", "minimize"), ("val/perplexity", "minimize"), ("negative_log_likelihood", "minimize"), ("width", None),
    ],
)  # fmt: skip
def test_goal_follows_from_the_name(name: str, expected: str | None) -> None:
    assert goal_of(name) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("val/accuracy max", PrimaryMetric("val/accuracy", "maximize")),
        ("loss MAXIMIZE", PrimaryMetric("loss", "maximize")),
        ("val loss", PrimaryMetric("val loss", "minimize")),
        ("max", PrimaryMetric("max")),
        ("  ", None),
    ],
)
def test_tag_has_a_name_and_maybe_a_goal(tag: str, expected: PrimaryMetric | None) -> None:
    assert parse_primary(tag) == expected


def test_tag_that_was_written_is_read_back() -> None:
    for metric in (PrimaryMetric("a b", "minimize"), PrimaryMetric("width")):
        assert parse_primary(str(metric)) == metric
