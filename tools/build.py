"""Compile what changed, in place; refuse a release build with a performance hint.

Needs only the standard library and a Python that has Cython and setuptools. BOURSE_BUILD selects
the profile (setup.py); a change of profile or flags compiles everything again.
"""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SWITCHES = ("BOURSE_BUILD", "BOURSE_NATIVE", "BOURSE_ANNOTATE", "CC", "CFLAGS")
HINT = re.compile(r"performance hint: (?P<path>bourse/[\w/]+)\.py:")


def main() -> int:
    """Build; return the exit code."""
    profile = os.environ.get("BOURSE_BUILD", "release")
    wanted = " ".join(f"{name}={os.environ.get(name, '')}" for name in SWITCHES)
    wanted += f" python={sys.version} setup={(ROOT / 'setup.py').read_text()}"
    remembered = ROOT / "build" / "profile"
    same = remembered.exists() and remembered.read_text() == wanted
    remembered.unlink(missing_ok=True)  # until this build has worked

    command = [sys.executable, "setup.py", "build_ext", "--inplace"]
    command += [] if same else ["--force"]
    code, lines = run(command)
    if code:
        sys.stderr.write("".join(lines))
        print("bourse: the build failed; the compiler's words are above.", file=sys.stderr)
        return code
    remembered.parent.mkdir(exist_ok=True)
    remembered.write_text(wanted)

    compiled = [line for line in lines if line.startswith(("Compiling ", "[1/", "building '"))]
    hints = [line for line in lines if "performance hint" in line]
    if hints and profile == "release":
        sys.stderr.write("".join(hints))
        for path in {match["path"] for line in hints if (match := HINT.search(line))}:
            # So that the next build says it again, until it is repaired.
            (ROOT / "build" / f"cython-{profile}" / f"{path}.c").unlink(missing_ok=True)
        print("bourse: performance hints in a release build; see above.", file=sys.stderr)
        return 1
    if compiled:
        print(f"bourse: compiled ({profile})", file=sys.stderr)
    return 0


def run(command: list[str]) -> tuple[int, list[str]]:
    """Run a command quietly and keep what it says; says so when it takes long, with dots."""
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        stream = process.stdout
        reader = threading.Thread(target=lambda: lines.extend(stream))
        reader.start()
        reader.join(3)
        takes_long, dots = reader.is_alive(), sys.stderr.isatty()
        if takes_long:
            print("bourse: building; compiling all of it takes a minute or more", file=sys.stderr)
        while reader.is_alive():
            reader.join(5)
            if dots:
                print(".", end="", file=sys.stderr, flush=True)
        if takes_long and dots:
            print(file=sys.stderr)
    return process.returncode, lines


if __name__ == "__main__":
    sys.exit(main())
