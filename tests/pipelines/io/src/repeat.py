import pathlib
import sys

text, times, folder = sys.argv[1:]
(pathlib.Path(folder) / "repeated.txt").write_text(pathlib.Path(text).read_text() * int(times))
