"""Print what a C compiler needs to embed this Python and to call bourse.

As `python3-config --cflags --ldflags --embed` does, but for the interpreter that runs it (also in a
virtual environment, which has no python3-config), and with the static library where the shared one
is missing. Ends with 3 where there is neither.
"""

import sys
import sysconfig
from pathlib import Path

import bourse


def library_flags() -> list[str]:
    """Return the linker's flags for libpython, none if there is no libpython."""
    values = sysconfig.get_config_vars()
    name = f"python{values['LDVERSION']}"
    folder = Path(values["LIBDIR"])
    for place in (folder, folder / values.get("MULTIARCH", "")):
        if (place / f"lib{name}.so").exists():
            return [f"-L{place}", f"-Wl,-rpath,{place}", f"-l{name}"]
    for place in (Path(values["LIBPL"]), folder):
        if (place / f"lib{name}.a").exists():
            # Extension modules look for Python's functions in the host.
            words = f"{values['LIBS']} {values['SYSLIBS']}".split()
            return ["-Wl,--export-dynamic", str(place / f"lib{name}.a"), *words, "-lm"]
    return []


def main() -> int:
    """Print the flags; return the exit code."""
    libraries = library_flags()
    if not libraries:
        print("no libpython to embed (Debian: apt-get install python3-dev)", file=sys.stderr)
        return 3
    includes = {sysconfig.get_path("include"), sysconfig.get_path("platinclude")}
    print(*[f"-I{path}" for path in sorted(includes)], f"-I{bourse.get_include()}", *libraries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
