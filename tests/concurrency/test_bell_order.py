"""The daemon's sources keep the two orders that parking.pml proves right.

Ringer: publish with a sequentially consistent store, then ring. Waiter: arm, then look again with
sequentially consistent loads, then sleep. A release store before a bell is a mistake that neither
tests nor ThreadSanitizer notice (parking.pml, BROKEN_RELEASE_PUBLISH), so it is looked for here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(ROOT.glob("bourse/daemon/*.py"))
STORES = {"ring_publish", "ring_release"}
SEQ_CST_STORES = {"ring_publish", "store_seq_cst"}
SEQ_CST_LOOKS = {"ring_ready_now", "has_work", "load_seq_cst"}
LOOKS = {*SEQ_CST_LOOKS, "ring_ready", "ring_room", "load_acquire", "load_relaxed", "turn"}


def functions() -> Iterator[tuple[str, list[str]]]:
    """Each function of the daemon, with the names that it calls in the order of its source."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
                calls.sort(key=lambda call: (call.lineno, call.col_offset))
                yield f"{path.name} {node.name}", [called_name(call) for call in calls]


def called_name(call: ast.Call) -> str:
    """The last word of what is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def test_what_is_published_before_a_bell_is_published_in_order():
    rings = 0
    for where, calls in functions():
        for at, name in enumerate(calls):
            if name == "doorbell_ring":
                rings += 1
                stores = [word for word in calls[:at] if word in STORES or word.startswith("store")]
                assert stores, f"{where}: a bell without a publication"
                assert stores[-1] in SEQ_CST_STORES, f"{where}: {stores[-1]}, then a bell"
    assert rings >= 8, "the bells are not where they were; is this test still looking at them?"


def test_a_waiter_looks_again_in_order_after_it_has_armed():
    waits = 0
    for where, calls in functions():
        for at, name in enumerate(calls):
            if name == "doorbell_arm":
                after = calls[at + 1 : calls.index("doorbell_disarm", at)]
                looks = [word for word in after if word in LOOKS]
                if where == "matching_thread.py _pause":
                    # Nobody rings for room; it sleeps for a limited time.
                    assert looks == []
                    continue
                waits += 1
                assert looks, f"{where}: sleeps without looking again"
                assert set(looks) <= SEQ_CST_LOOKS, f"{where}: {looks}"
    assert waits == 5, "four threads sleep, one in two places; does this test still see them?"


def test_has_work_looks_in_order():
    (calls,) = [calls for where, calls in functions() if where == "outbound.py has_work"]
    (gate,) = [calls for where, calls in functions() if where == "outbound.py released"]

    assert [name for name in calls if name in LOOKS] == ["ring_ready_now"]
    assert "released" in calls
    assert {name for name in gate if name in LOOKS} == {"load_seq_cst"}
