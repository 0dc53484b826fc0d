"""The file with all modules, in a library as packages assemble it, and programs that import from there."""

from __future__ import annotations

import compileall
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amdgpu_discovery
from amdgpu_discovery.command_line.module_file import NAME, write_module_file

USE = "from amdgpu_discovery.command_line.module_file import use_module_file; use_module_file(sys.path[0])"
SHOW = "from amdgpu_discovery import gpu; print(gpu.__name__, gpu.__file__, gpu.MEBIBYTE)"


@pytest.fixture
def library(tmp_path):
    """Return a directory with the modules of this distribution, compiled, and their file."""
    source = Path(amdgpu_discovery.__file__).parent
    shutil.copytree(source, tmp_path / "python" / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    write(tmp_path / "python")
    return tmp_path / "python"


def write(library):
    """Compile the modules of a library and join them, as `assemble` does."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(library, quiet=2, force=True, invalidation_mode=mode)
    write_module_file(library)


def run(library, *lines):
    """Return what a program prints that uses the file of a library."""
    code = "\n".join(("import sys", f"sys.path.insert(0, {str(library)!r})", USE, *lines))
    answer = subprocess.run([sys.executable, "-ISBc", code], capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout + answer.stderr


def take_away(library, module):
    """Remove a module, so that only the file has it."""
    path = library / f"{module.replace('.', '/')}.py"
    path.unlink()
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def shown(library):
    return f"amdgpu_discovery.gpu {library}/amdgpu_discovery/gpu.py 1048576\n"


def test_a_program_imports_from_the_file(library):
    take_away(library, "amdgpu_discovery.gpu")
    take_away(library, "amdgpu_discovery.driver.drm")

    assert run(library, SHOW) == shown(library)
    line = "from amdgpu_discovery.driver import drm; print(drm.__package__)"
    assert run(library, line) == "amdgpu_discovery.driver\n"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:0],
        lambda content: content[:3],
        lambda content: content[:2000],
        lambda content: b"\0\0\0\0" + content[4:],
        lambda content: content[:8],
    ],
    ids=["empty", "cut in the heading", "cut in the table", "of another Python", "without a table"],
)
def test_a_damaged_file_changes_nothing(library, damage):
    file = library / NAME
    file.write_bytes(damage(file.read_bytes()))

    assert run(library, SHOW) == shown(library)


def test_a_file_cut_in_its_modules_changes_nothing(library):
    file = library / NAME
    size = int.from_bytes(file.read_bytes()[4:8], "big")
    file.write_bytes(file.read_bytes()[: 8 + size + 1000])

    assert run(library, SHOW) == shown(library)


def test_a_missing_file_changes_nothing(library):
    (library / NAME).unlink()

    assert run(library, SHOW) == shown(library)


def test_a_program_goes_on_while_a_repair_writes_the_file_again(library):
    other = library.with_name("other")
    (other / "amdgpu_discovery").mkdir(parents=True)
    (other / "amdgpu_discovery/__init__.py").write_text("")
    (other / "amdgpu_discovery/gpu.py").write_text("MEBIBYTE = 'of another file'\n")
    write(other)

    assert run(library, "import os", f"os.replace({str(other / NAME)!r}, {str(library / NAME)!r})", SHOW) == shown(
        library
    )


def test_a_program_that_goes_on_after_the_removal_of_its_package_lacks_a_module(library):
    lines = ("try:", "    import amdgpu_discovery.gpu", "except ImportError as error:", "    print(repr(error))")

    answer = run(library, "import shutil", f"shutil.rmtree({str(library)!r})", *lines)

    assert answer == "ModuleNotFoundError(\"No module named 'amdgpu_discovery.gpu'\")\n"


def test_a_service_that_closes_all_its_files_can_still_import(library):
    take_away(library, "amdgpu_discovery.gpu")

    assert run(library, "import os", "os.closerange(3, 64)", SHOW) == shown(library)


def test_a_trace_shows_the_line_of_the_module(library):
    module = library / "amdgpu_discovery/gpu.py"
    module.write_text("def fail():\n    raise KeyError('shown')\n")
    write(library)

    answer = run(library, "from amdgpu_discovery.gpu import fail", "fail()")

    assert f"  File \"{module}\", line 2, in fail\n    raise KeyError('shown')\n" in answer


def test_tables_lie_beside_their_modules(library):
    line = "from amdgpu_discovery.tables.models import known_models; print('MI300X' in known_models())"

    assert run(library, line) == "True\n"
