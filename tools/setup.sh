#!/bin/sh
# Make .venv with everything that development needs; says one sentence when it cannot.
#
# Done once: a stamp in .venv remembers pyproject.toml, and only a change of it installs again.
# Missing system packages are installed only as root and only where apt-get is; else they are named.
# `tools/setup.sh test` also wants what only tests use; a test whose tool is missing is skipped.
set -eu
cd "$(dirname "$0")/.."

say() { echo "bourse: $*" >&2; }
refuse() {
    say "cannot set up: $*"
    exit 1
}

[ "$(uname -s)" = Linux ] || refuse "bourse runs on Linux (futex, eventfd), and this is $(uname -s)."

find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
}
has_venv() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
has_headers() {
    "$python" -c '
import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())'
}
has_compiler() { [ -n "${CC:-}" ] || command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null; }

missing_for_tests() {
    [ "$purpose" = test ] || return 0
    command -v spin >/dev/null || echo spin
    # Only root can mount what they make, and only root gets here with effect.
    command -v mkfs.ext4 >/dev/null || echo e2fsprogs
    command -v mkfs.xfs >/dev/null || echo xfsprogs
    command -v tmux >/dev/null || echo tmux
    # The one that has no window, of 280 MB: it is there in some twenty seconds.
    command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || echo chromium-headless-shell
}

missing() {
    python=$(find_python)
    if [ -z "$python" ]; then
        has_compiler || echo gcc libc6-dev
        echo python3 python3-venv python3-dev
        return
    fi
    has_venv || echo python3-venv
    has_headers || echo python3-dev
    has_compiler || echo gcc libc6-dev
}

purpose=${1:-work}
packages=$(missing | tr '\n' ' ')
extras=$(missing_for_tests)
if [ -n "$packages$extras" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing missing system packages:" $packages $extras
    apt-get update -qq >&2 || say "apt-get could not update its lists"
    # Each of the tests' by itself: not every distribution has all of them.
    for package in "$packages" $extras; do
        # shellcheck disable=SC2086  # a list of words
        [ -z "$package" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $package >&2 ||
            say "apt-get could not install $package"
    done
fi

python=$(find_python)
[ -n "$python" ] || refuse "Python 3.11 or newer is needed and was not found; install it, or name it with PYTHON=/path/to/python3.11 make setup."
has_venv || refuse "Python's venv module is missing; install it (Debian: apt-get install python3-venv)."
has_headers || refuse "Python.h is missing; install the Python headers (Debian: apt-get install python3-dev)."
has_compiler || refuse "no C compiler found; install gcc or clang (Debian: apt-get install gcc libc6-dev)."

# The path is part of the stamp: a virtual environment does not survive being moved.
stamp="$(cksum <pyproject.toml) $(pwd)"
if [ -x .venv/bin/python ] && [ "$(cat .venv/bourse-stamp 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi
if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    ! grep -qsF "$(pwd)/.venv" .venv/bin/pip; then
    say "making .venv with $python"
    rm -rf .venv
    "$python" -m venv .venv || refuse "$python -m venv .venv failed; see above."
fi
say "installing the dependencies into .venv"
# The compiled modules are built in place afterwards (tools/build.py), not twice.
BOURSE_COMPILE=0 .venv/bin/python -m pip install --quiet --disable-pip-version-check --use-pep517 -e '.[dev]' ||
    refuse "pip could not install the dependencies; see above (is the network there?)."
echo "$stamp" >.venv/bourse-stamp
