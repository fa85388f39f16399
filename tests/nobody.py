"""Scripts that run as a user whom files' modes bind: root isn't."""

import subprocess
import sys
from pathlib import Path

PRELUDE = """
import os
def become_nobody():  # After all imports: what they read, only root may be able to.
    if os.geteuid() == 0:
        os.setuid(65534)
"""


def run_as_nobody(script: str, folder: Path) -> None:
    """Runs it in that folder, from within: pytest's folders above are root's alone. It calls `become_nobody()`."""
    folder.chmod(0o777)
    subprocess.run([sys.executable, "-c", PRELUDE + script], check=True, cwd=folder)
