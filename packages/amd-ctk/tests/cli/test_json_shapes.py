"""What commands print with --json has the shape that docs/reference/schemas publishes, and nothing beside."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from amd_gpu_tracker import GpusRefused, Tracker
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import load_profile
from amdgpu_simulator.runs.breaking import break_gpu
from support.shared_host import put_ticket

SCHEMAS = Path(__file__).parents[4] / "docs/reference/schemas"
PROFILES = ["mi210-4", "mi300x-8-cpx", "rx7900xtx-raphael", "strix-halo"]
COMMANDS = {
    "cdi-list": "cdi list",
    "cdi-list-specs": "cdi list --specs",
    "config-show": "config show",
    "gpu-check": "gpu check",
    "gpu-list": "gpu list",
    "image-check": "image check",
    "image-pick": "image pick",
    "image-targets": "image targets",
    "gpu-tracker-refusals": "gpu-tracker refused",
    "gpu-tracker-status": "gpu-tracker status",
    "gpu-tracker-usage": "status --usage",
    "queue-list": "queue list",
    "report": "report",
    "slurm-status": "slurm status",
    "status": "status",
    "swarm-status": "swarm status",
    "version": "version",
}


def read_schema(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


def closed(schema):
    """Return a schema that allows no key without a description: readers are told to expect more, this test is not."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: closed(part) for key, part in schema.items()}
    return {**parts, "additionalProperties": False} if "required" in schema else parts


def check(amd_ctk, name, *words, code=0):
    answer = amd_ctk(*COMMANDS[name].split(), *words, "--json")
    assert answer.returncode == code, answer.stderr
    printed = json.loads(answer.stdout)
    jsonschema.validate(printed, closed(read_schema(name)), cls=jsonschema.Draft202012Validator)
    return printed


def test_every_schema_is_one_and_has_a_command():
    for path in SCHEMAS.iterdir():
        jsonschema.Draft202012Validator.check_schema(read_schema(path.stem))
    titles = {path.stem: read_schema(path.stem)["title"] for path in SCHEMAS.iterdir()}

    assert titles == {name: f"amd-ctk {command} --json" for name, command in COMMANDS.items()}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ["gpu-list", "cdi-list", "slurm-status", "swarm-status"])
def test_lists_of_gpus_have_their_shape_on_every_kind_of_host(host, amd_ctk, name, profile):
    host(profile)

    check(amd_ctk, name)


def test_images_have_their_shapes(host, amd_ctk, tmp_path):
    host()
    root, index = tmp_path / "root", tmp_path / "index.json"
    root.mkdir()
    (root / "x_gfx90a.co").touch()
    entries = [{"digest": target, "annotations": {"com.amd.gpu.targets": target}} for target in ("gfx90a", "gfx942")]
    index.write_text(json.dumps({"manifests": entries}), encoding="utf-8")

    targets = check(amd_ctk, "image-targets", f"dir:{root}", f"dir:{root}")
    judged = check(amd_ctk, "image-check", f"dir:{root}")
    picked = check(amd_ctk, "image-pick", index)

    assert targets["images"] == [{"image": f"dir:{root}", "targets": ["gfx90a"], "unreadable": []}] * 2
    assert judged == {"image": f"dir:{root}", "fits": True, "targets": ["gfx90a"], "reasons": [], "notes": []}
    assert picked["picked"] == f"{index}@gfx90a"
    reason = "GPU 0 is gfx90a, the image says it is for gfx942"
    assert picked["images"][1] == {"image": f"{index}@gfx942", "fits": False, "reason": reason}


@pytest.mark.parametrize("name", [name for name in COMMANDS if not name.startswith("image-")])
def test_an_untouched_host_is_shown_in_this_shape(host, amd_ctk, name):
    host()

    check(amd_ctk, name)


def test_gpus_without_a_number_have_their_shape(host, amd_ctk):
    host(load_profile("mi210-4").with_gpu(3, partitions=0))

    assert len(check(amd_ctk, "gpu-list")["unnumbered"]) == 1


def test_specs_of_others_and_broken_ones_have_their_shape(host, amd_ctk):
    made = host()
    amd_ctk("cdi", "generate")
    (Path(made.root) / "etc/cdi/broken.json").write_text("{", encoding="utf-8")

    printed = check(amd_ctk, "cdi-list-specs")

    assert (len(printed["broken"]), printed["devices"] != []) == (1, True)


def test_uses_and_refusals_have_their_shape(host, amd_ctk):
    tracker = Tracker(host())
    tracker.enable()
    tracker.set_accessibility("2", exclusive=True)
    tracker.reserve("0,2", name="nightly-job")
    with pytest.raises(GpusRefused):
        tracker.reserve("2", name="other-job")

    status = check(amd_ctk, "gpu-tracker-status")
    states = check(amd_ctk, "status")["gpus"]
    refusals = check(amd_ctk, "gpu-tracker-refusals")

    assert [use["container_id"] for use in status["gpus"][2]["containers"]] == ["nightly-job"]
    assert [refusal["container_id"] for refusal in refusals] == ["other-job"]
    assert [(gpu["state"], gpu["accessibility"], gpu["what"]) for gpu in states] == [
        ("reserved", "shared", "nightly-job"),
        ("free", "shared", None),
        ("reserved", "exclusive", "nightly-job"),
        ("free", "shared", None),
    ]


def test_a_lost_gpu_has_its_shape(host, amd_ctk, tmp_path):
    made = host()
    Tracker(made).enable()
    gpu = locate_gpus(made)[3]
    Path(made.path(f"/sys/class/kfd/kfd/topology/nodes/{gpu.kfd_node}")).rename(tmp_path / "lost")

    status = check(amd_ctk, "gpu-tracker-status")
    states = check(amd_ctk, "status")["gpus"]

    assert [gpu["state"] for gpu in states] == ["free", "free", "free", "lost"]
    assert [lost["pci_address"] for lost in status["lost"]] == [str(gpu.pci_address)]


def test_usage_has_its_shape(host, amd_ctk):
    cgroup = f"/system.slice/docker-{'36b0' * 16}.scope"
    computing = SimulatedUse(gpu=2, vram_bytes=1 << 30, compute_units=5, client_id=7)
    drawing = SimulatedUse(gpu=2, vram_bytes=1 << 20, in_kfd=False, client_id=8)
    processes = (
        SimulatedProcess(pid=3121, cgroup=cgroup, uses=(computing,)),
        SimulatedProcess(pid=811, name="Xorg", uses=(drawing,)),
    )
    tracker = Tracker(host(load_profile("mi210-4").replace(processes=processes)))
    tracker.enable()
    tracker.reserve("2", name="nightly-job")

    printed = check(amd_ctk, "gpu-tracker-usage")
    states = check(amd_ctk, "status")["gpus"]

    assert [user["container_id"] for user in printed["gpus"][0]["users"]] == ["36b0" * 16, None]
    assert [user["container_id"] for user in printed["gpus"][2]["users"]] == ["nightly-job"]
    assert len(printed["peaks"]) == 1
    # The one that draws is in the usage: all processes are looked at only for a GPU in use by none that computes.
    assert [process["pid"] for process in states[0]["processes"]] == [3121]


def test_gpus_that_are_not_clean_have_their_shape(host, amd_ctk):
    made = host()
    break_gpu(made, 1, "orphan")
    break_gpu(made, 2, "hang")

    printed = check(amd_ctk, "gpu-check", code=1)

    assert [gpu["is_clean"] for gpu in printed["gpus"]] == [True, False, False, True]
    assert [len(gpu["processes"]) for gpu in printed["gpus"]] == [0, 1, 0, 0]


def test_jobs_that_wait_have_their_shape(host, amd_ctk):
    put_ticket(host(), "train-3", "free:4", range(4))

    printed = check(amd_ctk, "queue-list")

    assert [(job["place"], job["name"], job["count"]) for job in printed["jobs"]] == [(1, "train-3", 4)]


def test_resources_and_pools_have_their_shape(host, amd_ctk):
    host()
    amd_ctk("swarm", "setup", "--vram")

    printed = check(amd_ctk, "swarm-status")

    assert (printed["gpus"][0]["resources"], len(printed["pools"])) == (["AMD_GPU=0xEA35F57CC80DEB35"], 1)
