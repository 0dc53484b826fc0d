"""crun sets a limit on GPU memory where systemd makes the cgroup: the slices above it pass the controller on."""

from __future__ import annotations

import errno
import os
import posix
from pathlib import Path

import pytest

from amd_device_spec.start.crun_limit import let_crun_limit

SUBGROUP = "run.oci.systemd.subgroup"
FIRST = "drm/0000:03:00.0/vram"
PASSED_ON = "cgroup.subtree_control"
SLICES = ("machine.slice", "machine.slice/machine-pod.slice")


@pytest.fixture
def crun(runtime):
    """Return a runtime with crun, on a host whose kernel limits the memory of GPU 0, and whose slices do not know."""
    root = Path(runtime.host.path("/sys/fs/cgroup"))
    for cgroup in (root, *(root / name for name in SLICES)):
        cgroup.mkdir(parents=True, exist_ok=True)
        (cgroup / PASSED_ON).write_text("")
    (root / "cgroup.controllers").write_text("cpu memory dmem\n")
    (root / "dmem.capacity").write_text(f"{FIRST} 68702699520\n")
    runtime.cgroups = root
    runtime.settings = {"low_level_runtime": str(runtime.runc.rename(runtime.runc.with_name("crun")))}
    runtime.configure(**runtime.settings)
    return runtime


def ask_for_memory(runtime, path="machine-pod.slice:libpod:c1", **spec):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB", linux={"cgroupsPath": path}, **spec)


def passed_on(runtime):
    """Return what each cgroup was told to pass on, by its path below the root of the hierarchy."""
    root = runtime.cgroups
    return {str(file.parent.relative_to(root)): file.read_text() for file in sorted(root.rglob(PASSED_ON))}


def test_each_cgroup_above_the_container_passes_the_controller_on_and_crun_uses_the_scope_itself(crun):
    ask_for_memory(crun, annotations={SUBGROUP: "own"})

    answer = crun.create_by_systemd()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert crun.config["linux"]["resources"]["unified"] == {"dmem.max": f"{FIRST} 8589934592"}
    assert crun.config["annotations"][SUBGROUP] == ""
    assert passed_on(crun) == {".": "+dmem", "machine.slice": "+dmem", "machine.slice/machine-pod.slice": "+dmem"}


def test_nothing_is_written_where_the_controller_is_passed_on_already(crun):
    for cgroup in (crun.cgroups, *(crun.cgroups / name for name in SLICES)):
        (cgroup / PASSED_ON).write_text("cpu memory dmem\n")
    ask_for_memory(crun)

    crun.create_by_systemd()

    assert crun.config["annotations"][SUBGROUP] == ""
    assert set(passed_on(crun).values()) == {"cpu memory dmem\n"}


def test_a_container_in_the_slice_of_all_slices_needs_only_the_root(crun):
    ask_for_memory(crun, "-.slice:docker:c1")

    crun.create_by_systemd()

    assert passed_on(crun) == {".": "+dmem", "machine.slice": "", "machine.slice/machine-pod.slice": ""}


def test_without_a_limit_no_cgroup_is_opened(crun):
    crun.write_config("AMD_VISIBLE_DEVICES=0", linux={"cgroupsPath": "machine.slice:libpod:c1"})

    crun.create_by_systemd()

    assert set(passed_on(crun).values()) == {""}
    assert SUBGROUP not in crun.config.get("annotations", {})


def refused(runtime):
    """Return why the limit is not enforced, as the log says; the container starts and has no limit."""
    answer = runtime.create_by_systemd()
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "resources" not in runtime.config["linux"] or "unified" not in runtime.config["linux"]["resources"]
    assert SUBGROUP not in runtime.config["annotations"]
    (line,) = [line for line in runtime.own_log if "is not enforced: " in line]
    return line.partition("is not enforced: ")[2].partition('"')[0]


@pytest.mark.parametrize(
    "path",
    ["", "/docker/c1", "machine.slice", "machine.slice:c1", "user.service:libpod:c1", "a--b.slice:libpod:c1"],
)
def test_a_container_outside_of_slices_has_no_limit(crun, path):
    ask_for_memory(crun, path)

    assert refused(crun) == "crun sets a limit only where the container's cgroup is in a slice of systemd"
    assert set(passed_on(crun).values()) == {""}


@pytest.mark.parametrize("path", ["../etc.slice:libpod:c1", "/machine.slice:libpod:c1", "a\0.slice:libpod:c1"])
def test_a_path_in_place_of_a_slice_is_refused(crun, path):
    ask_for_memory(crun, path)

    assert refused(crun).startswith("crun sets a limit only where")


def test_the_first_container_of_a_slice_has_a_limit_although_systemd_has_not_made_the_slice_yet(crun, monkeypatch):
    def make_as_the_kernel_does(name, mode, *, dir_fd):
        os.mkdir(name, mode, dir_fd=dir_fd)
        os.close(os.open(f"{name}/{PASSED_ON}", os.O_CREAT, dir_fd=dir_fd))

    monkeypatch.setattr("posix.mkdir", make_as_the_kernel_does)
    spec = {"linux": {"cgroupsPath": "batch-night.slice:libpod:c1"}}

    assert let_crun_limit(spec, crun.host) == ""
    assert spec["annotations"] == {SUBGROUP: ""}
    assert passed_on(crun)["batch.slice"] == passed_on(crun)["batch.slice/batch-night.slice"] == "+dmem"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (errno.EBUSY, "it has processes of its own"),
        (errno.EINVAL, "Invalid argument"),
        (errno.EROFS, "the file system is read-only"),
    ],
)
def test_a_cgroup_that_the_kernel_lets_pass_nothing_on_is_named_and_the_container_is_not_changed(
    crun, monkeypatch, error, why
):
    real = posix.write

    def write_as_the_kernel_does(descriptor, content):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(f"/machine.slice/{PASSED_ON}"):
            raise OSError(error, os.strerror(error))
        return real(descriptor, content)

    monkeypatch.setattr("posix.write", write_as_the_kernel_does)
    spec = {"linux": {"cgroupsPath": "machine-pod.slice:libpod:c1"}}

    said = let_crun_limit(spec, crun.host)

    assert said == f"crun does not enable the dmem cgroup, and machine.slice does not pass it on: {why}"
    assert spec == {"linux": {"cgroupsPath": "machine-pod.slice:libpod:c1"}, "annotations": {}}
    assert passed_on(crun)["machine.slice/machine-pod.slice"] == ""


def test_a_directory_that_is_no_cgroup_cannot_pass_the_controller_on(crun):
    (crun.cgroups / "batch.slice").write_text("")
    ask_for_memory(crun, "batch.slice:libpod:c1")

    assert refused(crun) == (
        "crun does not enable the dmem cgroup, and batch.slice cannot be opened: a part of its path is not a directory"
    )


def test_a_link_in_place_of_a_slice_is_not_followed(crun):
    (crun.cgroups / "linked.slice").symlink_to("machine.slice")
    ask_for_memory(crun, "linked.slice:libpod:c1")

    assert refused(crun).startswith("crun does not enable the dmem cgroup, and linked.slice cannot be opened")
    assert passed_on(crun)["machine.slice"] == ""


@pytest.mark.needs("root")
@pytest.mark.parametrize("owned", ["machine.slice/machine-pod.slice", f"machine.slice/{PASSED_ON}"])
def test_a_cgroup_of_a_user_is_refused_because_the_user_could_lift_the_limit(crun, owned):
    os.chown(crun.cgroups / owned, 1000, 1000)
    ask_for_memory(crun)

    name = "machine-pod.slice" if owned in SLICES else "machine.slice"
    assert refused(crun) == (
        f"crun does not enable the dmem cgroup, and {name} belongs to a user, who could lift the limit"
    )
    assert passed_on(crun)["machine.slice/machine-pod.slice"] == ""


def test_where_limits_are_required_such_a_container_is_refused(crun):
    crun.configure(vram_limit="required", **crun.settings)
    (crun.cgroups / "batch.slice").write_text("")
    ask_for_memory(crun, "batch.slice:libpod:c1")

    answer = crun.create_by_systemd()

    assert answer.returncode == 4
    assert "AMD_VRAM=8GiB cannot be enforced: crun does not enable" in crun.reported[-1]["msg"]
    # It was only asked for its version.
    assert crun.runc_words == ["--version"]


def test_an_old_crun_sets_no_limit_and_the_log_names_the_version_that_does(crun):
    program = Path(crun.settings["low_level_runtime"])
    rest = program.read_text().partition("\n")
    program.write_text(f'{rest[0]}\n[ "$*" = --version ] && echo crun version 1.8.1 && exit\n{rest[2]}')
    ask_for_memory(crun)

    assert refused(crun) == (
        "crun 1.8.1 does not set all limits of a container in systemd's scope; install crun 1.21 or later"
    )
    assert set(passed_on(crun).values()) == {""}


def test_where_limits_are_required_crun_sets_them(crun):
    crun.configure(vram_limit="required", **crun.settings)
    ask_for_memory(crun)

    answer = crun.create_by_systemd()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert crun.config["linux"]["resources"]["unified"] == {"dmem.max": f"{FIRST} 8589934592"}
