"""Run seeds: python -m tests.simulation --seed N [--count K] [--seconds S] [--verbose]."""

import sys

from tests.simulation.system import preload

if __name__ == "__main__":
    preload(sys.argv[1:])
    from tests.simulation.runs import main

    sys.exit(main(sys.argv[1:]))
