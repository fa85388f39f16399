"""Durations, sizes and sentences as users say them."""

from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.cli.terminal.formatting import format_ago, format_countdown, format_duration, format_launch, format_size

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0.0s"), (0.44, "0.4s"), (9.94, "9.9s"), (9.96, "10s"), (12.9, "12s"), (60, "1m 00s"), (125, "2m 05s"),
        (3600, "1h 0m"), (11_400, "3h 10m"), (183_600, "2d 3h"),
    ],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds: float, said: str):
    assert format_duration(timedelta(seconds=seconds)) == said


def test_ago():
    assert format_ago(NOON - timedelta(minutes=2), NOON) == "2m 00s ago"


@pytest.mark.feature("F7")
@pytest.mark.parametrize(
    ("left", "said"),
    [
        (30, "SIGKILL in 30s"),
        (0.6, "SIGKILL in 1s"),
        (0.4, "SIGKILL sent, waiting for the ranks to be gone"),
        (-9, "SIGKILL sent, waiting for the ranks to be gone"),
    ],
)
def test_grace_time_counts_down(left: float, said: str):
    assert format_countdown(NOON + timedelta(seconds=left), NOON) == said


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")]
)
def test_sizes(size: int, said: str):
    assert format_size(size) == said


@pytest.mark.parametrize(
    ("launcher", "nodes", "per_node", "expected"),
    [
        ("pytorch", 1, 1, "1 process on 1 node"),
        ("pytorch", 2, 1, "pytorch on 2 nodes × 1 per node = 2 ranks"),
        ("mpi", 1, 1, "mpi on 1 node × 1 per node = 1 rank"),
        ("ray", 1, 1, "ray on 1 node × 1 per node = 1 rank"),
    ],
)
def test_job_without_a_launcher_is_one_process(launcher: str, nodes: int, per_node: int, expected: str):
    assert format_launch(launcher, nodes, per_node, nodes * per_node) == expected
