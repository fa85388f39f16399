"""`python -m drumbeat.scoring`: serves a script, an MLflow model or a program behind.

python -m drumbeat.scoring --script score.py --listen 127.0.0.1:5001     try a script here
python -m drumbeat.scoring --model model/ --listen 127.0.0.1:5001             an MLflow model
python -m drumbeat.scoring --settings FILE                                    a replica, as drumbeat starts it
python -m drumbeat.scoring --port 8000 --listen 127.0.0.1:5001 -- vllm serve  a program with routes of its own
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace

from drumbeat.model.model_view import model_view
from drumbeat.scoring.scorer import ScorerError
from drumbeat.scoring.server import ScoringProcess, make_scorer
from drumbeat.scoring.settings import ProgramBehind, RouteProbe, ScoringSettings, read_settings, shares
from drumbeat.scoring.standard_output import keep_printing
from drumbeat.scoring.worker_processes import LOAD_EXIT, NUMBER, WorkerProcesses

log = logging.getLogger("drumbeat.scoring")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m drumbeat.scoring", description="Serves a model by Azure's contract.")
    parser.add_argument("--settings", default="", help="a JSON file with everything below and the router's address")
    parser.add_argument("--script", default="", help="a scoring script with init() and run()")
    parser.add_argument("--model", default="", help="an MLflow model, or the folder that AZUREML_MODEL_DIR names")
    parser.add_argument("--model-name", default="", help="its name inside of AZUREML_MODEL_DIR, which holds it then")
    parser.add_argument("--listen", default="", help="HOST:PORT")
    parser.add_argument("--port", type=int, default=0, help="the port of loopback of a program with routes of its own")
    parser.add_argument("--ready", default="/", help="the route that says whether that program is ready")
    parser.add_argument("--alive", default="", help="the route that says whether it is alive; as --ready")
    parser.add_argument("--threads", type=int, default=0, help="runs at once, for thread-safe scripts (1)")
    parser.add_argument("--batch", type=int, default=0, help="requests of a batch, for run_batch() and MLflow (1)")
    parser.add_argument("command", nargs="*", help="after --: starts the program behind")
    return parser


def settings_from(arguments: Sequence[str]) -> ScoringSettings:
    """The settings of a command line. Raises ScorerError."""
    options = _parser().parse_args(arguments)
    settings = read_settings(options.settings, os.environ)
    if options.script:
        folder, name = os.path.split(os.path.abspath(options.script))
        settings = replace(settings, app_root=folder, entry_script=name)
    if options.model:
        try:
            model = options.model
            if options.model_name:
                model = tempfile.mkdtemp(prefix="model-")
                model_view(options.model, options.model_name, model)
        except OSError as error:
            raise ScorerError(f"The model at {options.model} can't be shown to the script: {error}") from error
        settings = replace(settings, model_dir=model)
    if options.listen:
        settings = replace(settings, listen=options.listen)
    if options.port:
        ready = RouteProbe(options.ready)
        behind = ProgramBehind(options.port, tuple(options.command), ready, RouteProbe(options.alive or options.ready))
        settings = replace(settings, behind=behind)
    if options.threads:
        settings = replace(settings, threads=options.threads)
    if options.batch:
        settings = replace(settings, max_batch_size=options.batch)
    if not settings.listen and settings.router is None:
        raise ScorerError("Say where requests come from: --listen HOST:PORT, or --settings with a router.")
    return settings


def _worker_settings(settings: ScoringSettings, number: int) -> ScoringSettings:
    """The settings of one of several processes."""
    if settings.router is None:
        return settings
    share = shares(settings.router.connections, settings.worker_count)
    return replace(settings, router=replace(settings.router, connections=share[number % len(share)]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM; returns the exit code, 3 if the model can't be loaded."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(message)s", stream=sys.stderr)
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        settings = settings_from(given)
        number = os.environ.get(NUMBER)
        count = settings.worker_count
        if settings.router is not None:
            count = len(shares(settings.router.connections, count))
        if number is None and count > 1 and settings.behind is None:
            return WorkerProcesses(given, count).run()
        if number is not None:
            settings = _worker_settings(settings, int(number))
        if settings.model_dir:
            os.environ["AZUREML_MODEL_DIR"] = settings.model_dir
        scorer = make_scorer(settings)
        scorer.init()
    except ScorerError as error:
        log.error("%s", error, exc_info=error.__cause__)  # noqa: TRY400 - the cause is the script's own
        return LOAD_EXIT
    return asyncio.run(ScoringProcess(settings, scorer).serve())


if __name__ == "__main__":
    keep_printing()
    code = main()
    sys.stdout.flush()
    # Threads that run a model mustn't hold up the end.
    os._exit(code)
