"""Builds the web page from `page/` into the server's package; --check only says whether the built files are up to date.

The built files are committed, so that neither a clone nor the wheel needs Node. Where Node or `page/node_modules` is
missing, nothing is built and nothing is compared.
"""

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "page"
BUILT = ROOT / "src" / "drumbeat" / "server" / "page" / "built"
VITE = PAGE / "node_modules" / "vite" / "bin" / "vite.js"


def main() -> int:
    """Builds the page, or checks it."""
    node = shutil.which("node")
    if node is None or not VITE.exists():
        print("the web page isn't built: node, or page/node_modules (cd page && npm ci), is missing")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "built"
        build = [node, str(VITE), "build", "--outDir", str(fresh), "--logLevel", "warn"]
        subprocess.run(build, cwd=PAGE, check=True, timeout=300)
        if "--check" not in sys.argv:
            shutil.rmtree(BUILT, ignore_errors=True)
            shutil.copytree(fresh, BUILT)
            return 0
        differing = sorted(differences(fresh, BUILT))
    for path in differing:
        print(f"{BUILT.relative_to(ROOT) / path} isn't what page/ builds; run `make docs`")
    return 1 if differing else 0


def differences(one: Path, other: Path) -> set[str]:
    """The paths of files that are not the same in both folders."""
    paths = {str(file.relative_to(folder)) for folder in (one, other) for file in folder.rglob("*") if file.is_file()}
    return set(filecmp.cmpfiles(one, other, paths, shallow=False)[1]) | {
        path for path in paths if not ((one / path).exists() and (other / path).exists())
    }


if __name__ == "__main__":
    sys.exit(main())
