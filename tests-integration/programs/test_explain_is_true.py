"""What `amd-ctk explain` says of a container is what `amd-container-runtime create` then does.

AMD_EXPLAIN_CASES=10000 tries as many made-up requests, over all profiles, with and without the GPU Tracker.
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amd_container_runtime.create import add_requested_gpus
from amd_container_runtime.report import Log
from amd_container_runtime.runc import parse_call
from amd_ctk.explain.plan import preview_start
from amd_device_spec.settings import Settings
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_simulator import build_host, profile_names

CASES = int(os.environ.get("AMD_EXPLAIN_CASES", "200"))
# Making the nodes that a container with a user namespace gets takes root.
NAMESPACES = [[], [{"type": "user"}]] if os.geteuid() == 0 else [[]]
KINDS = ("AMD_GPU", "GPU", "MEMORY", "VRAM", "FPGA")


class Scene:
    """A simulated host, its GPUs, and a bundle."""

    def __init__(self, directory, profile, *, tracked):
        self.host = build_host(directory / "host", profile, bare=True)
        self.gpus = [] if profile == "no-driver" else find_gpus(self.host)
        self.bundle = directory / "bundle"
        self.bundle.mkdir()
        os.makedirs(self.host.path("/etc/slurm"))
        with open(self.host.path("/etc/slurm/gres.conf"), "w", encoding="utf-8") as file:
            file.writelines(f"Name=gpu File={gpu.render_path}\n" for gpu in reversed(self.gpus))
        if tracked and self.gpus:
            tracker = Tracker(self.host)
            tracker.enable()
            tracker.set_accessibility("0", exclusive=True)
            tracker.reserve("0", name="other")

    def create(self, spec, chosen):
        """Return what config.json holds in the end, or why the container does not start."""
        (self.bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        call = parse_call(["create", "--bundle", str(self.bundle), "c1"])
        try:
            add_requested_gpus(call, self.host, chosen, Log(self.host, path="/dev/null"), "/usr/sbin/runc")
        except ToolkitError as error:
            return str(error)
        finally:
            lease = State(self.host).lease_path(("", "c1"))
            if os.path.exists(lease):
                os.unlink(lease)
        return json.loads((self.bundle / "config.json").read_bytes())

    def explain(self, spec, chosen):
        plan = preview_start(spec, self.host, chosen, container_id="c1")
        return str(plan.refusals[0]) if plan.refusals else plan.spec


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    made = {}
    for profile in profile_names():
        for tracked in (False, True):
            directory = tmp_path_factory.mktemp(profile)
            made[profile, tracked] = Scene(directory, profile, tracked=tracked)
    return made


def names_of(gpu):
    """The ways to name one GPU."""
    ids = [f"0x{gpu.unique_id:X}", f"GPU-{gpu.unique_id:016x}"] if gpu.unique_id else []
    return [
        str(gpu.number),
        str(gpu.pci_address),
        f"{gpu.pci_address}:p{gpu.partition_rank}",
        f"amd.com/gpu={gpu.number}",
        *ids,
    ]


WORDS = st.sampled_from(
    ["all", "none", "", "void", "first", "3-1", "0x1234", "GPU-XX", "ffff:00:00.0", " 1 ", "99", "-1"]
)
WISHES = st.sampled_from(
    [
        *("auto", "auto:2", "free:1", "free:9", "auto:1+xgmi", "free:2+numa:0", "all+discrete", "all+integrated"),
        *("auto:1+group:a", "auto:1+group:b", "auto:1,0", "auto:x", "amd.com/gpu=auto:1", "auto:1+vram:64GiB"),
    ]
)
RANGES = st.builds("{}-{}".format, st.integers(0, 9), st.integers(0, 70))


@st.composite
def requests(draw, gpus):
    named = st.sampled_from([name for gpu in gpus for name in names_of(gpu)]) if gpus else WORDS
    items = st.one_of(named, named, st.integers(0, 9).map(str), RANGES, WORDS)
    if draw(st.integers(0, 3)) == 0:
        return draw(WISHES)
    return ",".join(draw(st.lists(items, min_size=1, max_size=4)))


@st.composite
def environments(draw, gpus):
    swarm = st.sampled_from([f"DOCKER_RESOURCE_{kind}" for kind in KINDS])
    amounts = st.sampled_from(["1", "4096", "0", "999999999"])
    visible = st.tuples(st.just("AMD_VISIBLE_DEVICES"), requests(gpus))
    resources = st.tuples(swarm, st.one_of(requests(gpus), amounts))
    others = st.tuples(st.sampled_from(["HIP_VISIBLE_DEVICES", "AMD_VRAM_LIMIT_MB", "PATH"]), st.just("1"))
    jobs = st.tuples(
        st.sampled_from(["SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID"]),
        st.sampled_from(["0", "0,1", "1", "9", "", "x"]),
    )
    required = st.tuples(st.just("AMD_REQUIRE_A"), st.sampled_from(["gfx=gfx942", "gpus>=2", "vram>=64GiB", "x"]))
    variables = draw(st.lists(st.one_of(visible, visible, resources, others, jobs, required), max_size=5))
    return ["=".join(variable) for variable in variables]


def devices_of(gpus):
    return [{"path": gpu.render_path, "type": "c", "major": 226, "minor": gpu.render_minor} for gpu in gpus]


@st.composite
def specs(draw, gpus):
    given_gpus = draw(st.lists(st.sampled_from(gpus), max_size=2, unique=True)) if gpus and draw(st.booleans()) else []
    devices = devices_of(given_gpus)
    allowed = draw(st.sampled_from([[], [{"allow": True, "access": "rwm"}], [{"allow": False, "access": "rwm"}]]))
    rules = [
        {"allow": True, "type": "c", "major": 226, "minor": device["minor"], "access": "rwm"} for device in devices
    ]
    bounding = draw(st.sampled_from([["CAP_KILL"], ["CAP_SYS_ADMIN"]]))
    linux = {"devices": devices, "resources": {"devices": [*allowed, *rules]}}
    return {
        "ociVersion": "1.2.0",
        "process": {"env": draw(environments(gpus)), "capabilities": {"bounding": bounding}},
        "linux": {**linux, "namespaces": draw(st.sampled_from(NAMESPACES))},
    }


CHOICES = st.builds(
    Settings,
    unknown_gpus=st.sampled_from(["error", "ignore"]),
    device_mode=st.sampled_from(["open", "host"]),
    swarm_resource_names=st.sampled_from(["uuid", "pci"]),
    swarm_vram_resources=st.sampled_from([(), ("MEMORY",)]),
    swarm_vram_headroom=st.sampled_from([0, 0, 1, 500]),
    privileged_claims=st.sampled_from(["requested", "all"]),
    slurm_filters=st.sampled_from(["remove", "keep"]),
    image_requirements=st.sampled_from(["enforce", "enforce", "warn", "ignore"]),
    gpu_groups=st.sampled_from([(), ("a=0",)]),
    integrated_gpus=st.sampled_from(["include", "exclude"]),
    visible_devices_env=st.sampled_from(["always", "always", "privileged", "never"]),
)


@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(data=st.data())
def test_an_explanation_is_what_config_json_then_holds(scenes, data):
    scene = scenes[data.draw(st.sampled_from(profile_names())), data.draw(st.booleans())]
    spec = data.draw(specs(scene.gpus))
    chosen = data.draw(CHOICES)

    explained = scene.explain(spec, chosen)

    assert explained == scene.create(spec, chosen)


def test_nothing_is_written_by_an_explanation(scenes):
    scene = scenes["mi210-4", True]
    spec = {"process": {"env": ["AMD_VISIBLE_DEVICES=1"]}, "linux": {"namespaces": [{"type": "user"}]}}
    before = files_of(scene)

    scene.explain(spec, Settings())

    assert files_of(scene) == before


def files_of(scene):
    found = (os.path.join(directory, name) for directory, _, names in os.walk(scene.host.root) for name in names)
    return {path: os.lstat(path).st_mtime_ns for path in found}
