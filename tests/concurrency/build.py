"""Compile what these tests run: their own compiled modules, and the daemon's threads under TSan.

    python tests/concurrency/build.py plain    build/concurrency-plain: pipeline_hammer alone
    python tests/concurrency/build.py tsan     build/concurrency-tsan: both hammers, and a copy of
                                               the package with its threads' modules instrumented

The folder goes first on PYTHONPATH. C files are those of the release build; a stamp of all sources
and of the tools remembers what was built.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import Cython
import Cython.Build
import setuptools

ROOT = Path(__file__).resolve().parents[2]
HAMMERS = {"plain": ["pipeline_hammer"], "tsan": ["ring_hammer", "pipeline_hammer"]}
FLAGS = {
    "plain": ["-O2", "-g1"],
    "tsan": ["-O1", "-g1", "-fsanitize=thread", "-Wno-tsan"],
}
LINK_FLAGS = {"plain": [], "tsan": ["-fsanitize=thread"]}
THREADS_RUN = ("bourse/core/", "bourse/journal/crc32c", "bourse/journal/writer")
THREADS_RUN += ("bourse/daemon/shared", "bourse/daemon/matching", "bourse/daemon/journal")


def settings() -> dict[str, Any]:
    """What setup.py says about the release build, without building."""
    with (
        mock.patch.dict(os.environ, BOURSE_BUILD="release", BOURSE_COMPILE="1"),
        mock.patch.object(setuptools, "setup"),
        mock.patch.object(Cython.Build, "cythonize"),
    ):
        return runpy.run_path("setup.py")


def stamp(profile: str) -> str:
    """A digest of everything that the build depends on."""
    text = hashlib.sha256()
    sources = [ROOT / "setup.py", *Path(__file__).parent.glob("*.py")]
    sources += [path for path in ROOT.glob("bourse/*/*.p*") if path.suffix in (".py", ".pxd")]
    for path in sorted(sources):
        text.update(str(path).encode() + path.read_bytes())
    compiler = subprocess.run([os.environ.get("CC") or "cc", "--version"], capture_output=True)
    for word in (*FLAGS[profile], sys.version, Cython.__version__, compiler.stdout):
        text.update(word if isinstance(word, bytes) else word.encode())
    return text.hexdigest()


def folder(profile: str) -> Path:
    """Where a profile's modules are."""
    return ROOT / "build" / f"concurrency-{profile}"


def copy_package(target: Path) -> None:
    """Copy the package as it is, compiled modules included; what is newer in the copy stays."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.rmtree(target / "bourse", ignore_errors=True)
    shutil.copytree(ROOT / "bourse", target / "bourse", ignore=ignore)


def main() -> None:
    """Build the profile that the command line names, when something has changed."""
    profile = sys.argv[1]
    target = folder(profile)
    remembered = target / "stamp"
    wanted = stamp(profile)
    if remembered.exists() and remembered.read_text() == wanted:
        return
    remembered.unlink(missing_ok=True)
    os.chdir(ROOT)
    target.mkdir(parents=True, exist_ok=True)
    release = settings()
    modules = []
    if profile == "tsan":
        copy_package(target)
        modules = [
            path
            for path in release["COMPILED"]
            if path.startswith(THREADS_RUN) and "audit" not in path
        ]
    options = {
        "extra_compile_args": [*FLAGS[profile], "-w"],
        "extra_link_args": LINK_FLAGS[profile],
        "define_macros": release["MACROS"],
    }
    extensions = [
        setuptools.Extension(path.removesuffix(".py").replace("/", "."), [path], **options)
        for path in modules
    ]
    # The hammers' C files have a folder of their own: the release build does not know them.
    hammers = [
        setuptools.Extension(name, [f"tests/concurrency/{name}.py"], **options)
        for name in HAMMERS[profile]
    ]
    directives = release["DIRECTIVES"]
    ready = Cython.Build.cythonize(
        extensions, build_dir="build/cython-release", compiler_directives=directives, quiet=True
    ) + Cython.Build.cythonize(
        hammers, build_dir="build/cython-tests", compiler_directives=directives, quiet=True
    )
    build = ["build_ext", "--build-lib", str(target), "--build-temp", str(target / "objects")]
    sys.argv = ["setup.py", "--quiet", *build, "--force", "--parallel", str(os.cpu_count() or 1)]
    setuptools.setup(name="concurrency-tests", ext_modules=ready, packages=[], py_modules=[])
    remembered.write_text(wanted)


if __name__ == "__main__":
    main()
