"""Runs a command in a pseudo-terminal and draws what it printed as an SVG, for the README.

python tools/terminal_picture.py docs/images/run.svg drumbeat run job.yml
"""

import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 120
FONT_FROM_A_CDN = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that rich would have a reader's browser fetch."""


def record(arguments: list[str]) -> bytes:
    """What the command prints on a terminal of WIDTH columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS=str(WIDTH), LINES="40", TERM="xterm-256color")
        os.execvp(arguments[0], arguments)
    printed = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # The other end is closed.
            break
        if not piece:
            break
        printed += piece
    os.waitpid(pid, 0)
    return printed


def screen(printed: bytes) -> list[str]:
    """The lines that stay, after lines that were drawn over."""
    lines = printed.decode(errors="replace").replace("\r\n", "\n").split("\n")
    return [
        line.split("\r")[-1].replace("\x1b[2K", "").replace("\x1b[K", "").replace("\x1b[?25l", "") for line in lines
    ]


def main() -> int:
    """Writes the picture."""
    target, command = Path(sys.argv[1]), sys.argv[2:]
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, force_terminal=True, color_system="truecolor", file=nowhere)
        console.print(Text(f"$ {' '.join(command)}", style="bold"))
        for line in screen(record(command)):
            console.print(Text.from_ansi(line))
        picture = FONT_FROM_A_CDN.sub("", console.export_svg(title="drumbeat"))
        target.write_text(picture.replace("Fira Code", "DejaVu Sans Mono"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
