"""Hangs: the odd rank is 1 where nothing else is said, and rank 0 waits for it."""

from __future__ import annotations

from tools.hangs.case import NEEDS_ROOT, PLAIN, READY, Case, beside, hang

_LOADER = """\
from torch.utils.data import DataLoader, Dataset
class Images(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        if rank == 1 and index >= 8:
            {}
        return torch.ones(4)
for batch in DataLoader(Images(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
    if rank == 0:
        dist.all_reduce(ones)
"""
_FUSE = """\
import ctypes, tempfile
folder = tempfile.mkdtemp()
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
if ctypes.CDLL(None, use_errno=True).mount(b"dead", folder.encode(), b"fuse", 0, options):
    raise OSError(ctypes.get_errno(), "mount")
os.stat(f"{folder}/images")
"""

HANGS: tuple[Case, ...] = (
    hang("stopped rank", beside("os.kill(os.getpid(), 19)")),
    hang("lock taken twice", beside("lock = threading.Lock()\nlock.acquire()\nlock.acquire()")),
    hang("sleep of a rank", beside("time.sleep(1000)")),
    hang("rank left, store", READY + 'store = dist.distributed_c10d._get_default_store()\nif rank == 0:\n'
         '    store.get("never")\nos._exit(0)\n'),
    hang("loader's worker in a lock", READY
         + _LOADER.format("lock = threading.Lock(); [lock.acquire() for _ in '12']")),
    hang("loader's worker stopped", READY + _LOADER.format("os.kill(os.getpid(), 19)")),
    hang("loader's worker asleep", READY + _LOADER.format("time.sleep(1000)")),
    hang("silent socket", beside("import socket\none, other = socket.socketpair()\none.recv(10)")),
    hang("idle child process", beside('import subprocess\nsubprocess.run(["sleep", "1000"])')),
    hang("lock of a file", beside(
        "import fcntl, tempfile\nfile, again = tempfile.NamedTemporaryFile(), None\nagain = open(file.name)\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\nfcntl.flock(again, fcntl.LOCK_EX)")),
    hang("different collectives", READY + "if rank == 1:\n    dist.barrier()\n"
         "dist.all_gather([torch.ones(5), torch.ones(5)], torch.ones(5))\n", odd=None),
    hang("two threads, two locks", READY + "one, other = threading.Lock(), threading.Lock()\none.acquire()\n"
         "def work():\n    other.acquire()\n    one.acquire()\nthreading.Thread(target=work).start()\n"
         "time.sleep(0.3)\nother.acquire()\n", odd=0, ranks=1, begins=PLAIN),
    hang("named pipe without a writer", beside(
        "import tempfile\npath = tempfile.mkdtemp() + '/pipe'\nos.mkfifo(path)\nopen(path)")),
    hang("empty queue", beside("import queue\nqueue.Queue().get()")),
    hang("dead file system", beside(_FUSE), needs=NEEDS_ROOT),
    hang("joined thread that never ends", beside(
        "event = threading.Event()\nthread = threading.Thread(target=event.wait)\nthread.start()\nthread.join()")),
    hang("rank missing at the start", "if rank == 1:\n" + "    print('ready', flush=True)\n    time.sleep(1000)\n"
         "import torch.distributed as dist\nprint('ready', flush=True)\ndist.init_process_group('gloo')\n",
         begins=PLAIN),
    hang("backward without the peer", READY
         + "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(9, 9))\n"
         "loss = model(torch.ones(2, 9)).sum()\nif rank == 1:\n    time.sleep(1000)\nloss.backward()\n"),
    hang("both receive", READY + "dist.recv(ones, src=1 - rank)\n", odd=None),
    hang("forked child in a lock", beside(
        "lock = threading.Lock()\nlock.acquire()\npid = os.fork()\nif pid == 0:\n    lock.acquire()\n"
        "os.waitpid(pid, 0)")),
    hang("pause", beside("import signal\nsignal.pause()")),
    hang("asyncio that waits for ever", beside("import asyncio\nasyncio.run(asyncio.Event().wait())")),
    hang("asynchronous collective", READY + "work = None\nif rank == 1:\n    time.sleep(1000)\n"
         "work = dist.all_reduce(ones, async_op=True)\nwork.wait()\n"),
    hang("condition without a notice", beside("condition = threading.Condition()\nwith condition:\n"
        "    condition.wait()")),
    hang("pipe of a child", beside("import subprocess\nsubprocess.check_output(['sleep', '1000'])")),
    hang("pool with a deadlocked worker", beside(
        "import multiprocessing\nlock = multiprocessing.Lock()\nlock.acquire()\ndef work(_):\n    lock.acquire()\n"
        "multiprocessing.get_context('fork').Pool(1).map(work, [1])")),
    hang("one rank more in the loop", READY + "for step in range(3 if rank == 0 else 2):\n    dist.all_reduce(ones)\n"
         "dist.distributed_c10d._get_default_store().get('never')\n", odd=None),
    hang("object broadcast without the source", READY + "box = [1]\nif rank == 0:\n    time.sleep(1000)\n"
         "dist.broadcast_object_list(box, src=0)\n", odd=0),
    hang("polling for a file", beside("while not os.path.exists('/nowhere/go'):\n    time.sleep(0.2)")),
    hang("all gather without the peer", READY + "lists = [torch.ones(3), torch.ones(3)]\nif rank == 1:\n"
         "    threading.Event().wait()\ndist.all_gather(lists, torch.ones(3))\n"),
    hang("key that a sleeping rank never sets", READY + "if rank == 1:\n    time.sleep(1000)\n"
         "dist.distributed_c10d._get_default_store().get('never')\n"),
    hang("rank left, wait of the store", READY + "store = dist.distributed_c10d._get_default_store()\n"
         "if rank == 0:\n    store.wait(['never'])\nos._exit(0)\n"),
)  # fmt: skip
