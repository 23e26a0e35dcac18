"""Cells that try to leave something behind, or never end, each with what its trial must say ("" for a calm end)."""

# ruff: noqa: E501 - one trap a line

from __future__ import annotations

SETUP = """
import asyncio, atexit, io, json, logging, multiprocessing, os, random, signal, socket, sys, tempfile, threading, time
import numpy as np
import core as torch
folder = FOLDER
written = open(folder + "/log.txt", "w"); written.write("kept in the buffer")
open(folder + "/in.txt", "w").write("\\n".join(map(str, range(20000))))
reading = open(folder + "/in.txt"); reading.readline()
mapped = np.memmap(folder + "/map.bin", dtype="f4", mode="w+", shape=(1000,)); mapped[:] = 1
block = __import__("mmap").mmap(-1, 4096); block[0] = 1
lock, queue = threading.Lock(), []
pair = socket.socketpair()
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(1)
pipe = os.pipe()
def hold():
    while not stop.is_set():
        with lock:
            stop.wait(0.05)
        stop.wait(0.0001)
stop = threading.Event()
holder = threading.Thread(target=hold, daemon=True); holder.start()
w = torch.randn(200, 200, requires_grad=True)
((w @ w).tanh()).sum().backward()
np.ones((300, 300)) @ np.ones((300, 300))
class Squares(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, i): return torch.ones(4) * i
loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=1)
model = torch.nn.Linear(3, 2)
values = [1, 2, 3]
logging.getLogger("trap").addHandler(logging.StreamHandler(sys.stderr))
"""
TRAPS: dict[str, tuple[str, str]] = {
    "ops on the pools": ("for _ in range(3): ((w @ w).tanh()).sum().backward()", ""),
    "threads set to 2": ("torch.set_num_threads(2)\n((w @ w).tanh()).sum().backward()", ""),
    "NumPy's pool": ("np.ones((700, 700)) @ np.ones((700, 700))", ""),
    "a lock that a thread of the parent holds": ("with lock: pass\nwith lock: pass\nwith lock: pass", "?"),
    "a loader with workers": ("assert sum(float(b.sum()) for b in loader) == 480", ""),
    "a thread": ("t = threading.Thread(target=values.append, args=(4,)); t.start(); t.join(); assert len(values) == 4", ""),
    "asyncio": ("async def f():\n    await asyncio.sleep(0.01)\n    return 3\nassert asyncio.run(f()) == 3", ""),
    "top-level await": ("await asyncio.sleep(0.01)", ""),
    "write to an open file": ("written.write('from the trial'); written.flush()", ""),
    "truncate an open file": ("written.truncate(0); os.ftruncate(written.fileno(), 0)", ""),
    "mode of an open file": ("os.fchmod(written.fileno(), 0)", "PermissionError"),
    "read on in an open file": ("assert len(reading.readlines()) == 19999", ""),
    "a memory-mapped file": ("mapped[:] = 7; mapped.flush()", ""),
    "memory shared with a child": ("block[0] = 9; assert block[0] == 9", ""),
    "shared memory by name": ("from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(create=True, size=64)", "Error"),
    "open for writing": ("open(folder + '/new.txt', 'w')", "PermissionError"),
    "open for writing in the home": ("open(os.path.expanduser('~/gradlab-trap.txt'), 'w')", "PermissionError"),
    "append": ("open(folder + '/in.txt', 'a')", "PermissionError"),
    "low-level open": ("os.open(folder + '/in.txt', os.O_RDWR)", "PermissionError"),
    "truncate by name": ("os.truncate(folder + '/in.txt', 0)", "Error"),
    "remove": ("os.remove(folder + '/in.txt')", "PermissionError"),
    "rename": ("os.rename(folder + '/in.txt', folder + '/b')", "PermissionError"),
    "link": ("os.link(folder + '/in.txt', folder + '/c')", "PermissionError"),
    "symbolic link": ("os.symlink('/etc', folder + '/d')", "PermissionError"),
    "a new folder": ("os.mkdir(folder + '/e')", "PermissionError"),
    "mode": ("os.chmod(folder + '/in.txt', 0)", "PermissionError"),
    "times": ("os.utime(folder + '/in.txt', (0, 0))", "PermissionError"),
    "a named pipe": ("os.mkfifo(folder + '/f')", "PermissionError"),
    "save a model": ("torch.save({'a': torch.ones(2)}, folder + '/model.pt')", "Error"),
    "a temporary file": ("open(tempfile.mkdtemp() + '/x', 'w').write('y')", ""),
    "read a file": ("assert open(folder + '/in.txt').read().startswith('0')", ""),
    "write to /proc": ("open('/proc/self/oom_score_adj', 'w').write('0')", "PermissionError"),
    "a new socket": ("socket.socket()", "PermissionError"),
    "the network": ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:1')", "Error"),
    "speak through a socket of the parent": ("pair[0].send(b'hello')", "Error"),
    "write to a pipe of the parent": ("os.write(pipe[1], b'hello')", ""),
    "accept on a socket of the parent": ("server.accept()", "Error"),
    "a program": ("import subprocess; subprocess.run(['ls'])", "Error"),
    "os.system": ("assert os.system('true') == 0", "Error"),
    "exec": ("os.execv('/bin/true', ['true'])", "PermissionError"),
    "fork": ("os.fork()", "PermissionError"),
    "many forks": ("while True:\n    os.fork()", "PermissionError"),
    "a process": ("multiprocessing.get_context('fork').Process(target=print).start()", "PermissionError"),
    "a spawned process": ("multiprocessing.get_context('spawn').Process(target=print).start()", "Error"),
    "a pool of processes": ("from concurrent.futures import ProcessPoolExecutor as P\nwith P(1) as p: list(p.map(abs, [1]))", "Error"),
    "kill the parent": ("os.kill(os.getppid(), signal.SIGKILL)", "PermissionError"),
    "kill the grandparent": ("os.kill(GRANDPARENT, signal.SIGTERM)", "PermissionError"),
    "interrupt the group": ("os.killpg(os.getpgid(GRANDPARENT), signal.SIGINT)", "PermissionError"),
    "the parent's limits": ("import resource; resource.prlimit(GRANDPARENT, resource.RLIMIT_NOFILE, (3, 3))", "PermissionError"),
    "the parent's memory": ("open(f'/proc/{GRANDPARENT}/mem', 'r+b')", "PermissionError"),
    "sys.exit": ("sys.exit(3)", "SystemExit"),
    "os._exit": ("os._exit(3)", "ended with"),
    "an exit handler": ("atexit.register(lambda: open(folder + '/g', 'w'))", ""),
    "a segmentation fault": ("import ctypes; ctypes.string_at(0)", "ended with"),
    "abort": ("os.abort()", "ended with"),
    "endless": ("while True: pass", "longer than"),
    "endless in C": ("sum(range(10**12))", "longer than"),
    "asleep": ("time.sleep(99)", "longer than"),
    "no signal ends it": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass", "longer than"),
    "one terabyte": ("np.ones(1 << 37)", "Error"),
    "memory in pieces": ("a = [np.ones(1 << 23) for _ in range(40)]", "?"),
    "shared memory in pieces": ("a = [__import__('mmap').mmap(-1, 1 << 26) for _ in range(40)]\nfor m in a: m.write(b'x' * (1 << 26))", "it took"),
    "a large file": ("f = open(tempfile.mkdtemp() + '/x', 'wb')\nwhile True: f.write(b'x' * (1 << 22))", "?"),
    "endless output": ("while True: print('x' * 100000)", "?"),
    "input": ("input('name? ')", "RuntimeError"),
    "print and log": ("print('seen?'); print('seen?', file=sys.stderr); logging.getLogger('trap').warning('seen?'); os.write(1, b'seen?')", ""),
    "random numbers": ("random.random(); np.random.rand(3); torch.randn(3); torch.manual_seed(9); np.random.seed(9)", ""),
    "names": ("values.append(5); model = None; x = 3; del w", ""),
    "the environment": ("os.environ['TRAP'] = '1'; os.chdir('/'); sys.path.append('trap'); os.umask(0)", ""),
    "weights": ("torch.nn.init.zeros_(model.weight)", ""),
    "a debugger": ("import pdb; pdb.Pdb(stdin=io.StringIO('q')).set_trace(); x = 1", "?"),
    "a signal handler": ("signal.signal(signal.SIGINT, signal.SIG_DFL); signal.alarm(1); time.sleep(5)", "ended with"),
    "a recursion": ("def f(): return f()\nf()", "RecursionError"),
    "a new namespace": ("import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0", "AssertionError"),
}  # fmt: skip
