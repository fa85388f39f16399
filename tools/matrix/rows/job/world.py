"""`python world.py RANKS FOLDER`: whether so many ranks have trained, as `metrics.json` in the folder says.

A node whose ranks have left no such file has nothing to say.
"""

import json
import sys
from pathlib import Path

file = Path(sys.argv[2]) / "metrics.json"
ranks = json.loads(file.read_text())["ranks"] if file.exists() else int(sys.argv[1])
sys.exit(f"world.py: {ranks} ranks have trained, not {sys.argv[1]}" if ranks != int(sys.argv[1]) else 0)
