"""The runtime as deb and rpm packages install it: its launcher and a library of its own."""

from __future__ import annotations

import compileall
import fcntl
import json
import marshal
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import amd_container_runtime
import amd_device_spec
import amd_gpu_tracker
import amdgpu_discovery
from amd_container_runtime.start_file import MODULES, NAME, TRACKED_MODULES, write_start_file
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.command_line.module_file import write_module_file
from amdgpu_simulator import build_host

OWN_PROCESSES = {"namespaces": [{"type": "pid"}]}
ADDED_BY_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")
# Of the sources: an editable installation has a copy of some earlier day.
SCRIPT = Path(__file__).parent.parent / "src/scripts/amd-container-runtime"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Return the modules of an installation that no test changes."""
    return assemble(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def own_library(tmp_path):
    """Return the modules of an installation that the test may change."""
    return assemble(tmp_path)


def assemble(directory):
    """Return the directory of modules that packages assemble, with a launcher in which its path is written."""
    toolkit = directory / "v2.0/usr/lib/amd-container-toolkit"
    root = toolkit / "generations/2.0.0/python"
    for package in (amd_container_runtime, amd_device_spec, amd_gpu_tracker, amdgpu_discovery):
        source = Path(package.__file__).parent
        shutil.copytree(source, root / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    compile_library(root)
    (toolkit / "python3").symlink_to(Path(sys.executable).resolve())
    launcher = root.parent / "bin/amd-container-runtime"
    launcher.parent.mkdir()
    text = SCRIPT.read_text().replace("@LIBRARY@", f"{root}").replace("@PYTHON@", f"{toolkit}/python3")
    launcher.write_text(text)
    launcher.chmod(0o755)
    (toolkit / "current").symlink_to("generations/2.0.0")
    programs = toolkit.parents[1] / "bin"
    programs.mkdir()
    (programs / launcher.name).symlink_to(f"../lib/{toolkit.name}/current/bin/{launcher.name}")
    return root


def compile_library(root):
    """Compile the modules of a library, and join those of a start, as the packages' `assemble` does."""
    compileall.compile_dir(root, quiet=2, force=True)
    write_module_file(root)
    write_start_file(root)


@pytest.fixture
def create(runtime, library):
    """Return a function that makes a container."""
    return create_with(library, runtime)


@pytest.fixture
def own_create(runtime, own_library):
    """Return a function that makes a container with the installation that the test may change."""
    return create_with(own_library, runtime)


def create_with(library, runtime):
    def run(container_id="c1", *, launcher="", **environment):
        usr = library.parents[4]
        launcher = launcher or usr / "bin/amd-container-runtime"
        return subprocess.run(
            [launcher, "create", "--bundle", runtime.bundle, container_id],
            cwd=usr,
            env={**runtime.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("tracked", [False, True])
def test_a_container_gets_its_gpus(runtime, create, tracked):
    if tracked:
        Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    answer = create()

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert [node["path"] for node in runtime.config["linux"]["devices"]] == [
        "/dev/dri/card3",
        "/dev/dri/renderD130",
        "/dev/kfd",
    ]
    leases = Path(runtime.host.path("/run/amd-container-toolkit/leases"))
    assert [lease.name for lease in leases.glob("*")] == (["c1@.json"] if tracked else [])


# Python sets LC_CTYPE where the locale is C (PEP 538).
@pytest.mark.parametrize(
    "locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": ""}, {"LC_ALL": "xx_XX.\udce9"}, {"LANG": "C.UTF-8"}, {"LC_CTYPE": "C"}]
)
def test_the_environment_reaches_runc_unchanged(runtime, create, tmp_path, locale):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    runtime.runc.write_text(f"#!/bin/sh\n/bin/cat /proc/$$/environ > {tmp_path}/env\n")

    assert create(**locale).returncode == 0

    entries = os.fsdecode((tmp_path / "env").read_bytes()).split("\0")[:-1]
    seen = dict(entry.split("=", 1) for entry in entries if entry.split("=")[0] not in ADDED_BY_SHELLS)
    assert seen == {**runtime.environment, **locale}


def test_tracked_containers_share_wait_and_are_refused(runtime, create):
    """The second claim of a boot, others' leases, an exclusive GPU in use, a lock that is not free."""
    tracker = Tracker(runtime.host)
    tracker.enable()
    answers = []
    for name in ("c1", "c2"):
        runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=OWN_PROCESSES)
        answers.append(create(name))
    tracker.reserve("1", name="mine")
    tracker.set_accessibility("1", exclusive=True)

    runtime.write_config("AMD_VISIBLE_DEVICES=0,1", linux=OWN_PROCESSES)
    refusal = create("c3")
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=OWN_PROCESSES)
    with open(runtime.host.path("/run/amd-container-toolkit/gpu-tracker.lock"), "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.3, fcntl.flock, [lock, fcntl.LOCK_UN]).start()
        answers.append(create("c4"))

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(0, "")] * 3
    assert (refusal.returncode, refusal.stderr.splitlines()[1]) == (1, "GPUs [1] are exclusive and already in use")


def test_a_container_gets_a_partition(runtime, create, tmp_path):
    host = build_host(tmp_path / "partitioned", "mi300x-8-cpx")
    runtime.write_config("AMD_VISIBLE_DEVICES=62")

    answer = create(AMD_CTK_HOST_ROOT=host.root)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert len(runtime.config["linux"]["devices"]) == 3


def test_a_refusal_has_its_sentence(runtime, create):
    runtime.write_config("AMD_VISIBLE_DEVICES=9")

    assert create().stderr == (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3"
        " ('amd-ctk gpu list' shows them)\n"
    )


def test_settings_and_swarm_resources_are_read(runtime, create):
    runtime.configure(log_level="debug")
    runtime.write_config("DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35")

    answer = create()

    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("launcher", ["", "./bin/amd-container-runtime", "../usr/bin/amd-container-runtime"])
def test_hooks_are_run_by_the_python_of_the_package_from_where_programs_do_not_move(runtime, library, create, launcher):
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    create(launcher=launcher)

    (hook,) = runtime.config["hooks"]["poststop"]
    toolkit = library.parents[2]
    assert hook["args"] == [
        *("/bin/sh", f"{toolkit}/python/amd_gpu_tracker/release.sh"),
        *(runtime.host.path("/run/amd-container-toolkit/leases"), f"{toolkit}/python3", "-I", "-S", "-B"),
        *(f"{toolkit}/python/amd_gpu_tracker/hook.py", "release", "--import-from", f"{toolkit}/python"),
        *("--host-root", runtime.host.root),
    ]


@pytest.mark.parametrize("command", ["claim", "release"])
def test_hooks_run_with_an_empty_environment(runtime, library, command):
    Tracker(runtime.host).enable()
    runtime.write_config(linux={"devices": [{"path": "/dev/dri/renderD130", "type": "c", "major": 226, "minor": 130}]})
    state = {"ociVersion": "1.2.0", "id": "c1", "pid": os.getpid(), "status": "created", "bundle": str(runtime.bundle)}

    answer = subprocess.run(
        [
            *(sys.executable, "-I", "-S", "-B", f"{library}/amd_gpu_tracker/hook.py", command),
            *("--import-from", str(library), "--host-root", runtime.host.root),
        ],
        input=json.dumps(state),
        env={},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    leases = Path(runtime.host.path("/run/amd-container-toolkit/leases"))
    assert [lease.name for lease in leases.glob("*")] == (["c1@.json"] if command == "claim" else [])


def create_a_container_with_gpu_0(runtime, create):
    """Return the exit code of a create, what it prints, and the nodes that the container gets."""
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    answer = create()
    return answer.returncode, answer.stderr, [node["path"] for node in runtime.config["linux"]["devices"]]


GIVEN = (0, "", ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"])


def test_a_start_needs_one_file_for_all_its_modules(runtime, own_library, own_create):
    tracker = Tracker(runtime.host)
    tracker.enable()
    # The first claim of a boot loads what compares the GPUs with those that are tracked.
    tracker.reserve("0", name="first")
    tracker.release("first")
    for package, names in (*MODULES.items(), *TRACKED_MODULES.items()):
        for name in names.split():
            (own_library / package / f"{name.replace('.', '/')}.py").unlink(missing_ok=True)
    assert not (own_library / "amd_container_runtime/shim.py").exists()

    assert create_a_container_with_gpu_0(runtime, own_create) == GIVEN


@pytest.mark.parametrize("damage", ["missing", "empty", "of another Python", "half", "a directory"])
def test_without_the_file_of_a_start_the_modules_are_imported(runtime, own_library, own_create, damage):
    file = own_library / NAME
    content = file.read_bytes()
    file.unlink()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "of another Python":
            file.write_bytes(b"\x00\x00\r\n" + content[4:])
        case "half":
            file.write_bytes(content[: len(content) // 2])
        case "a directory":
            file.mkdir()

    assert create_a_container_with_gpu_0(runtime, own_create) == GIVEN


@pytest.mark.parametrize("part", ["of every start", "of tracked starts"])
@pytest.mark.parametrize("damage", ["foreign", "cut"])
def test_the_modules_of_a_part_that_cannot_be_read_are_imported(runtime, own_library, own_create, part, damage):
    Tracker(runtime.host).enable()
    content = (own_library / NAME).read_bytes()
    begin = 8 if part == "of every start" else 8 + int.from_bytes(content[4:8], "big")
    # No value of Python's begins with this byte.
    rest = b"\xff" + content[begin + 1 :] if damage == "foreign" else content[begin : begin + 1000]
    (own_library / NAME).write_bytes(content[:begin] + rest)

    assert create_a_container_with_gpu_0(runtime, own_create) == GIVEN


def test_a_start_finds_the_module_of_json_that_lies_elsewhere_since_the_file_was_written(
    runtime, own_library, own_create
):
    content = (own_library / NAME).read_bytes()
    _, _, _, scanner = marshal.loads(content[8:])
    if scanner:
        (own_library / NAME).write_bytes(content.replace(scanner.encode(), b"/" + b"x" * (len(scanner) - 1)))

    assert create_a_container_with_gpu_0(runtime, own_create) == GIVEN


def test_a_module_that_is_not_in_the_file_is_found_where_the_library_will_lie(runtime, tmp_path):
    """As `assemble` does: it makes a library under another name, and renames it."""
    library = assemble(tmp_path)
    made = library.with_name(".new")
    library.rename(made)
    write_start_file(made, str(library))
    made.rename(library)
    runtime.write_config("AMD_VISIBLE_DEVICES=9")

    # The refusal is in a module that most starts do not need.
    assert create_with(library, runtime)().stderr == (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3"
        " ('amd-ctk gpu list' shows them)\n"
    )


def test_what_few_starts_need_comes_from_the_file_with_all_modules(runtime, own_library, own_create):
    module = own_library / "amdgpu_discovery/choices/unknown_gpus.py"
    module.unlink()
    for compiled in module.parent.glob("__pycache__/unknown_gpus.*"):
        compiled.unlink()
    runtime.write_config("AMD_VISIBLE_DEVICES=9")

    assert own_create().stderr == (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3"
        " ('amd-ctk gpu list' shows them)\n"
    )


def test_a_trace_shows_the_line_of_the_module(runtime, own_library, own_create):
    module = own_library / "amd_container_runtime/create.py"
    text = module.read_text() + "\n\ndef add_requested_gpus(*words):\n    raise KeyError('shown')\n"
    module.write_text(text)
    compile_library(own_library)
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    answer = own_create()

    line = len(text.splitlines())
    shown = f"  File \"{module}\", line {line}, in add_requested_gpus\n    raise KeyError('shown')\n"
    assert answer.returncode == 1
    assert shown in answer.stderr
