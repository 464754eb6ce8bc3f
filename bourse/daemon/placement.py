"""Which CPU a disk's interrupts go to: where waiting for it is shortest.

A disk with one hardware queue, as virtual machines have, interrupts one CPU only. A thread that
waits for the disk on another one is woken from there, twice a sync: docs/architecture.md,
"Waiting", has the figures.

Source: the kernel's documents of its files, stable/sysfs-block, testing/sysfs-bus-pci (msi_irqs)
and testing/sysfs-kernel-irq.
"""

from __future__ import annotations

import os
from pathlib import Path


def interrupted_cpu(path: Path, sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> int | None:
    """Return the CPU that the disk under a file or directory interrupts.

    None when there is no such single CPU: no disk of its own, several queues, an interrupt that
    may go to several CPUs, one that this process may not use, or nothing to be found out.
    """
    try:
        device = path.stat().st_dev
        node = (sys / f"dev/block/{os.major(device)}:{os.minor(device)}").resolve(strict=True)
        if (node / "partition").exists():
            node = node.parent
        if len(list((node / "mq").iterdir())) != 1:
            return None
        interrupt = _busiest_interrupt((node / "device").resolve(strict=True), sys)
        affinity = (proc / f"irq/{interrupt}/effective_affinity_list").read_text().strip()
        cpu = int(affinity)
    except (OSError, ValueError):
        return None
    return cpu if cpu in os.sched_getaffinity(0) else None


def _busiest_interrupt(device: Path, sys: Path) -> int:
    """Return the number of the interrupt that a device's controller has raised most often.

    Raises:
        ValueError: it has none.
        OSError: nothing can be read.
    """
    for place in (device, *device.parents):
        if (place / "msi_irqs").is_dir():
            numbers = [int(entry.name) for entry in (place / "msi_irqs").iterdir()]
            return max(numbers, key=lambda number: _count(number, sys))
    raise ValueError(f"{device} has no interrupts of its own")


def _count(number: int, sys: Path) -> int:
    """Return how often an interrupt was raised."""
    text = (sys / f"kernel/irq/{number}/per_cpu_count").read_text()
    return sum(int(count) for count in text.split(","))
