"""The runtime as deb and rpm packages install it: its launcher, a library of its own and packs of its modules."""

from __future__ import annotations

import fcntl
import json
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
from amd_container_runtime.quick_python import make_quick_python
from amd_gpu_tracker.tracker import Tracker
from amdgpu_discovery.simulate import build_host

OWN_PROCESSES = {"namespaces": [{"type": "pid"}]}
ADDED_BY_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")
# Of the sources: an editable installation has a copy of some earlier day.
SCRIPT = Path(__file__).parent.parent / "src/scripts/amd-container-runtime"


@pytest.fixture
def library(tmp_path):
    """Return a directory of the packages, with packs."""
    root = tmp_path / "v2.0/usr/lib/amd-container-toolkit/python"
    for package in (amd_container_runtime, amd_device_spec, amd_gpu_tracker, amdgpu_discovery):
        source = Path(package.__file__).parent
        shutil.copytree(source, root / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for program in ("amd_container_runtime", "amd_gpu_tracker"):
        subprocess.run([sys.executable, "-ISB", f"{root}/{program}/packed.py"], check=True)
    (root.parent / "python3").symlink_to(Path(sys.executable).resolve())
    programs = root.parents[2] / "bin"
    programs.mkdir()
    shutil.copy(SCRIPT, programs)
    return root


@pytest.fixture
def only_packs(library):
    """Leave modules that cannot be imported, without their directories telling."""
    for file in library.rglob("*.py"):
        if file.name != "hook.py":
            times = os.stat(file.parent)
            file.write_text(f"raise SystemExit('{file.name} was imported')\n")
            os.utime(file.parent, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.fixture
def create(runtime, library):
    """Return a function that makes a container."""

    def run(container_id="c1", *, launcher="", **environment):
        usr = library.parents[2]
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


@pytest.mark.usefixtures("only_packs")
@pytest.mark.parametrize("tracked", [False, True])
def test_a_container_gets_its_gpus_without_a_module_read_from_its_file(runtime, create, tracked):
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


# The launcher lets python start in the C locale, in which that would set LC_CTYPE too.
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


@pytest.mark.parametrize("missing", ["packaged.pack-????????", "packaged.pack-*-2", "packaged.pack-*"])
def test_without_a_pack_modules_come_from_their_files(runtime, library, create, missing):
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    for file in library.rglob(missing):
        file.unlink()

    answer = create()

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert len(runtime.config["linux"]["devices"]) == 3


@pytest.mark.usefixtures("only_packs")
def test_what_only_some_tracked_containers_need_is_in_packs_too(runtime, library, create):
    """The second claim of a boot, others' leases, an exclusive GPU in use, a lock that is not free."""
    tracker = Tracker(runtime.host)
    tracker.enable()
    answers = []
    for name in ("c1", "c2"):
        runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=OWN_PROCESSES)
        answers.append(create(name))
    tracker.reserve("mine", "1")
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


@pytest.mark.usefixtures("only_packs")
def test_partitions_come_from_packs_too(runtime, create, tmp_path):
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


def test_settings_and_resources_of_a_swarm_need_modules_that_are_not_in_the_pack(runtime, create):
    runtime.configure(log_level="debug")
    runtime.write_config("DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35")

    answer = create()

    assert (answer.returncode, answer.stderr) == (0, "")


starts_quickly = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="python 3.10 looks for pyvenv.cfg where the link to it leads"
)


def quick_python(library):
    return library.parent / "quick/python3"


@starts_quickly
def test_the_quick_python_starts_from_three_modules_of_its_own(library):
    code = "import encodings, sys; print(encodings.__file__, sys.version, list(sys.modules['encodings'].__path__))"

    answer = subprocess.check_output([quick_python(library), "-ISBc", code], env={"LC_ALL": "C"}, text=True)

    version = f"{sys.version_info.major}{sys.version_info.minor}"
    encodings = quick_python(library).parent / f"{sys.platlibdir}/python{version}.zip/encodings"
    assert answer == f"{encodings}/__init__.pyc {sys.version} ['{encodings}']\n"
    assert sorted(file.name for file in encodings.iterdir()) == ["__init__.pyc", "aliases.pyc", "utf_8.pyc"]


@starts_quickly
@pytest.mark.parametrize("name", ["latin1", "U8", "utf-8", "windows-1252", "idna", "mac.roman", "nonsense"])
def test_the_quick_python_has_every_encoding_when_it_runs(library, name):
    code = "import codecs, sys; sys.path.insert(0, sys.argv[1])\n"
    code += "from amd_container_runtime.packaged import complete_encodings; complete_encodings()\n"
    code += "try: print(codecs.lookup(sys.argv[2]).name)\nexcept LookupError as error: print(error)"
    words = ["-ISBc", code, library, name]

    quick, ordinary = (
        subprocess.check_output([python, *words], env={"LC_ALL": "C"}, text=True)
        for python in (quick_python(library), sys.executable)
    )

    assert quick == ordinary


@pytest.mark.parametrize("launcher", ["", "./bin/amd-container-runtime", "../usr/bin/amd-container-runtime"])
def test_hooks_are_run_by_the_python_that_stays(runtime, library, create, launcher):
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    create(launcher=launcher)

    assert [hook["path"] for hook in runtime.config["hooks"]["poststop"]] == [f"{library.parent}/python3"]


def test_a_container_starts_without_a_quick_python(runtime, library, create):
    shutil.rmtree(quick_python(library).parent)
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    assert create().returncode == 0
    assert len(runtime.config["linux"]["devices"]) == 3


@starts_quickly
def test_a_quick_python_that_does_not_prove_itself_is_not_left(library):
    place = quick_python(library).parent

    assert not make_quick_python(str(place), "/bin/false", str(library))
    assert sorted(os.listdir(place)) == [sys.platlibdir, "pyvenv.cfg"]
    assert make_quick_python(str(place), sys.executable, str(library))
    assert sorted(os.listdir(place)) == [sys.platlibdir, "python3", "pyvenv.cfg"]


@starts_quickly
def test_a_quick_python_is_made_again_beside_others_and_those_go_that_have_no_python(library):
    place = quick_python(library).parent
    (place / sys.platlibdir / "python2.6").symlink_to("/")
    (place / sys.platlibdir / "python26.zip/encodings").mkdir(parents=True)
    before = sorted(path.relative_to(place) for path in place.rglob("*"))
    (place / sys.platlibdir / "python2.7").symlink_to("/nowhere")
    (place / sys.platlibdir / "python27.zip/encodings").mkdir(parents=True)

    assert make_quick_python(str(place), sys.executable, str(library))

    assert sorted(path.relative_to(place) for path in place.rglob("*")) == before


@pytest.mark.usefixtures("only_packs")
@pytest.mark.parametrize("command", ["claim", "release"])
def test_hooks_run_from_their_pack(runtime, library, command):
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
