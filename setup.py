"""Compile the hot path. Everything else about the package is in pyproject.toml.

BOURSE_BUILD=release   (default) -O3, no bounds checks, no asserts
BOURSE_BUILD=checked   -O1, bounds checks and asserts
BOURSE_NATIVE=1        add -march=native: faster on this machine, not portable
BOURSE_COMPILE=0       install without compiling (tools/setup.sh builds in place afterwards)
BOURSE_ANNOTATE=1      also write build/cython-*/**/*.html, Cython's per-line cost report
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def refuse(sentence: str) -> None:
    """End the build with one sentence."""
    sys.exit(f"bourse: cannot build: {sentence}")


if not sys.platform.startswith("linux"):
    refuse(f"bourse runs on Linux (futex, eventfd), and this is {sys.platform}.")
compiler = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
if not shutil.which(compiler.split()[0]) and not shutil.which("cc"):
    refuse("no C compiler found; install gcc or clang (Debian: apt-get install gcc).")
if not (Path(sysconfig.get_paths()["include"]) / "Python.h").exists():
    refuse("Python.h is missing; install the Python headers (Debian: apt-get install python3-dev).")
if not shutil.which(compiler.split()[0]):
    os.environ["CC"] = "cc"

from Cython.Build import cythonize  # noqa: E402
from setuptools import Extension, setup  # noqa: E402

# The compiled modules, in the order of the data's way through them.
COMPILED = [
    "bourse/core/killpoint.py",
    "bourse/core/ring.py",
    "bourse/core/pools.py",
    "bourse/core/indexes.py",
    "bourse/core/books.py",
    "bourse/core/levels.py",
    "bourse/core/registry.py",
    "bourse/core/orders.py",
    "bourse/core/matching.py",
    "bourse/core/executor.py",
    "bourse/core/exports.py",
    "bourse/core/engine.py",
    "bourse/core/agreement.py",
    "bourse/core/audit.py",
    "bourse/core/restoring.py",
    "bourse/core/histogram.py",
    "bourse/protocol/codec.py",
    "bourse/journal/crc32c.py",
    "bourse/journal/writer.py",
    "bourse/journal/reader.py",
    "bourse/journal/image.py",
    "bourse/journal/apply.py",
    "bourse/library/arguments.py",
    "bourse/library/results.py",
    "bourse/library/reads.py",
    "bourse/library/engine.py",
    "bourse/library/c_face.py",
    "bourse/daemon/shared.py",
    "bourse/daemon/session.py",
    "bourse/daemon/stages.py",
    "bourse/daemon/tape.py",
    "bourse/daemon/outbound.py",
    "bourse/daemon/matching_thread.py",
    "bourse/daemon/journal_thread.py",
    "bourse/daemon/segment_thread.py",
    "bourse/daemon/gateway.py",
    "bourse/bench/calibration_loop.py",
    "bourse/bench/client.py",
    "bourse/bench/engine_loops.py",
    "bourse/bench/fan_in_loops.py",
    "bourse/bench/churn.py",
    "bourse/bench/growth_loops.py",
    "bourse/bench/league_flow.py",
    "bourse/bench/league_loops.py",
    "bourse/bench/journal_loops.py",
    "bourse/bench/pipeline_loops.py",
]
if missing := [path for path in COMPILED if not Path(path).exists()]:
    refuse(f"{missing[0]} is listed in setup.py and is not there.")
if os.environ.get("BOURSE_COMPILE") == "0":
    COMPILED = []

BUILD = os.environ.get("BOURSE_BUILD", "release")
CHECKED = BUILD == "checked"

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": CHECKED,
    "initializedcheck": CHECKED,
    "wraparound": False,
    "cdivision": True,
    "auto_pickle": False,  # no __reduce_cython__ on every class
    "autotestdict": False,  # no __test__ in every module
}
CFLAGS = ["-O1", "-g"] if CHECKED else ["-O3", "-g1"]
if os.environ.get("BOURSE_NATIVE") == "1":
    CFLAGS.append("-march=native")
MACROS = [] if CHECKED else [("CYTHON_WITHOUT_ASSERTIONS", "1")]


def extension(path: str) -> Extension:
    """Describe one compiled module; every module gets the same flags."""
    name = path.removesuffix(".py").replace("/", ".")
    macros = list(MACROS)
    if name == "bourse.bench.calibration_loop":  # the one that says how all are compiled
        macros += [("BOURSE_CFLAGS", f'"{" ".join(CFLAGS)}"'), ("BOURSE_PROFILE", f'"{BUILD}"')]
    return Extension(
        name,
        [path],
        include_dirs=["bourse/include"],
        depends=["bourse/include/bourse.h"] if "c_face" in path else [],
        extra_compile_args=CFLAGS,
        define_macros=macros,
    )


setup(
    ext_modules=cythonize(
        [extension(path) for path in COMPILED],
        build_dir=f"build/cython-{BUILD}",
        compiler_directives=DIRECTIVES,
        nthreads=os.cpu_count() or 1,
        annotate=os.environ.get("BOURSE_ANNOTATE") == "1",
    ),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
