"""When a server that was started for somebody ends by itself."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI

from drumbeat.model.errors import AwayError
from drumbeat.server.context import ServerContext
from drumbeat.server.process.uvicorn_server import StoppableServer

IDLE_S = 0.05


class Control:
    """As much of the control room as is asked. answers: each once; the last again and again."""

    def __init__(self, *answers: bool | Exception) -> None:
        self.answers = list(answers)

    def must_stay(self) -> bool:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_server_whose_store_didnt_answer_once_ends_when_nothing_is_left_to_do():
    control = Control(AwayError("the connection was cut"), True, False)
    running = StoppableServer(FastAPI(), ServerContext(control, idle_stop_s=IDLE_S), on_ready=list, on_end=list)  # type: ignore[arg-type]
    asyncio.run(asyncio.wait_for(running._stop_when_idle(), 60))
    assert (running.should_exit, control.answers) == (True, [False])
