"""The daemon's clocks; compiled threads read the same two through shared.pxd."""

import time

mono_ns = time.monotonic_ns
"""For durations and deadlines: nanoseconds that never jump."""

wall_ns = time.time_ns
"""For people and logs: nanoseconds since 1970."""
