"""The simulation's hold on the process: syscalls.c is compiled and preloaded, and its hooks set.

`preload()` starts the program anew with the library in LD_PRELOAD; `System` is the Python side.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("syscalls.c")
VARIABLE = "BOURSE_SIMULATION"

OPEN, OPENED, WRITE, TRUNCATE, FSYNC, FDATASYNC = 1, 2, 3, 4, 5, 6
RENAME, UNLINK, MKDIR, DROP_CACHE, CLOSE, UNKNOWN, WAIT = 7, 8, 9, 10, 11, 12, 13

Answer = Callable[[int, int, int, int, str, str | int], int]
"""kind, descriptor, two numbers, a path, and a second path or an address: the call's result."""

_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_void_p,
)


def library() -> Path:
    """Compile syscalls.c, unless that has been done."""
    stamp = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    path = ROOT / "build" / "simulation" / f"syscalls-{stamp}.so"
    if not path.exists():
        compiler = shutil.which("cc") or shutil.which("gcc")
        assert compiler, "the product's own build needs a compiler too"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", new, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        new.rename(path)
    return path


def environment() -> dict[str, str]:
    """What a process needs in which the simulation can run."""
    path = str(library())
    return os.environ | {
        "LD_PRELOAD": path,
        VARIABLE: path,
        "PYTHONHASHSEED": "0",
        # A generation's rings and buffers come from what the one before gave back.
        "MALLOC_MMAP_THRESHOLD_": "1073741824",
        "MALLOC_TRIM_THRESHOLD_": "1073741824",
        "MALLOC_TOP_PAD_": "16777216",
    }


def preload(arguments: list[str]) -> None:
    """Go on only in a process that has the library; becomes one if this is not."""
    if os.environ.get(VARIABLE, "") != str(library()):
        _start_anew(arguments)


def _start_anew(arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    os.execve(sys.executable, command, environment())


class System:
    """The preloaded library: which directory is simulated, who answers, what time it is."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ[VARIABLE])
        self._library.sim_clock.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        self._callback: object = None
        self.trouble: BaseException | None = None
        """What an answer raised; C cannot hand it on."""

    def install(self, directory: str, answer: Answer) -> None:
        """Have `answer` decide about every call below a directory from now on."""

        def callback(kind: int, fd: int, a: int, b: int, path: bytes | None, data: int) -> int:
            try:
                second: str | int = data
                if kind == RENAME:
                    second = ctypes.string_at(data).decode()
                return answer(kind, fd, a, b, path.decode() if path else "", second)
            except BaseException as error:
                self.trouble = self.trouble or error
                return -5

        new = _CALLBACK(callback)
        self._library.sim_install(directory.encode(), new)
        self._callback = new

    def set_clock(self, mono_ns: int, wall_ns: int) -> None:
        """Let both clocks stand at these times."""
        self._library.sim_clock(1, mono_ns, wall_ns)

    def free_clock(self) -> None:
        """Let the clocks be the machine's again."""
        self._library.sim_clock(0, 0, 0)
