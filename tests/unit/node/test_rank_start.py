"""What a rank's start that the kernel refuses says of the rank's words."""

from __future__ import annotations

from drumbeat.node.supervisor.rank_start import describe_too_long


def test_too_long_arguments_are_named_with_their_sizes():
    said = describe_too_long(("/bin/bash", "-c", "x" * 140_000), {"A": "y" * 139_990, "B": "z"})
    assert (
        said == "the command has 140,000 bytes and the variable A has 139,992 bytes, and Linux accepts 131,071 in one"
    )


def test_too_many_arguments_are_counted_and_the_longest_named():
    said = describe_too_long(("/bin/bash", "-c", "x"), {f"V{n}": "y" * 1000 for n in range(9)} | {"LONG": "y" * 2000})
    assert said == "they have 11,044 bytes in all, of which the variable LONG has the most: 2,005"
