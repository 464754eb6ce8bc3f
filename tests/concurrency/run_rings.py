"""Run ring_hammer's three threads in this process; prints what they counted as JSON.

python -P run_rings.py '{"slots": 2, "messages": 10000, "poll": 0, "eventfd": true, "mistake": 0}'
"""

import json
import os
import sys
import threading
import time

import ring_hammer


def main() -> None:
    order = json.loads(sys.argv[1])
    eventfd = os.eventfd(0, os.EFD_CLOEXEC) if order["eventfd"] else -1
    hammer = ring_hammer.RingHammer(
        order["slots"], order["messages"], order["poll"], eventfd, order["mistake"]
    )
    threads = [
        threading.Thread(target=hammer.consume),
        threading.Thread(target=hammer.produce, args=(0,)),
        threading.Thread(target=hammer.produce, args=(1,)),
    ]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    print(json.dumps({"errors": hammer.errors, "sleeps": hammer.sleeps, "seconds": seconds}))


if __name__ == "__main__":
    main()
