"""Compile what these tests run: their own compiled modules, and the daemon's threads under TSan.

    python tests/concurrency/build.py plain    build/concurrency-plain: pipeline_hammer alone
    python tests/concurrency/build.py tsan     build/concurrency-tsan: both hammers, and a copy of
                                               the package with its threads' modules instrumented

The folder goes first on PYTHONPATH. C files are those of the release build; a stamp of tools and
sources remembers what was built, and a change of sources compiles only what it concerns.
"""

from __future__ import annotations

import hashlib
import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable
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
# What the matcher and the journal thread execute.
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


def digest(words: Iterable[bytes]) -> str:
    """A digest of many words."""
    return hashlib.sha256(b"\0".join(words)).hexdigest()


def stamps(profile: str) -> tuple[str, str]:
    """Digests of the tools and settings, and of the sources."""
    compiler = (os.environ.get("CC") or "cc").split()[0]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    tools = [version, sys.version.encode(), Cython.__version__.encode()]
    tools += [(ROOT / "setup.py").read_bytes(), Path(__file__).read_bytes()]
    here = Path(__file__).parent
    sources = [*here.glob("*_hammer.py"), *ROOT.glob("bourse/*.py")]
    for package in ("core", "journal", "daemon"):
        sources += [*ROOT.glob(f"bourse/{package}/*.py"), *ROOT.glob(f"bourse/{package}/*.pxd")]
    words = [str(path).encode() + path.read_bytes() for path in sorted(sources)]
    return digest([profile.encode(), *tools]), digest(words)


def folder(profile: str) -> Path:
    """Where a profile's modules are."""
    return ROOT / "build" / f"concurrency-{profile}"


def copy_package(target: Path, modules: list[str]) -> None:
    """Copy the package with its compiled modules, except those that are built here."""
    ours = {module.removesuffix(".py") for module in modules}
    source_files = {
        path.relative_to(ROOT)
        for path in (ROOT / "bourse").rglob("*.*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in (target / "bourse").rglob("*"):
        if path.is_file() and path.relative_to(target) not in source_files:
            path.unlink()
    for path in source_files:
        if path.suffix != ".so" or str(path).partition(".")[0] not in ours:
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, target / path)


def main() -> None:
    """Build the profile that the command line names, when something has changed."""
    profile = sys.argv[1]
    target = folder(profile)
    remembered = target / "stamp"
    tools, sources = stamps(profile)
    before = remembered.read_text().split() if remembered.exists() else []
    if before == [tools, sources]:
        return
    remembered.unlink(missing_ok=True)
    os.chdir(ROOT)
    target.mkdir(parents=True, exist_ok=True)
    release = settings()
    modules = []
    if profile == "tsan":
        modules = [path for path in release["COMPILED"] if path.startswith(THREADS_RUN)]
        copy_package(target, modules)
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
    if before[:1] != [tools]:
        build.append("--force")
    sys.argv = ["setup.py", "--quiet", *build, "--parallel", str(os.cpu_count() or 1)]
    setuptools.setup(name="concurrency-tests", ext_modules=ready, packages=[], py_modules=[])
    remembered.write_text(f"{tools} {sources}")


if __name__ == "__main__":
    main()
