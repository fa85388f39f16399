"""A server whose jobs have used something: one has ended, one has failed, one trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drumbeat.model.agent import Phase

from .api_house import House, house_in


@contextmanager
def house_in_use(folder: Path) -> Iterator[House]:
    """Opens the server in a folder."""
    with house_in(folder) as there:
        for name, experiment in (("ended", "one"), ("failed", "two"), ("training", "two")):
            there.submit(name, experiment_name=experiment)
        there.finish("ended")
        there.finish("failed", code=1)
        agent = there.agent("training")
        for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
            agent.say(phase)
        yield there
