"""The program that makes one toolkit of the installed parts, on parts of a few lines below a directory."""

from __future__ import annotations

import hashlib
import marshal
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ASSEMBLE = Path(__file__).parents[2] / "packaging/files/assemble"
LIBRARY = "usr/lib/amd-container-toolkit"
MODULES = {"amdgpu-discovery": "amdgpu_discovery/__init__.py", "amd-ctk": "amd_ctk/cli.py"}
MODULE_FILE = "amdgpu_discovery/command_line/module_file.py"
START_FILE = "amd_container_runtime/start_file.py"
START_MODULES = "amd_container_runtime/start_modules.py"


def unpack(root: Path, build: str, *names: str) -> None:
    """Write parts as dpkg does: each file gets its name when it is written."""
    for name in names or MODULES:
        part = root / LIBRARY / "parts" / name
        contents = {f"python/{MODULES[name]}": f"def main():\n    print('{name} {build}')\n"}
        if name == "amd-ctk":
            contents["bin/amd-ctk"] = 'import sys\n\nsys.path.insert(0, "@LIBRARY@")\n'
        sums = [f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n" for path, text in contents.items()]
        for path, text in {**contents, "BUILD": f"# {build}\n{''.join(sums)}"}.items():
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            (part / path).with_suffix(".dpkg-new").write_text(text)
            (part / path).with_suffix(".dpkg-new").rename(part / path)


def assemble(root: Path) -> str:
    """Run the program; return what it says."""
    words = [sys.executable, "-ISB", ASSEMBLE, "--root", root]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, check=True).stderr


def serving(root: Path) -> dict[str, str]:
    """Return what each module that programs find prints."""
    modules = (root / LIBRARY / "current/python").rglob("*.py")
    return {module.parent.name: module.read_text().split("'")[1] for module in modules}


def test_an_installed_generation_serves(tmp_path):
    unpack(tmp_path, "2.0-1")

    assert assemble(tmp_path) == ""

    assert serving(tmp_path) == {"amdgpu_discovery": "amdgpu-discovery 2.0-1", "amd_ctk": "amd-ctk 2.0-1"}
    generation = os.readlink(tmp_path / LIBRARY / "current")
    assert generation.startswith(f"generations/2.0-1-{sys.implementation.cache_tag}-")
    assert (tmp_path / LIBRARY / "current/bin/amd-ctk").read_text() == (
        "#!/usr/lib/amd-container-toolkit/python3 -ISB\nimport sys\n\n"
        f'sys.path.insert(0, "/{LIBRARY}/{generation}/python")\n'
    )
    assert os.access(tmp_path / LIBRARY / "current/bin/amd-ctk", os.X_OK)
    assert len(list((tmp_path / LIBRARY / generation).rglob("*.pyc"))) == 2


def test_a_part_of_another_build_leaves_the_former_toolkit_as_it_is(tmp_path):
    unpack(tmp_path, "2.0-1")
    assemble(tmp_path)
    unpack(tmp_path, "2.1-2", "amd-ctk")

    assert assemble(tmp_path) == ""

    assert serving(tmp_path) == {"amdgpu_discovery": "amdgpu-discovery 2.0-1", "amd_ctk": "amd-ctk 2.0-1"}

    unpack(tmp_path, "2.1-2", "amdgpu-discovery")
    assemble(tmp_path)

    assert serving(tmp_path) == {"amdgpu_discovery": "amdgpu-discovery 2.1-2", "amd_ctk": "amd-ctk 2.1-2"}


@pytest.mark.parametrize("damage", ["other", "missing"])
def test_a_part_that_is_unpacked_by_half_leaves_the_former_toolkit_as_it_is(tmp_path, damage):
    unpack(tmp_path, "2.0-1")
    assemble(tmp_path)
    unpack(tmp_path, "2.1-2")
    module = tmp_path / LIBRARY / "parts/amd-ctk/python/amd_ctk/cli.py"
    module.unlink()
    if damage == "other":
        module.write_text("def main():\n    print('amd-ctk 2.0-1')\n")

    said = assemble(tmp_path)

    reason = "is not of its package's version" if damage == "other" else "is missing"
    assert said == f"amd-container-toolkit: {module} {reason}: the former version serves until then\n"
    assert serving(tmp_path) == {"amdgpu_discovery": "amdgpu-discovery 2.0-1", "amd_ctk": "amd-ctk 2.0-1"}
    assert len(list((tmp_path / LIBRARY / "generations").iterdir())) == 1


def test_installed_again_it_repairs_what_was_damaged(tmp_path):
    unpack(tmp_path, "2.0-1")
    assemble(tmp_path)
    current = tmp_path / LIBRARY / "current"
    before = {path: path.read_bytes() for path in current.resolve().rglob("*") if path.is_file()}
    (current / "python/amd_ctk/cli.py").write_text("")
    (current / "python/amdgpu_discovery/__init__.py").unlink()
    (current / "bin/amd-ctk").write_text("")
    unpack(tmp_path, "2.0-1")

    assert assemble(tmp_path) == ""

    assert {path: path.read_bytes() for path in current.resolve().rglob("*") if path.is_file()} == before
    assert os.access(current / "bin/amd-ctk", os.X_OK)


def test_installed_again_it_repairs_a_compiled_module(tmp_path):
    unpack(tmp_path, "2.0-1")
    assemble(tmp_path)
    compiled = next((tmp_path / LIBRARY / "current/python/amd_ctk").rglob("*.pyc"))
    before = compiled.read_bytes()
    compiled.write_bytes(before[:20])

    assert assemble(tmp_path) == ""

    assert compiled.read_bytes() == before


def test_a_toolkit_gets_one_file_with_all_its_modules(tmp_path):
    sources = ASSEMBLE.parents[2] / "packages/amdgpu-discovery/src"
    part = tmp_path / LIBRARY / "parts/amdgpu-discovery"
    names = ("amdgpu_discovery/__init__.py", "amdgpu_discovery/command_line/__init__.py", MODULE_FILE)
    build = "# 2.0-1\n"
    for name in names:
        content = (sources / name).read_bytes()
        (part / "python" / name).parent.mkdir(parents=True, exist_ok=True)
        (part / "python" / name).write_bytes(content)
        build += f"{hashlib.sha256(content).hexdigest()}  python/{name}\n"
    (part / "BUILD").write_text(build)
    unpack(tmp_path, "2.0-1", "amd-ctk")

    assert assemble(tmp_path) == ""

    directory = tmp_path / LIBRARY / "current/python"
    joined = directory / "all.modules"
    table = marshal.loads(joined.read_bytes()[8:])
    assert {name: is_package for name, (is_package, _, _) in table.items()} == {
        "amdgpu_discovery": True,
        "amdgpu_discovery.command_line": True,
        "amdgpu_discovery.command_line.module_file": False,
    }
    joined.write_bytes(b"")
    assert assemble(tmp_path) == ""
    assert marshal.loads(joined.read_bytes()[8:]).keys() == table.keys()


def test_the_hook_of_a_new_version_runs_the_former_one_until_it_is_assembled(tmp_path):
    library = tmp_path / "lib"
    program = library / "generations/former/python/amd_gpu_tracker/hook_program.py"
    program.parent.mkdir(parents=True)
    program.write_text("def main(words):\n    print('former', *words, flush=True)\n    return 3\n")
    (library / "current").symlink_to("generations/former")
    hook = tmp_path / "hook.py"
    hook.write_text(ASSEMBLE.with_name("hook.py").read_text().replace(f"/{LIBRARY}", str(library)))

    answer = subprocess.run(
        [sys.executable, "-ISB", hook, "claim"], capture_output=True, text=True, check=False, timeout=60
    )

    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "former claim\n", "")


def modules_in(start_file):
    """Return the modules in the file of a start, each with the path that its code has."""
    _, modules, _, _ = marshal.loads(start_file.read_bytes()[8:])
    return [(name, code.co_filename) for name, code in modules]


def test_the_runtime_gets_one_file_with_the_modules_of_a_start(tmp_path):
    sources = ASSEMBLE.parents[2] / "packages/amd-container-runtime/src"
    part = tmp_path / LIBRARY / "parts/amd-container-runtime"
    (part / "python" / START_FILE).parent.mkdir(parents=True)
    build = "# 2.0-1\n"
    for name in (START_FILE, START_MODULES):
        content = (sources / name).read_bytes()
        (part / "python" / name).write_bytes(content)
        build += f"{hashlib.sha256(content).hexdigest()}  python/{name}\n"
    (part / "BUILD").write_text(build)
    unpack(tmp_path, "2.0-1")
    joined = tmp_path / LIBRARY / "current/python/start.modules"

    assert assemble(tmp_path) == ""
    made = modules_in(joined)
    joined.write_bytes(joined.read_bytes()[:9])
    assert assemble(tmp_path) == ""

    # Where an image is made, its files lie elsewhere; and a generation is made under another name.
    lies = f"/{LIBRARY}/generations/{joined.resolve().parents[1].name}/python"
    assert made == [("amdgpu_discovery", f"{lies}/amdgpu_discovery/__init__.py")]
    assert modules_in(joined) == made
    assert sorted(path.name for path in joined.parent.iterdir()) == [
        *("amd_container_runtime", "amd_ctk", "amdgpu_discovery", "start.modules"),
    ]


def test_a_repair_that_fails_leaves_no_other_file(tmp_path):
    unpack(tmp_path, "2.0-1")
    assemble(tmp_path)
    current = (tmp_path / LIBRARY / "current").resolve()
    before = {path for path in current.rglob("*") if path.is_file()}
    # One file, under two names.
    (current / "python/amd_ctk/cli.py").write_text("")

    assert "is not of its package's version" in assemble(tmp_path)

    assert {path for path in current.rglob("*") if path.is_file()} == before


def test_a_part_that_is_gone_serves_no_more_and_one_that_comes_does(tmp_path):
    unpack(tmp_path, "2.0-1", "amdgpu-discovery")
    assemble(tmp_path)
    assert serving(tmp_path) == {"amdgpu_discovery": "amdgpu-discovery 2.0-1"}

    unpack(tmp_path, "2.0-1", "amd-ctk")
    assemble(tmp_path)
    assert set(serving(tmp_path)) == {"amdgpu_discovery", "amd_ctk"}

    (tmp_path / LIBRARY / "parts/amd-ctk/BUILD").unlink()
    assemble(tmp_path)
    assert set(serving(tmp_path)) == {"amdgpu_discovery"}


def test_wherever_it_is_killed_one_whole_toolkit_serves(tmp_path):
    """As after a power cut: what has its name is whole, and the next call goes on."""
    unpack(tmp_path, "2.0-0")
    assemble(tmp_path)
    chance = random.Random(58)
    for build in range(1, 40):
        unpack(tmp_path, f"2.0-{build}")
        program = subprocess.Popen([sys.executable, "-ISB", ASSEMBLE, "--root", tmp_path], stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.02, 0.2))
        program.send_signal(signal.SIGKILL)
        program.wait()

        modules = serving(tmp_path)
        (served,) = {said.split()[1] for said in modules.values()}
        assert set(modules) == {"amdgpu_discovery", "amd_ctk"}
        assert served in (f"2.0-{build - 1}", f"2.0-{build}")
        assert assemble(tmp_path) == ""
        assert {said.split()[1] for said in serving(tmp_path).values()} == {f"2.0-{build}"}
