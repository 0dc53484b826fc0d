"""The limit on the memory of a container's GPUs: what the kernel is told, and when that is not possible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amd_gpu_tracker.face.tracker import Tracker

GIB = 2**30
# The regions of GPUs 0 and 1 of four MI210, as amdgpu names them.
FIRST, SECOND = "drm/0000:03:00.0/vram", "drm/0000:26:00.0/vram"
NO_CONTROLLER = "the kernel has no dmem cgroup (it needs Linux 6.14 or later with CONFIG_CGROUP_DMEM)"
# It notes each question, and the call that creates the container as every other fake does.
VERSIONED_RUNC = """#!/bin/sh
if [ "$*" = --version ]; then
    echo asked >>"$RUNC_CALLS.versions"
    printf 'runc version {version}\\nspec: 1.0.2-dev\\n'
    exit
fi
printf '%s\\n' "$0" "$@" > "$RUNC_CALLS"
"""
AT_ONCE = "sets the limits of several GPUs in one write, which Linux 7.3 and later refuse; install runc 1.2 or later"


def give_cgroup(runtime, controllers="cpuset cpu io memory pids dmem", regions=(FIRST, SECOND)):
    """Give the simulated host a cgroup hierarchy, with regions of 64 GiB as on an MI210."""
    directory = runtime.host.path("/sys/fs/cgroup")
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/cgroup.controllers", "w", encoding="utf-8") as file:
        file.write(f"{controllers}\n")
    with open(f"{directory}/dmem.capacity", "w", encoding="utf-8") as file:
        file.writelines(f"{region} {64 * GIB}\n" for region in regions)


@pytest.fixture
def limited(runtime):
    """Return a runtime on a host whose kernel limits the memory of GPUs."""
    give_cgroup(runtime)
    runtime.settings = {}
    return runtime


def give_runc(runtime, version, kernel="7.3.4-amd64"):
    """Give the simulated host a runc of this version, and a kernel."""
    runtime.runc.write_text(VERSIONED_RUNC.format(version=version))
    release = Path(runtime.host.path("/proc/sys/kernel/osrelease"))
    release.parent.mkdir(parents=True)
    release.write_text(f"{kernel}\n")


def times_asked(runtime):
    """Return how often runc was asked for its version."""
    versions = Path(f"{runtime.calls}.versions")
    return len(versions.read_text().splitlines()) if versions.exists() else 0


def limit_in(runtime):
    return runtime.config.get("linux", {}).get("resources", {}).get("unified")


def told(runtime):
    return [entry for entry in runtime.config["process"]["env"] if entry.startswith("AMD_VRAM_")]


@pytest.mark.parametrize("amount", ["8GiB", "8gib", "8 GiB", "8192MiB"])
def test_a_limit_reaches_the_kernel_in_bytes(limited, amount):
    limited.write_config("AMD_VISIBLE_DEVICES=0", f"AMD_VRAM={amount}")

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert limit_in(limited) == {"dmem.max": "drm/0000:03:00.0/vram 8589934592"}
    assert told(limited) == ["AMD_VRAM_LIMIT_MB=8192", "AMD_VRAM_TOTAL_MB=65520", "AMD_VRAM_FRACTION=0.1250"]


def test_a_limit_is_for_each_gpu_and_has_a_line_for_each(limited):
    limited.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")

    limited.create()

    assert limit_in(limited)["dmem.max"].splitlines() == [f"{FIRST} 8589934592", f"{SECOND} 8589934592"]


def test_the_partitions_of_a_board_share_its_region(runtime_on):
    runtime = runtime_on("mi308x-8-cpx")
    first = runtime.host.names("/sys/module/amdgpu/drivers/pci:amdgpu")
    give_cgroup(runtime, regions=[f"drm/{address}/vram" for address in first])
    runtime.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    (line,) = limit_in(runtime)["dmem.max"].splitlines()
    assert line.endswith(f"/vram {16 * GIB}")


@pytest.mark.parametrize("setting", ["asked", "required"])
def test_partitions_that_ask_for_more_than_their_board_has_are_refused_and_nothing_starts(runtime_on, setting):
    runtime = runtime_on("mi308x-8-cpx")
    first = runtime.host.names("/sys/module/amdgpu/drivers/pci:amdgpu")
    give_cgroup(runtime, regions=[f"drm/{address}/vram" for address in first])
    runtime.configure(vram_limit=setting)
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=40GiB")

    answer = runtime.create()

    assert answer.returncode == 4
    assert (
        "AMD_VRAM=40GiB for 2 GPUs of one board is more than the board has, which is 65536 MiB"
        " (ask for less, as in AMD_VRAM=8GiB, or for fewer GPUs)"
    ) in runtime.reported[-1]["msg"]
    assert runtime.runc_words is None
    assert runtime.leases() == []


def test_an_administrators_maximum_that_is_more_than_a_board_has_limits_nothing(runtime_on):
    runtime = runtime_on("mi308x-8-cpx")
    first = runtime.host.names("/sys/module/amdgpu/drivers/pci:amdgpu")
    give_cgroup(runtime, regions=[f"drm/{address}/vram" for address in first])
    runtime.configure(vram_maximum=40 * 1024)
    runtime.write_config("AMD_VISIBLE_DEVICES=0,1")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert runtime.config["linux"]["resources"]["unified"] == {"dmem.max": f"drm/{min(first)}/vram 85899345920"}


def test_a_limit_of_the_engine_for_the_same_gpu_is_replaced_and_others_stay(limited):
    unified = {"dmem.max": f"{FIRST} max\ndrm/0000:00:02.0/vram0 5", "pids.max": "9"}
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=1GiB", linux={"resources": {"unified": unified}})

    limited.create()

    assert limit_in(limited) == {
        "dmem.max": "drm/0000:00:02.0/vram0 5\ndrm/0000:03:00.0/vram 1073741824",
        "pids.max": "9",
    }


def test_limits_that_an_image_sets_in_variables_are_replaced(limited):
    limited.write_config("AMD_VRAM_LIMIT_MB=64000", "AMD_VRAM_FRACTION=1", "AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB")

    limited.create()

    assert told(limited) == ["AMD_VRAM_LIMIT_MB=8192", "AMD_VRAM_TOTAL_MB=65520", "AMD_VRAM_FRACTION=0.1250"]


@pytest.mark.parametrize(
    ("variables", "maximum", "mib"),
    [
        (["AMD_VRAM=8GiB"], 4096, 4096),
        (["AMD_VRAM=2GiB"], 4096, 2048),
        ([], 4096, 4096),
        (["AMD_VRAM="], 4096, 4096),
    ],
    ids=["more is asked for", "less is asked for", "nothing is asked for", "an empty variable"],
)
def test_the_administrators_maximum_holds_for_every_container(limited, variables, maximum, mib):
    limited.configure(vram_maximum=maximum)
    limited.write_config("AMD_VISIBLE_DEVICES=0", *variables)

    limited.create()

    assert limit_in(limited) == {"dmem.max": f"{FIRST} {mib * 2**20}"}


@pytest.mark.parametrize(("asked", "mib"), [([], 4000), (["AMD_VRAM=8GiB"], 4000), (["AMD_VRAM=1GiB"], 1024)])
def test_the_share_of_a_swarm_task_is_its_limit(limited, asked, mib):
    limited.configure(swarm_vram_resources=["VRAM"])
    Tracker(limited.host).enable()
    limited.write_config("DOCKER_RESOURCE_VRAM=4000", *asked)

    limited.create()

    assert limit_in(limited) == {"dmem.max": f"{FIRST} {mib * 2**20}"}
    assert told(limited)[0] == f"AMD_VRAM_LIMIT_MB={mib}"


def test_without_a_limit_the_spec_has_none(limited):
    limited.write_config("AMD_VISIBLE_DEVICES=0")

    limited.create()

    assert limit_in(limited) is None
    assert told(limited) == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("8", "AMD_VRAM=8 is not an amount of memory with its unit, MiB or GiB (as in AMD_VRAM=8GiB)"),
        ("8GB", "AMD_VRAM=8GB is not an amount of memory with its unit, MiB or GiB (as in AMD_VRAM=8GiB)"),
        ("half", "AMD_VRAM=half is not an amount of memory with its unit, MiB or GiB (as in AMD_VRAM=8GiB)"),
        ("0=8GiB", "AMD_VRAM=0=8GiB is not an amount of memory with its unit, MiB or GiB (as in AMD_VRAM=8GiB)"),
        ("-1GiB", "AMD_VRAM=-1GiB is not an amount of memory with its unit, MiB or GiB (as in AMD_VRAM=8GiB)"),
        ("9" * 10 + "GiB", "AMD_VRAM=9999999999GiB is not an amount of memory with its unit, MiB or GiB"),
        ("0GiB", "AMD_VRAM=0GiB leaves no memory (as in AMD_VRAM=8GiB)"),
        ("65GiB", "AMD_VRAM=65GiB is more than GPU 0 has, which is 65520 MiB (as in AMD_VRAM=8GiB)"),
    ],
)
@pytest.mark.parametrize("setting", ["asked", "required"])
def test_an_amount_that_is_none_is_refused_and_nothing_starts(limited, value, message, setting):
    limited.configure(vram_limit=setting)
    Tracker(limited.host).enable()
    limited.write_config("AMD_VISIBLE_DEVICES=0", f"AMD_VRAM={value}")
    before = limited.config

    answer = limited.create()

    assert answer.returncode == 4
    assert message in limited.reported[-1]["msg"]
    assert limited.runc_words is None
    assert limited.config == before
    assert limited.leases() == []


def without_controller(runtime):
    give_cgroup(runtime, controllers="cpu memory")


def with_cgroup_v1(runtime):
    os.unlink(runtime.host.path("/sys/fs/cgroup/cgroup.controllers"))


def without_region(runtime):
    give_cgroup(runtime, regions=())


def with_crun(runtime):
    crun = runtime.runc.rename(runtime.runc.with_name("crun"))
    runtime.settings["low_level_runtime"] = str(crun)


OBSTACLES = [
    (without_controller, NO_CONTROLLER),
    (with_cgroup_v1, "the host does not use the unified cgroup hierarchy (cgroup v2)"),
    (without_region, "the kernel has no memory region of GPU 0"),
    (with_crun, "crun sets a limit only where systemd makes the container's cgroup"),
]


@pytest.mark.parametrize(("spoil", "obstacle"), OBSTACLES)
def test_a_limit_that_cannot_be_enforced_is_logged_and_the_container_is_told(limited, spoil, obstacle):
    spoil(limited)
    limited.configure(**limited.settings)
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB")

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert limit_in(limited) is None
    assert told(limited)[0] == "AMD_VRAM_LIMIT_MB=8192"
    assert any(f"AMD_VRAM=8GiB is not enforced: {obstacle}" in line for line in limited.own_log)


def test_a_container_that_crun_makes_because_it_keeps_groups_gets_no_limit_without_systemd(limited):
    keep_groups = {"run.oci.keep_original_groups": "1"}
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB", annotations=keep_groups)

    limited.create()

    assert limit_in(limited) is None
    assert any("AMD_VRAM=8GiB is not enforced: crun sets a limit only where" in line for line in limited.own_log)


@pytest.mark.parametrize(("spoil", "obstacle"), OBSTACLES)
def test_where_limits_are_required_one_that_cannot_be_enforced_is_refused(limited, spoil, obstacle):
    spoil(limited)
    limited.configure(vram_limit="required", **limited.settings)
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB")

    answer = limited.create()

    assert answer.returncode == 4
    assert f"AMD_VRAM=8GiB cannot be enforced: {obstacle}" in limited.reported[-1]["msg"]
    assert limited.runc_words is None


@pytest.mark.parametrize("version", ["1.0.0-rc93", "1.1.5+ds1", "1.1.15"])
def test_limits_of_two_gpus_that_an_old_runc_would_write_at_once_are_not_set_and_logged(limited, version):
    give_runc(limited, version)
    limited.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert limit_in(limited) is None
    assert limited.runc_words[-1] == "c1"
    number = version.partition("-")[0].partition("+")[0]
    said = f"AMD_VRAM=8GiB is not enforced: runc {number} {AT_ONCE}"
    assert limited.own_log[0] == f'level=WARN msg="amd-container-runtime {said}" container=c1'


def test_where_limits_are_required_two_gpus_need_a_runc_that_sets_their_limits_one_by_one(limited):
    give_runc(limited, "1.1.15")
    limited.configure(vram_limit="required")
    limited.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")

    answer = limited.create()

    assert answer.returncode == 4
    assert limited.reported[-1]["msg"].endswith(
        f"AMD_VRAM=8GiB cannot be enforced: runc 1.1.15 {AT_ONCE}"
        " ('sudo amd-ctk config set vram-limit asked' lets such containers start without a limit)"
    )
    assert limited.runc_words is None


@pytest.mark.parametrize(
    ("version", "kernel"),
    # A runc without a version of its own still tells that of the specification, in the next lines.
    [
        *[("1.2.0", "7.3.4-amd64"), ("1.3.6", "8.0.0"), ("unknown", "7.3.4-amd64")],
        *[("1.1.15", "7.2.13+deb14-amd64"), ("1.1.12", "6.14.0-37-generic")],
    ],
)
def test_limits_of_two_gpus_are_set_where_runc_or_the_kernel_can(limited, version, kernel):
    give_runc(limited, version, kernel)
    limited.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")

    limited.create()

    assert limit_in(limited)["dmem.max"].splitlines() == [f"{FIRST} 8589934592", f"{SECOND} 8589934592"]


@pytest.mark.parametrize("variables", [("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB"), ("AMD_VISIBLE_DEVICES=0,1",)])
def test_runc_is_asked_for_its_version_only_if_several_gpus_have_a_limit(limited, variables):
    give_runc(limited, "1.1.15")
    limited.write_config(*variables)

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert times_asked(limited) == 0
    limited.write_config("AMD_VISIBLE_DEVICES=0,1", "AMD_VRAM=8GiB")
    limited.create()
    assert times_asked(limited) == 1


def test_an_integrated_gpu_has_no_limit_of_its_own(runtime_on):
    runtime = runtime_on("strix-halo")
    give_cgroup(runtime, regions=["drm/0000:c5:00.0/vram"])
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=256MiB")

    runtime.create()

    assert limit_in(runtime) is None
    assert any("an integrated GPU uses the memory of the host" in line for line in runtime.own_log)


def test_where_limits_are_required_a_container_without_one_is_refused(limited):
    limited.configure(vram_limit="required")
    limited.write_config("AMD_VISIBLE_DEVICES=0,1")

    answer = limited.create()

    assert answer.returncode == 4
    assert limited.reported[-1]["msg"].endswith(
        'vram-limit is "required", and the container does not say how much memory of GPUs 0, 1 it needs'
        " (set AMD_VRAM, as in AMD_VRAM=8GiB, or make the GPU exclusive)"
    )


def test_an_exclusive_gpu_needs_no_limit_where_limits_are_required(limited):
    limited.configure(vram_limit="required")
    Tracker(limited.host).enable()
    Tracker(limited.host).set_accessibility("0", exclusive=True)
    limited.write_config("AMD_VISIBLE_DEVICES=0")

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert limit_in(limited) is None


def test_limits_that_are_switched_off_are_ignored_and_logged(limited):
    limited.configure(vram_limit="off")
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB")

    limited.create()

    assert limit_in(limited) is None
    assert told(limited) == []
    assert any("AMD_VRAM is ignored because vram-limit is" in line for line in limited.own_log)


def test_a_limit_without_a_gpu_is_logged(limited):
    limited.write_config("AMD_VISIBLE_DEVICES=none", "AMD_VRAM=8GiB")

    answer = limited.create()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert any("AMD_VRAM=8GiB limits nothing, because AMD_VISIBLE_DEVICES gives" in line for line in limited.own_log)


@pytest.mark.parametrize("linux", [{"resources": []}, {"resources": {"unified": []}}])
def test_a_spec_with_other_content_in_the_place_of_limits_is_refused(limited, linux):
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB", linux=linux)

    answer = limited.create()

    assert answer.returncode != 0
    assert "is not an object" in limited.reported[-1]["msg"]
    assert limited.runc_words is None


def test_a_second_create_of_the_same_bundle_has_one_line(limited):
    limited.write_config("AMD_VISIBLE_DEVICES=0", "AMD_VRAM=8GiB")
    limited.create()

    limited.create()

    assert limit_in(limited) == {"dmem.max": "drm/0000:03:00.0/vram 8589934592"}


@pytest.mark.parametrize(
    ("asked", "mib"),
    [([], 8192), (["AMD_VRAM=60GiB"], 8192), (["AMD_VRAM="], 8192), (["AMD_VRAM=2GiB"], 2048)],
)
@pytest.mark.parametrize("exclusive", [True, False])
def test_the_container_of_a_job_with_a_part_has_no_more_whatever_it_asks_for(limited, asked, mib, exclusive):
    limited.configure(vram_limit="required")
    Tracker(limited.host).enable()
    Tracker(limited.host).set_accessibility("all", exclusive=exclusive)
    with Tracker(limited.host).reserve("0", name="job", vram_mb=8192) as job:
        limited.write_config(*(f"{name}={value}" for name, value in job.environment.items()), *asked)

        answer = limited.create()

        assert (answer.returncode, answer.stderr) == (0, "")
        assert limit_in(limited) == {"dmem.max": f"{FIRST} {mib << 20}"}
        assert told(limited)[0] == f"AMD_VRAM_LIMIT_MB={mib}"


def test_where_limits_are_required_a_part_that_cannot_be_enforced_is_refused(limited):
    give_cgroup(limited, controllers="cpu memory")
    limited.configure(vram_limit="required")
    Tracker(limited.host).enable()
    with Tracker(limited.host).reserve("0", name="job", vram_mb=8192) as job:
        limited.write_config(*(f"{name}={value}" for name, value in job.environment.items()))

        answer = limited.create()

    assert answer.returncode == 4
    assert f"its job's part of 8192 MiB cannot be enforced: {NO_CONTROLLER}" in limited.reported[-1]["msg"]
    assert limited.runc_words is None
