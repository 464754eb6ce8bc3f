"""Compiled modules are compiled, and both views of the records' layout agree."""

import importlib
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bourse.core import records

ROOT = Path(__file__).resolve().parents[2]
SETUP = (ROOT / "setup.py").read_text()
MODULES = [
    path.removesuffix(".py").replace("/", ".")
    for path in re.findall(r'"(bourse/[\w/]+\.py)"', SETUP)
    if (ROOT / path).exists()
]
C_TYPES = {
    "uint8_t": 1,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
}


@pytest.mark.parametrize("name", MODULES)
def test_module_of_setup_is_really_compiled(name: str) -> None:
    module = importlib.import_module(name)

    assert str(module.__file__).endswith(sysconfig.get_config_var("EXT_SUFFIX"))


def pxd_structs() -> dict[str, list[tuple[str, str, int]]]:
    """Struct name to its fields (C type, name, count), read from records.pxd."""
    structs: dict[str, list[tuple[str, str, int]]] = {}
    fields: list[tuple[str, str, int]] = []
    for line in (ROOT / "bourse/core/records.pxd").read_text().splitlines():
        if match := re.match(r"cdef struct (\w+):", line):
            fields = structs.setdefault(match[1], [])
        elif match := re.match(r"    (\w+) (\*?\w+)(?:\[(\d+)\])?\s*(?:#|$)", line):
            fields.append((match[1], match[2], int(match[3] or 1)))
    return structs


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("Command", records.COMMAND),
        ("Event", records.EVENT),
        ("DepthLevel", records.DEPTH_LEVEL),
        ("OrderRecord", records.ORDER_RECORD),
        ("EngineState", records.ENGINE_STATE),
    ],
)
def test_python_layout_is_the_c_layout(tmp_path: Path, name: str, layout: object) -> None:
    """The C compiler itself is asked for sizeof and each offsetof; Python's struct must agree."""
    fields = pxd_structs()[name]
    body = "".join(
        f"{kind} {field}{f'[{count}]' if count > 1 else ''};" for kind, field, count in fields
    )
    asserts = ""
    offset = 0
    for kind, field, count in fields:
        asserts += f'_Static_assert(offsetof(T, {field}) == {offset}, "{field}");\n'
        offset += C_TYPES[kind] * count
    asserts += f'_Static_assert(sizeof(T) == {layout.size}, "size");\n'  # type: ignore[attr-defined]
    source = tmp_path / "layout.c"
    source.write_text(
        f"#include <stdint.h>\n#include <stddef.h>\ntypedef struct {{{body}}} T;\n{asserts}"
    )

    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    result = subprocess.run(
        [compiler, "-fsyntax-only", str(source)], capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stderr


def test_python_field_names_are_the_c_ones_in_order() -> None:
    structs = pxd_structs()
    for name in ("Command", "Event", "DepthLevel", "OrderRecord"):
        fields = [field for _, field, count in structs[name] if count == 1]
        assert list(getattr(records, name)._fields) == fields, name


def test_nogil_functions_in_pxd_files_do_not_raise() -> None:
    """Without noexcept (or a value that means an error) each call takes the GIL to look for one."""
    for path in (ROOT / "bourse").rglob("*.pxd"):
        text = path.read_text()
        text = re.sub(r'cdef extern.*?"""\n.*?"""', "", text, flags=re.S)
        for statement in re.findall(r"^ +cdef [^#\n]*\([^)]*\)[^#\n]*", text, re.M):
            if re.search(r"\)[^)]*\bnogil\b", statement):
                assert re.search(r"\bnoexcept\b|\bexcept -?\w+", statement), f"{path}: {statement}"


def test_nogil_cfuncs_have_the_three_decorators_together() -> None:
    for name in MODULES:
        path = ROOT / (name.replace(".", "/") + ".py")
        pxd = path.with_suffix(".pxd")
        declared = pxd.read_text() if pxd.exists() else ""
        for block in re.findall(r"((?:^ *@cython\.[^\n]+\n)+) *def (\w+)", path.read_text(), re.M):
            decorators, function = block
            if "@cython.nogil" not in decorators or "@cython.cfunc" not in decorators:
                continue
            in_pxd = re.search(rf"\b{function}\(.*noexcept nogil", declared)
            assert "exceptval(" in decorators or in_pxd, f"{path}: {function}"


def test_python_is_one_that_is_supported() -> None:
    assert sys.version_info >= (3, 11)
