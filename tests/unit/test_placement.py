"""Which CPU a disk interrupts, from trees like the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bourse.daemon.placement import interrupted_cpu


class Machine:
    """A /sys and a /proc with one disk, the one that holds `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path / "data"
        self.path.mkdir()
        self.sys, self.proc = path / "sys", path / "proc"
        device = self.path.stat().st_dev
        self.node = self.sys / "devices/pci0/virtio1/block/vda"
        (self.node / "mq/0").mkdir(parents=True)
        (self.node / "device").symlink_to("../..")
        (self.sys / "dev/block").mkdir(parents=True)
        self.link = self.sys / f"dev/block/{os.major(device)}:{os.minor(device)}"
        self.link.symlink_to("../../devices/pci0/virtio1/block/vda")
        self.interrupt(35, "3,0", "0")
        self.interrupt(36, "0,900", str(max(os.sched_getaffinity(0))))

    def interrupt(self, number: int, counts: str, cpus: str) -> None:
        """Let the controller have an interrupt."""
        for place in (
            self.sys / "devices/pci0/msi_irqs",
            self.sys / f"kernel/irq/{number}",
            self.proc / f"irq/{number}",
        ):
            place.mkdir(parents=True, exist_ok=True)
        (self.sys / f"devices/pci0/msi_irqs/{number}").write_text("msix\n")
        (self.sys / f"kernel/irq/{number}/per_cpu_count").write_text(f"{counts}\n")
        (self.proc / f"irq/{number}/effective_affinity_list").write_text(f"{cpus}\n")

    def cpu(self) -> int | None:
        """Ask."""
        return interrupted_cpu(self.path, self.sys, self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_busiest_interrupt_of_a_disk_with_one_queue_counts(machine: Machine) -> None:
    assert machine.cpu() == max(os.sched_getaffinity(0))


def test_a_partition_is_its_disk(machine: Machine) -> None:
    (machine.node / "vda1").mkdir()
    (machine.node / "vda1/partition").write_text("1\n")
    machine.link.unlink()
    machine.link.symlink_to("../../devices/pci0/virtio1/block/vda/vda1")

    assert machine.cpu() == max(os.sched_getaffinity(0))


def test_a_disk_with_several_queues_interrupts_nobody_in_particular(machine: Machine) -> None:
    (machine.node / "mq/1").mkdir()

    assert machine.cpu() is None


@pytest.mark.parametrize("cpus", ["0-1", "0,1", "", "4095", "x"])
def test_there_must_be_one_cpu_that_this_process_may_use(machine: Machine, cpus: str) -> None:
    machine.interrupt(36, "0,900", cpus)

    assert machine.cpu() is None


def test_no_disk_no_cpu(machine: Machine) -> None:
    machine.link.unlink()

    assert machine.cpu() is None
    assert interrupted_cpu(Path("/proc")) is None
    assert interrupted_cpu(machine.path / "missing") is None


def test_a_disk_without_interrupts_of_its_own(machine: Machine) -> None:
    (machine.sys / "devices/pci0/msi_irqs").rename(machine.sys / "elsewhere")

    assert machine.cpu() is None
