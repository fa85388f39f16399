"""`python -m drumbeat.parallel`: the runner of a node, as a parallel step starts it.

python -m drumbeat.parallel --settings JSON --input FOLDER --append-to FILE -- score.py --its own arguments
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace

from drumbeat.model.model_view import model_view
from drumbeat.parallel import messages, results
from drumbeat.parallel.dealer import DONE, Dealer
from drumbeat.parallel.dealer_server import DealerServer
from drumbeat.parallel.journal import MiniBatchJournal
from drumbeat.parallel.mini_batches import divide, fingerprint
from drumbeat.parallel.node import Node
from drumbeat.parallel.settings import ParallelSettings, RunnerError, from_json

FAILED = 1


def settings_from(arguments: Sequence[str]) -> ParallelSettings:
    """The settings of a command line. Raises RunnerError."""
    parser = argparse.ArgumentParser("python -m drumbeat.parallel", description="Runs a script over mini-batches.")
    parser.add_argument("--settings", default="{}", help="a JSON object with the keys of ParallelSettings")
    parser.add_argument("--input", required=True, help="the folder or file that is divided")
    parser.add_argument("--append-to", default="", help="the file that gets all results, or its folder")
    parser.add_argument("--model", default="", help="AZUREML_MODEL_DIR of the script; without one, an MLflow model")
    parser.add_argument(
        "--model-name", default="", help="its name in AZUREML_MODEL_DIR; without one, it is that folder"
    )
    parser.add_argument("script", nargs="*", help="after --: the entry script and its arguments")
    given = parser.parse_args(arguments)
    script = [*given.script, ""][0]
    if not script and not given.model:
        raise RunnerError("give an entry script behind --, or --model with an MLflow model")
    own = {"input": given.input, "append_to": given.append_to, "model": given.model}
    settings = from_json(given.settings, **own, entry_script=script, arguments=tuple(given.script[1:]))
    settings = replace(settings, model_name=given.model_name)
    return settings.taking_own_arguments()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until the step has ended; returns the exit code."""
    try:
        settings = settings_from(sys.argv[1:] if arguments is None else arguments)
        if settings.entry_script and not os.path.isfile(settings.entry_script):
            raise RunnerError(f"no entry script {settings.entry_script} in the code: {os.getcwd()}")
        try:
            return _run_with_model(settings)
        except ConnectionError:
            raise
        except OSError as error:
            raise RunnerError(f"{error.filename or 'a file of the step'}: {error.strerror or error}") from error
    except RunnerError as error:
        print(f"parallel: {error}", file=sys.stderr)
        return FAILED


def _run_with_model(settings: ParallelSettings) -> int:
    """Runs with a folder in which the model has its name, if it has one, and its files."""
    if not settings.model_name:
        return _run(settings)
    with tempfile.TemporaryDirectory(prefix="drumbeat-model-") as folder:
        model_view(settings.model, settings.model_name, folder)
        return _run(replace(settings, model=folder))


def _run(settings: ParallelSettings) -> int:
    node, nodes = int(os.environ.get("NODE_RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    host, port = os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "0"))
    if nodes > 1 and messages.SECRET not in os.environ:
        raise RunnerError(f"{nodes} nodes need a secret that they share, in {messages.SECRET}")
    secret = messages.shared_secret()
    text = json.dumps(asdict(settings))
    if node:
        Node(settings, (host, port), secret, text).run()
        return 0
    batches = divide(settings)
    journal = MiniBatchJournal(os.environ.get("DRUMBEAT_CHECKPOINT_DIR", ""), fingerprint(batches))
    dealer = Dealer(batches, settings, journal)
    print(f"parallel: {dealer.summary()}", flush=True)
    server = DealerServer(dealer, batches, settings, nodes)
    port = server.start(host, port, secret)
    try:
        Node(settings, (host, port), secret, text).run()
    except ConnectionError:
        if server.error is None:
            raise
    server.wait()
    if dealer.over != DONE:
        raise RunnerError(dealer.over)
    results.write(settings, journal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
