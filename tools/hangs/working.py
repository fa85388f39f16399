"""Silences that are no hang: a rank works, and often another one waits for it."""

from __future__ import annotations

from tools.hangs.case import PLAIN, READY, Case, beside, busy

_SPIN = "for number in range(10**12):\n    total = number * 2"
_LOADER = """\
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if rank == 1:
            {}
        return torch.ones(4)
for batch in DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
    dist.all_reduce(ones)
"""
_SERVER = """\
from http.server import BaseHTTPRequestHandler, HTTPServer
server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
"""

WORKING: tuple[Case, ...] = (
    busy("slow save", beside("import tempfile\nwith tempfile.TemporaryFile() as file:\n    while True:\n"
                             "        file.write(bytes(1 << 20)); file.seek(0); time.sleep(0.3)")),
    busy("long validation", beside(_SPIN)),
    busy("compiler in a child", beside(
        f"import subprocess\nsubprocess.run([sys.executable, '-c', '''{_SPIN}'''])")),
    busy("every rank computes", READY + "while True:\n    ones = (torch.ones(300, 300) @ torch.ones(300, 300))[0]\n"),
    busy("one long call of C", beside("sum(range(10**13))")),
    busy("loader's workers decode", READY + _LOADER.format("sum(range(10**8))")),
    busy("bound by the network", READY + "large, step = torch.ones(20_000_000), 0\nwhile True:\n"
         "    dist.all_reduce(large)\n    step += 1\n"),
    busy("slow download", beside(
        "import socket\none, other = socket.socketpair()\ndef send():\n    while True:\n"
        "        other.send(bytes(500)); time.sleep(0.1)\n"
        "threading.Thread(target=send, daemon=True).start()\nwhile True:\n    one.recv(10_000)")),
    busy("slow read of a large file", beside(
        "with open('/dev/zero', 'rb') as file:\n    while True:\n        file.read(1 << 20); time.sleep(0.3)")),
    busy("checkpoint in a thread", beside(
        "import tempfile\ndef save():\n    with tempfile.TemporaryFile() as file:\n        while True:\n"
        "            file.write(bytes(1 << 20)); file.seek(0); time.sleep(0.3)\n"
        "thread = threading.Thread(target=save)\nthread.start()\nthread.join()")),
    busy("server without requests", READY + _SERVER + "server.serve_forever()\n", ranks=1, begins=PLAIN),
    busy("sleeping job", READY + "time.sleep(1000)\n", ranks=1, begins=PLAIN),
    busy("waits for a file from outside", READY + "while not os.path.exists('/nowhere/go'):\n    time.sleep(0.2)\n",
         ranks=1, begins=PLAIN),
    busy("regular expression", beside("import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')")),
    busy("pickle of a large object", beside(
        "import pickle\nlarge = [str(number) for number in range(300_000)]\nwhile True:\n    pickle.dumps(large)")),
    busy("both sleep between steps", READY + "while True:\n    dist.all_reduce(ones)\n    time.sleep(600)\n"),
    busy("compression in a pool of threads", beside(
        "import zlib, os\nfrom concurrent.futures import ThreadPoolExecutor\ndata = os.urandom(1 << 20)\n"
        "def pack():\n    while True:\n        zlib.compress(data)\n"
        "ThreadPoolExecutor().submit(pack).result()")),
    busy("main thread waits, a server thread listens", READY + _SERVER
         + "threading.Thread(target=server.serve_forever, daemon=True).start()\nthreading.Event().wait()\n",
         ranks=1, begins=PLAIN),
    busy("pool of processes", beside(
        "import multiprocessing\ndef work(_):\n    while True:\n        sum(range(10**6))\n"
        "multiprocessing.get_context('fork').Pool(2).map(work, [1, 2])")),
    busy("copy of many files", beside(
        "import shutil, tempfile\nfolder = tempfile.mkdtemp()\nopen(folder + '/a', 'wb').write(bytes(4 << 20))\n"
        "while True:\n    shutil.copy(folder + '/a', folder + '/b'); time.sleep(0.2)")),
    busy("queue with a busy producer", beside(
        f"import queue\nitems = queue.Queue()\ndef make():\n    {_SPIN.replace(chr(10), chr(10) + '    ')}\n"
        "threading.Thread(target=make, daemon=True).start()\nitems.get()")),
    busy("large backward", READY + "weights = torch.ones(1500, 1500, requires_grad=True)\nwhile True:\n"
         "    (weights @ weights @ weights @ weights).sum().backward()\n"),
    busy("slow transforms in the rank itself", READY + "from torch.utils.data import DataLoader, Dataset\n"
         "class Images(Dataset):\n    def __len__(self):\n        return 9\n    def __getitem__(self, index):\n"
         "        return torch.ones(sum(range(10**9)) % 3 + 1) if rank else torch.ones(2)\n"
         "for batch in DataLoader(Images()):\n    dist.all_reduce(ones)\n"),
    busy("sort of a long list", beside("import random\nlarge = [random.random() for _ in range(10**6)]\nwhile True:\n"
                                       "    sorted(large)")),
    busy("tokens by child processes", beside(
        "import subprocess\nwhile True:\n    subprocess.run([sys.executable, '-c', 'sum(range(10**7))'])")),
    busy("download in pieces with pauses", beside(
        "import socket\none, other = socket.socketpair()\ndef send():\n    while True:\n"
        "        other.send(bytes(60_000)); time.sleep(0.25)\n"
        "threading.Thread(target=send, daemon=True).start()\nwhile True:\n    one.recv(1_000)")),
    busy("evaluation with a progress thread", beside(
        "def show():\n    while True:\n        time.sleep(0.1)\n"
        "threading.Thread(target=show, daemon=True).start()\n" + _SPIN)),
    busy("matrix products of one rank", beside(
        "while True:\n    large = torch.ones(700, 700) @ torch.ones(700, 700)")),
    busy("unpack of an archive in memory", beside(
        "import bz2\npacked = bz2.compress(bytes(10**7))\nwhile True:\n    bz2.decompress(packed)")),
    busy("asyncio that works", beside(
        "import asyncio\nasync def main():\n    while True:\n        sum(range(10**5))\n"
        "        await asyncio.sleep(0.01)\nasyncio.run(main())")),
)  # fmt: skip
