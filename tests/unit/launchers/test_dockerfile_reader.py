"""What drumbeat reads in a Dockerfile: where an instruction stands, and which images it needs."""

from __future__ import annotations

import pytest

from drumbeat.launchers.dockerfile_reader import images, instructions

pytestmark = pytest.mark.feature("E5")

TEXT = """\
# syntax=docker/dockerfile:1
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
RUN apt-get update \\
    # the compiler
    && apt-get install -y g++ \\
    && true
RUN cat <<EOF > /x
FROM nothing
EOF
copy --from=ghcr.io/acme/tools:2 /bin/x /bin/x
FROM --platform=linux/amd64 ubuntu:24.04
COPY --from=build /a /a
COPY --from=0 /b /b
FROM build
FROM scratch
FROM $UNKNOWN
"""


def test_instructions_stand_where_they_begin_with_their_continued_lines():
    found = [(one.line, one.word) for one in instructions(TEXT)]
    assert found[:5] == [(2, "ARG"), (4, "FROM"), (5, "RUN"), (9, "RUN"), (12, "COPY")]
    assert instructions(TEXT)[2].text == "RUN apt-get update && apt-get install -y g++ && true"
    assert [(one.line, one.rest) for one in instructions("FROM a\\\n")] == [(1, "a")]


def test_images_are_those_from_elsewhere():
    assert images(TEXT) == ("python:3.11-slim", "ghcr.io/acme/tools:2", "ubuntu:24.04")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ()),
        ("FROM", ()),
        ("FROM a\nFROM a", ("a",)),
        ("FROM ${X:-b:1}", ("b:1",)),
        ("ARG X='c'\nFROM $X", ("c",)),
        ("FROM a as One\nFROM one", ("a",)),
        ("FROM a\nARG X=d\nFROM $X", ("a",)),
        ("ARG TAG=12 VARIANT='slim'\nFROM debian:$TAG-$VARIANT", ("debian:12-slim",)),
        ("ARG BASE\nFROM ${BASE:-a}", ("a",)),
        ("ARG X='open\nFROM $X", ("'open",)),
        ("FROM a\nCOPY --link --from=ghcr.io/acme/uv:1 /uv /bin/", ("a", "ghcr.io/acme/uv:1")),
        ('FROM a\nRUN tr x y <<<"$HOME"\nRUN cat <<<word\nFROM b', ("a", "b")),
        ("FROM a\nRUN echo $((x<<y))\nFROM b", ("a", "b")),
        ("FROM a\nCOPY <<'EOF' /x\nFROM c\nEOF\nRUN <<-A cat && 3<<B cat\nFROM d\n\tA\nFROM e\nB\nFROM b", ("a", "b")),
    ],
)
def test_images_of_small_files(text: str, found: tuple[str, ...]):
    assert images(text) == found
