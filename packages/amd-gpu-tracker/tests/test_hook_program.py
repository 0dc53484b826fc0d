"""The hooks that runtimes run, as the programs they are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import amd_gpu_tracker
import amdgpu_discovery
from amd_gpu_tracker.claims.hook_entries import (
    claim_hook,
    is_claim_hook,
    refusing_hook,
    release_hook,
    requirements_hook,
)
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import option_in
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus

PARENT = """
import json, subprocess, sys
hook = json.loads(sys.argv[1])
answer = subprocess.run(hook["args"], executable=hook["path"], input=sys.argv[2].encode(), env={}, capture_output=True)
sys.stderr.write(answer.stderr.decode()); sys.stdout.write(answer.stdout.decode())
sys.exit(answer.returncode)
"""


@pytest.fixture
def init():
    """Return a process that stands for a container's init."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def runtime(untracked, tmp_path):
    """Return a function that runs a hook as a runtime with this --root does, with no environment."""
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    gpus = locate_gpus(untracked.host)

    def run(
        hook, container_id, pid, *, numbers=(), root="/run/some-runc", spec=None, words=("create",), told="", cwd=bundle
    ):
        nodes = [{"type": "c", "major": 226, "minor": gpus[number].render_minor} for number in numbers]
        spec = {"linux": {"devices": nodes, "namespaces": [{"type": "pid"}]}} if spec is None else spec
        (bundle / "config.json").write_text(json.dumps(spec))
        state = {"ociVersion": "1.2.0", "id": container_id, "pid": pid, "status": "x", "bundle": told or str(bundle)}
        words = ["--root", root, *(word.replace("BUNDLE", str(bundle)) for word in words)] if root else []
        return subprocess.run(
            [sys.executable, "-c", PARENT, json.dumps(hook), json.dumps(state), *words],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture
def tracker(untracked):
    tracker = Tracker(untracked.host)
    tracker.enable()
    return tracker


def users(tracker):
    return {gpu.number: [use.container_id for use in gpu.containers] for gpu in tracker.status().gpus}


def test_a_hook_is_an_absolute_interpreter_and_needs_no_environment():
    hook = claim_hook(Host("/"))

    assert hook["path"] == hook["args"][0] == sys.executable
    assert hook["args"][1:4] == ["-I", "-S", "-B"]
    assert hook["args"][4].endswith("/amd_gpu_tracker/hook.py")
    assert hook["args"][5:7] == ["claim", "--import-from"]
    assert all(os.path.isabs(root) for root in hook["args"][7].split(":"))
    assert hook["timeout"] == 120
    assert "env" not in hook


def test_the_release_hook_is_a_script_that_has_the_words_of_the_interpreter():
    hook = release_hook(Host("/"))

    python = ["release" if word == "claim" else word for word in claim_hook(Host("/"))["args"]]
    script = f"{os.path.dirname(amd_gpu_tracker.__file__)}/release.sh"
    assert hook == {
        "path": "/bin/sh",
        "args": ["/bin/sh", script, "/run/amd-container-toolkit/leases", *python],
        "timeout": 120,
    }


def test_a_hook_knows_its_simulated_host_and_its_user(untracked):
    assert claim_hook(untracked.host)["args"][8:] == ["--host-root", untracked.host.root]
    words = release_hook(Host("/"), "/run/user/1000/amd-container-toolkit")["args"]
    assert words[2] == "/run/user/1000/amd-container-toolkit/leases"
    assert words[-2:] == ["--run-directory", "/run/user/1000/amd-container-toolkit"]


def test_a_claim_hook_is_known_in_every_spelling():
    assert is_claim_hook(claim_hook(Host("/")))
    assert not is_claim_hook(release_hook(Host("/")))
    assert not is_claim_hook({"path": "/bin/claim", "args": ["claim"]})
    assert not is_claim_hook({"path": "/bin/claim"})
    assert not is_claim_hook("claim")


def test_a_container_claims_the_gpus_of_its_nodes_and_gives_them_back(tracker, runtime, untracked, init):
    answer = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[0, 2])

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    (use,) = tracker.status().gpus[2].containers
    assert (use.container_id, use.root, use.ways) == ("c1", "/run/some-runc", ("cdi",))
    assert users(tracker) == {0: ["c1"], 1: [], 2: ["c1"], 3: []}

    init.kill()
    init.wait()
    assert runtime(release_hook(untracked.host), "c1", 0).returncode == 0
    assert untracked.lease_files() == []


def test_a_card_node_alone_is_a_claim_and_kfd_alone_is_none(tracker, runtime, untracked, init):
    card = locate_gpus(untracked.host)[1].card_minor
    devices = [{"type": "c", "major": 226, "minor": card}, {"type": "c", "major": 510, "minor": 0}]

    runtime(claim_hook(untracked.host), "c1", init.pid, spec={"linux": {"devices": devices}})

    assert users(tracker) == {0: [], 1: ["c1"], 2: [], 3: []}


def test_a_gpu_that_somebody_uses_without_a_reservation_is_given_and_the_log_says_so(tracker, runtime, untracked, init):
    address = locate_gpus(untracked.host)[1].pci_address
    used = Path(untracked.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/mem_info_vram_used"))
    used.write_text(f"{40 << 30}\n")

    answer = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[0, 1])

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    assert users(tracker) == {0: ["c1"], 1: ["c1"], 2: [], 3: []}
    (line,) = Path(untracked.host.path("/var/log/amd-container-runtime.log")).read_text().splitlines()
    assert line.partition(" ")[2] == (
        'level=WARN msg="A container is given a GPU that is in use" '
        'error="GPU 1 is used without a reservation: 40960 MiB of its memory, busy 0 %" '
        f'container=c1 host_root="{untracked.host.root}"'
    )


def test_a_gpu_that_another_reservation_has_is_no_line_in_the_log(tracker, runtime, untracked, init):
    address = locate_gpus(untracked.host)[1].pci_address
    used = Path(untracked.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/mem_info_vram_used"))
    used.write_text(f"{40 << 30}\n")
    tracker.reserve("1", name="job")

    assert runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[1]).returncode == 0
    assert not Path(untracked.host.path("/var/log/amd-container-runtime.log")).exists()


def test_a_drained_and_a_sick_gpu_are_refused_with_the_reason(tracker, runtime, untracked, init):
    address = locate_gpus(untracked.host)[2].pci_address
    Path(untracked.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/gpu_busy_percent")).symlink_to(
        "/proc/self/mem"
    )
    tracker.drain("1", reason="fan swap")
    tracker.states()

    drained = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[1])
    sick = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[2])

    assert (drained.returncode != 0, sick.returncode != 0) == (True, True)
    assert drained.stderr.startswith("GPU 1 is drained")
    assert ": reading gpu_busy_percent ends with an I/O error (" in sick.stderr


def test_an_exclusive_gpu_in_use_is_refused_in_the_guides_words(tracker, runtime, untracked, init):
    tracker.set_accessibility("1", exclusive=True)
    assert runtime(claim_hook(untracked.host), "first", init.pid, numbers=[1]).returncode == 0

    answer = runtime(claim_hook(untracked.host), "c2", init.pid, numbers=[0, 1])

    words = (
        "GPUs [0] allocated\n"
        "GPUs [1] are exclusive and already in use\n"
        "Released GPUs [0] used by container c2\n"
        "GPU 1 is in use by container first"
    )
    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "", f"{words}\n")
    assert [refusal.message for refusal in tracker.refusals()] == [words]
    with open(untracked.host.path("/var/log/amd-container-runtime.log")) as log:
        (line,) = log.read().splitlines()
    assert line.partition(" ")[2] == (
        f'level=ERROR msg="amd-gpu-tracker refused GPUs" error={json.dumps(words)} container=c2'
        f' host_root="{untracked.host.root}"'
    )


def test_a_container_with_the_token_of_a_reservation_is_given_its_gpus(tracker, runtime, untracked, init):
    tracker.set_accessibility("1", exclusive=True)
    nodes = [{"type": "c", "major": 226, "minor": locate_gpus(untracked.host)[1].render_minor}]
    spec = {"linux": {"devices": nodes, "namespaces": [{"type": "pid"}]}}
    with tracker.reserve("1", name="train") as reservation:
        token = f"AMD_CTK_RESERVATION={reservation.environment['AMD_CTK_RESERVATION']}"

        answer = runtime(claim_hook(untracked.host), "c1", init.pid, spec={**spec, "process": {"env": [token]}})

        assert (answer.returncode, answer.stderr) == (0, "")
        assert users(tracker)[1] == ["train", "c1"]


def test_a_container_id_that_is_more_than_a_word_is_one_in_the_log(tracker, runtime, untracked, init):
    tracker.set_accessibility("1", exclusive=True)
    tracker.reserve("1", name="first")

    runtime(claim_hook(untracked.host), 'c2" level=INFO msg="\n', init.pid, numbers=[1])

    with open(untracked.host.path("/var/log/amd-container-runtime.log")) as log:
        (line,) = log.read().splitlines()
    assert r' container="c2\" level=INFO msg=\"\n" host_root=' in line


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"linux": {"devices": [{"major": 226, "minor": [1]}]}}, "its 'linux.devices[0].minor' is not a number"),
        ({"linux": {"namespaces": 5}}, "its 'linux.namespaces' is not a list"),
        (
            {"linux": {"devices": [{"Major": 226, "minor": 128}]}},
            "its key 'Major' in 'linux.devices[0]' is not written",
        ),
    ],
)
def test_a_file_that_is_not_a_spec_is_refused_in_one_sentence(tracker, runtime, untracked, init, spec, complaint):
    answer = runtime(claim_hook(untracked.host), "c1", init.pid, spec=spec)

    assert answer.returncode == 5
    assert f"config.json is not a spec: {complaint}" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_while_the_tracker_is_disabled_nothing_is_claimed_or_written(untracked, runtime, init):
    before = sorted(os.walk(untracked.host.root))

    answer = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[0])

    assert (answer.returncode, answer.stderr) == (0, "")
    assert sorted(os.walk(untracked.host.root)) == before


def test_the_claim_of_a_container_that_never_came_to_life_is_over(tracker, runtime, untracked, init):
    runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[0])
    assert users(tracker)[0] == ["c1"]

    init.kill()
    init.wait()

    assert users(tracker)[0] == []


@pytest.mark.parametrize(
    ("words", "root"),
    [
        (["crun", "create"], ""),
        (["crun", "--root=/run/x", "create"], "/run/x"),
        (["runc", "-root", "/run/x", "create"], "/run/x"),
        (["crun", "--root"], ""),
        ([], ""),
    ],
)
def test_the_runtimes_root_is_read_from_its_command_line(words, root):
    assert option_in(words, "root") == root


@pytest.mark.parametrize(
    "words",
    [
        ("create", "--bundle", "BUNDLE", "--pid-file", "/run/pid", "c1"),
        ("create", "--bundle=BUNDLE", "c1"),
        ("create", "-b", "BUNDLE", "c1"),
    ],
    ids=" ".join,
)
def test_where_crun_takes_its_own_directory_for_the_bundle_its_command_line_names_it(
    tracker, runtime, untracked, init, words
):
    answer = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[1], words=words, told="/")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert users(tracker) == {0: [], 1: ["c1"], 2: [], 3: []}
    (lease,) = (untracked.state.read_lease(path) for path in untracked.state.lease_paths())
    assert lease.bundle.endswith("/bundle")


@pytest.mark.parametrize("words", [("create", "c1"), ("create", "--bundle", ".", "c1"), ("create", "--bundle")])
def test_a_bundle_that_nobody_names_is_refused(tracker, runtime, untracked, init, words):
    answer = runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[1], words=words, told="/")

    assert (answer.returncode, answer.stderr) == (
        1,
        (
            "the runtime calls / the container's bundle, and its command line does not name another directory"
            " (call it with --bundle and an absolute path)\n"
        ),
    )
    assert untracked.lease_files() == []


def test_a_file_of_the_image_is_not_taken_for_the_spec(tracker, runtime, untracked, tmp_path):
    image = tmp_path / "rootfs"
    image.mkdir()
    (image / "config.json").write_text('{"linux":{}}')
    init = subprocess.Popen(["sleep", "60"], cwd=image)

    runtime(claim_hook(untracked.host), "c1", init.pid, numbers=[1], words=("create", "--bundle", "BUNDLE"), told="/")
    claimed = users(tracker)
    init.kill()
    init.wait()

    assert claimed == {0: [], 1: ["c1"], 2: [], 3: []}


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"id":"c1","pid":"x"}'])
def test_a_state_that_no_runtime_writes_is_reported(tracker, untracked, state):
    hook = claim_hook(untracked.host)

    answer = subprocess.run(hook["args"], input=state, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "the container's state on standard input is not what OCI runtimes write\n"


def test_a_release_that_fails_is_no_refusal(tracker, untracked):
    hook = release_hook(untracked.host)

    answer = subprocess.run(hook["args"], input="{}", capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert tracker.refusals() == []
    with open(untracked.host.path("/var/log/amd-container-runtime.log")) as log:
        assert 'level=ERROR msg="amd-gpu-tracker cannot release GPUs"' in log.read()


@pytest.mark.parametrize("spec", [{"linux": None}, {}, {"linux": {"devices": None}}, {"linux": {"devices": [{}]}}])
def test_a_spec_without_gpu_nodes_claims_nothing(tracker, runtime, untracked, init, spec):
    assert runtime(claim_hook(untracked.host), "c1", init.pid, spec=spec).returncode == 0

    assert untracked.lease_files() == []


def test_the_hook_writes_nothing_beside_its_modules(untracked, tracker, init, tmp_path):
    hook = claim_hook(untracked.host)
    installed = tmp_path / "installed"
    for package in (amd_gpu_tracker, amdgpu_discovery):
        source = os.path.dirname(package.__file__)
        copy = installed / os.path.basename(source)
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    words = [*hook["args"][:4], str(installed / "amd_gpu_tracker/hook.py"), "claim", "--import-from", str(installed)]
    (tmp_path / "config.json").write_text('{"linux":{"devices":[{"major":226,"minor":128}]}}')
    state = json.dumps({"id": "c1", "pid": init.pid, "bundle": str(tmp_path)})

    subprocess.run([*words, *hook["args"][8:]], input=state, text=True, check=True)

    assert untracked.lease_files() == ["c1@.json"]
    assert list(installed.rglob("__pycache__")) == []


def test_the_hook_loads_no_library(untracked, tracker, init, tmp_path):
    hook = claim_hook(untracked.host)
    words = [*hook["args"][:3], "-X", "importtime", *hook["args"][3:]]
    (tmp_path / "config.json").write_text('{"linux":{"devices":[{"major":226,"minor":128}]}}')
    state = json.dumps({"id": "c1", "pid": init.pid, "bundle": str(tmp_path)})

    answer = subprocess.run(words, input=state, capture_output=True, text=True, check=True)

    loaded = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    heavy = {
        "os",
        "re",
        "enum",
        "json",
        "typing",
        "logging",
        "pathlib",
        "subprocess",
        "dataclasses",
        "filelock",
        "signal",
    }
    assert loaded & (heavy | {"contextlib", "collections", "tempfile", "shutil", "typer"}) == set()
    assert "amd_gpu_tracker.claims.reservation" in loaded


def requiring(untracked, requirement):
    minor = locate_gpus(untracked.host)[0].render_minor
    environment = ["PATH=/bin", requirement, "AMD_VISIBLE_DEVICES=void"]
    return {"process": {"env": environment}, "linux": {"devices": [{"type": "c", "major": 226, "minor": minor}]}}


def test_a_container_that_does_not_get_what_its_image_requires_is_refused(tracker, runtime, untracked, init):
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")

    answer = runtime(claim_hook(untracked.host), "c1", init.pid, spec=spec)

    sentence = "AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a (AMD_DISABLE_REQUIRE=true starts it anyway)"
    assert (answer.returncode, answer.stderr) == (10, f"{sentence}\n")
    assert untracked.lease_files() == []
    assert [refusal.message for refusal in tracker.refusals()] == [sentence]


def test_a_container_that_gets_what_its_image_requires_claims_it(tracker, runtime, untracked, init):
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx90a,gpus=1")

    assert runtime(claim_hook(untracked.host), "c1", init.pid, spec=spec).returncode == 0
    assert users(tracker) == {0: ["c1"], 1: [], 2: [], 3: []}


@pytest.mark.parametrize(("setting", "lines"), [("warn", 1), ("ignore", 0)])
def test_a_hook_knows_what_the_administrator_set(setting, lines, tracker, runtime, untracked, init):
    hook = claim_hook(untracked.host, image_requirements=setting)
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")

    answer = runtime(hook, "c1", init.pid, spec=spec)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert is_claim_hook(hook)
    log = Path(untracked.host.path("/var/log/amd-container-runtime.log"))
    written = log.read_text().splitlines() if log.exists() else []
    words = 'error="AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a" container=c1'
    line = f'level=WARN msg="The image of a container with GPUs" {words} host_root="{untracked.host.root}"'
    assert [line.split(" ", 1)[1] for line in written] == [line] * lines


WRONG_IMAGE = "AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a"


def log_of(untracked):
    """Return the lines of the log without their times and their host."""
    path = Path(untracked.host.path("/var/log/amd-container-runtime.log"))
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split(" ", 1)[1].removesuffix(f' host_root="{untracked.host.root}"') for line in lines]


def test_an_image_is_checked_while_the_tracker_is_disabled(untracked, runtime, init):
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")

    answer = runtime(requirements_hook(untracked.host), "c1", init.pid, spec=spec)

    assert (answer.returncode, answer.stderr) == (10, f"{WRONG_IMAGE} (AMD_DISABLE_REQUIRE=true starts it anyway)\n")
    assert untracked.lease_files() == []


@pytest.mark.parametrize(
    "requirement", ["AMD_REQUIRE_GFX=gfx=gfx90a", "AMD_REQUIRE_GFX=gfx=gfx942,x", "PATH=/bin", "NOT_AMD_REQUIRE_GFX=x"]
)
def test_only_an_image_that_does_not_fit_is_refused(untracked, runtime, init, requirement):
    spec = requiring(untracked, requirement)

    answer = runtime(requirements_hook(untracked.host), "c1", init.pid, spec=spec)

    assert (answer.returncode == 0) is ("gfx942" not in requirement)


def test_python_is_started_for_the_word_alone(untracked, runtime, init):
    hook = requirements_hook(untracked.host)
    hook["args"][4] = "/bin/false"

    assert runtime(hook, "c1", init.pid, spec=requiring(untracked, "PATH=/bin")).returncode == 0
    assert runtime(hook, "c1", init.pid, spec=requiring(untracked, "AMD_REQUIRE_GFX=x")).returncode == 1
    assert runtime(hook, "c1", init.pid, spec=requiring(untracked, "PATH=/bin"), cwd="/").returncode == 1


def test_an_administrator_who_wants_a_warning_gets_one(untracked, runtime, init):
    hook = requirements_hook(untracked.host, image_requirements="warn")

    assert runtime(hook, "c1", init.pid, spec=requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")).returncode == 0
    assert log_of(untracked) == [
        f'level=WARN msg="The image of a container with GPUs" error="{WRONG_IMAGE}" container=c1'
    ]


def test_an_image_is_checked_where_crun_has_left_the_bundle(untracked, runtime, init):
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")
    words = ("create", "--bundle", "BUNDLE", "c1")

    answer = runtime(requirements_hook(untracked.host), "c1", init.pid, spec=spec, words=words, told="/", cwd="/")

    assert answer.returncode == 10


def test_a_container_whose_bundle_nobody_finds_starts_with_a_line_in_the_log(untracked, runtime, init):
    spec = requiring(untracked, "AMD_REQUIRE_GFX=gfx=gfx942")

    answer = runtime(requirements_hook(untracked.host), "c1", init.pid, spec=spec, told="/", cwd="/")

    assert (answer.returncode, answer.stderr) == (0, "")
    reason = (
        "the runtime calls / the container's bundle, and its command line does not name another directory"
        " (call it with --bundle and an absolute path)"
    )
    assert log_of(untracked) == [f'level=WARN msg="Image requirements were not checked" error="{reason}" container=c1']


def test_a_check_of_images_is_no_claim():
    assert not is_claim_hook(requirements_hook(Host("/")))


WITHOUT_LIMIT = (
    'CDI sets no limit on GPU memory, and vram-limit is "required"'
    " (use the AMD runtime: --runtime=amd -e AMD_VISIBLE_DEVICES=0 -e AMD_VRAM=8GiB)\n"
)


def test_where_limits_are_required_a_container_that_may_share_a_gpu_is_refused(tracker, runtime, untracked, init):
    hook = claim_hook(untracked.host, require_limit=True)
    tracker.set_accessibility("1", exclusive=True)

    shared = runtime(hook, "c1", init.pid, numbers=[0, 1])
    alone = runtime(hook, "c2", init.pid, numbers=[1])

    assert (shared.returncode, shared.stderr) == (4, WITHOUT_LIMIT)
    assert (alone.returncode, alone.stderr) == (0, "")
    assert users(tracker) == {0: [], 1: ["c2"], 2: [], 3: []}


def test_where_limits_are_required_a_container_that_asks_for_one_is_refused(tracker, runtime, untracked, init):
    tracker.set_accessibility("1", exclusive=True)
    node = {"type": "c", "major": 226, "minor": locate_gpus(untracked.host)[1].render_minor}
    spec = {"process": {"env": ["PATH=/bin", "AMD_VRAM=8GiB"]}, "linux": {"devices": [node]}}

    answer = runtime(claim_hook(untracked.host, require_limit=True), "c1", init.pid, spec=spec)

    assert (answer.returncode, answer.stderr) == (4, WITHOUT_LIMIT)
    assert users(tracker)[1] == []


def test_where_limits_are_required_and_nothing_is_tracked_every_container_is_refused(runtime, untracked, init):
    hooks = (refusing_hook(untracked.host), claim_hook(untracked.host, require_limit=True))

    answers = [runtime(hook, "c1", init.pid, numbers=[0]) for hook in hooks]

    assert [(answer.returncode, answer.stderr) for answer in answers] == [(4, WITHOUT_LIMIT)] * 2
