"""LitServe with its defaults, for bench/serve.py: `python -m bench.serve_litserve PORT FOLDER`.

A module of its own, since its workers import it again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import litserve

from bench.serve_programs import load


class ScriptApi(litserve.LitAPI):
    """Runs the script of the benchmark."""

    def setup(self, device: str) -> None:  # noqa: ARG002 - LitServe's
        """Loads the model in a worker."""
        self.run = load(Path(sys.argv[2]))

    def decode_request(self, request):
        """The script takes text. LitServe reads the annotations of this function, so it has none."""
        return json.dumps(request)

    def predict(self, x: str) -> Any:
        """Scores."""
        return self.run(x)

    def encode_response(self, output: Any) -> Any:
        """The answer is JSON as it is."""
        return output


if __name__ == "__main__":
    server = litserve.LitServer(ScriptApi(api_path="/score"), accelerator="cpu")
    server.run(
        port=int(sys.argv[1]), host="127.0.0.1", generate_client_file=False, log_level="error", pretty_logs=False
    )
