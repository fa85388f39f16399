"""The limit of open files that a server takes."""

import resource
from collections.abc import Iterator

import pytest

from drumbeat.server.process.serve import MAX_FILES, raise_file_limit


@pytest.fixture(autouse=True)
def kept_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_soft_limit_below_the_hard_one_is_raised():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (MAX_FILES if hard < 0 else min(hard, MAX_FILES), hard)


@pytest.mark.parametrize(("soft", "most", "after"), [(256, 512, 512), (512, 256, 512)])
def test_limit_is_raised_at_most_to_the_cap(soft: int, most: int, after: int):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    raise_file_limit(most)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (after, hard)
