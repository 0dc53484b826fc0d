"""Each fault of a container is found by its check alone, and a healthy container has none."""

from __future__ import annotations

import errno
from itertools import combinations

import pytest

from amd_ctk.doctor.facts.inside import ImageFacts, InsideFacts
from amd_ctk.doctor.inside.nodes import TriedNode
from amd_ctk.doctor.inside.process import ContainerProcess
from amd_ctk.doctor.run import check_names
from amd_gpu_tracker.book.lease import ProcessId

KFD = TriedNode(path="/dev/kfd", major=235, minor=0, mode=0o666, gid=110, errno=0)
RENDER = TriedNode(path="/dev/dri/renderD128", major=226, minor=128, mode=0o666, gid=110, errno=0)
# What is in the image is right for the only GPU of the profile, a Radeon AI PRO R9700.
HEALTHY = InsideFacts(
    name="comfy",
    process=ContainerProcess(identity=ProcessId(pid=4711, start=1), uid=1000, gid=1000, groups=(44,), has_seccomp=True),
    nodes=(KFD, RENDER),
    image=ImageFacts(rocm_version="6.4.1", targets=("gfx1201", "gfx942"), shared_memory=64 << 20),
    variables={"HOME": "/home/user"},
    mount_points=("/", "/home/user/.cache"),
)


def node_says(number, node=RENDER, **changes):
    """Return the healthy container with another answer on one of its nodes."""
    others = tuple(other for other in HEALTHY.nodes if other is not node)
    return HEALTHY.replace(nodes=(*others, node.replace(errno=number, **changes)))


def in_a_namespace(inside):
    return inside.replace(process=inside.process.replace(uid_inside=0))


def image_has(**changes):
    return HEALTHY.replace(image=HEALTHY.image.replace(**changes))


NO_VERSION = "HSA_OVERRIDE_GFX_VERSION={} in container comfy is not a version, so ROCm lists no GPU"
TWO = "the container sees 2 GPUs, which HIP counts 0-1"
NO_NODES = (TriedNode(path="/dev/kfd", errno=errno.ENOENT),)
FAULTS = {
    "inside-nodes": HEALTHY.replace(nodes=NO_NODES),
    "inside-access": node_says(errno.EACCES, mode=0o660),
    "inside-cgroup": node_says(errno.EPERM),
    "inside-kfd": node_says(errno.EINVAL, KFD),
    "inside-gpu": node_says(errno.EBUSY),
    "inside-targets": image_has(targets=("gfx90a", "gfx942")),
    "inside-filters": HEALTHY.replace(variables={**HEALTHY.variables, "HIP_VISIBLE_DEVICES": "2"}),
    "inside-override": HEALTHY.replace(variables={**HEALTHY.variables, "HSA_OVERRIDE_GFX_VERSION": "9.0.0"}),
    "inside-cache": image_has(compiled=("/home/user/.triton/cache",)),
    "inside-lsmod": image_has(has_lsmod=False, asks_lsmod=True),
    "inside-memlock": image_has(has_infiniband=True).replace(process=HEALTHY.process.replace(locked_memory=8 << 20)),
}
JOB = {**HEALTHY.variables, "SLURM_JOB_ID": "7"}
GRES = "".join(f"Name=gpu File=/dev/dri/renderD{minor}\n" for minor in range(128, 132))
NOTES = {
    "inside-cache": HEALTHY.replace(mount_points=("/",)),
    "inside-rocm": image_has(rocm_version="5.7.1"),
    "inside-numa": HEALTHY.replace(numa_nodes=2),
    "inside-override": HEALTHY.replace(variables={**HEALTHY.variables, "HSA_OVERRIDE_GFX_VERSION": "12.0.1"}),
}


@pytest.fixture
def spoilt(machine):
    """Return a function that examines a container of a host that is well: {check: state} of what is not ok there."""
    made = machine()
    made.write("/sys/module/amdgpu/version", "6.12.12\n")
    before = made.states()

    def examine(inside):
        made.inside = inside
        return {name: state for name, state in made.states().items() if before.get(name) != state and state != "ok"}

    return examine


def test_a_healthy_container_has_no_fault(spoilt):
    assert spoilt(HEALTHY) == {}


@pytest.mark.parametrize("name", FAULTS)
def test_only_its_check_calls_a_fault_bad(spoilt, name):
    assert spoilt(FAULTS[name]) == {name: "bad"}


@pytest.mark.parametrize("name", NOTES)
def test_only_its_check_notes_what_is_no_fault(spoilt, name):
    assert spoilt(NOTES[name]) == {name: "note"}


@pytest.mark.parametrize("home", ["/home/u; reboot", "/home/$(id)", "home", "/home/\nu", f"/{'u' * 300}", ""])
def test_a_home_directory_that_is_no_plain_path_is_not_in_advice(machine, home):
    made = machine()
    made.inside = HEALTHY.replace(variables={"HOME": home}, mount_points=("/",))

    (result,) = made.examine(only=["inside-cache"])

    assert result.finding.fix == "add --volume=rocm-cache:/root/.cache"


def test_the_name_of_a_node_is_quoted_in_advice(machine):
    made = machine()
    made.inside = node_says(errno.EPERM, path="/dev/dri/renderD128;reboot")

    (result,) = made.examine(only=["inside-cgroup"])

    assert result.finding.fix == "start it with --device '/dev/dri/renderD128;reboot', or with --runtime=amd"


@pytest.mark.parametrize(
    ("image", "states"),
    [
        ({"rocm_version": "6.4.1"}, ["note"]),
        ({"rocm_version": "", "has_rccl": True}, ["note"]),
        ({"rocm_version": ""}, []),
    ],
)
def test_an_image_whose_file_names_tell_no_target_is_looked_into_by_another_command(machine, image, states):
    made = machine()
    made.inside = image_has(targets=(), **image)

    findings = [result.finding for result in made.examine(only=["inside-targets"])]

    assert [finding.state for finding in findings] == states
    fix = "amd-ctk image targets --deep docker:NAME, with the name of the image"
    assert {finding.fix for finding in findings} <= {fix}


def test_targets_without_end_are_not_listed(machine):
    made = machine()
    made.inside = image_has(targets=tuple(f"gfx{number}" for number in range(1000, 1065)))

    (result,) = made.examine(only=["inside-targets"])

    assert (result.finding.state, result.finding.words) == ("note", "the image has code for too many targets to list")


def together(first, second):
    """Return a container with what two of them have that the healthy one has not."""
    changed = {field: value for field, value in second.as_dict().items() if value != getattr(HEALTHY, field)}
    if "image" in changed:
        image = {name: value for name, value in second.image.as_dict().items() if value != getattr(HEALTHY.image, name)}
        changed["image"] = first.image.replace(**image)
    if "variables" in changed:
        changed["variables"] = first.variables | second.variables
    if "nodes" in changed:
        changed["nodes"] = tuple(
            mine if mine not in HEALTHY.nodes else other
            for mine, other in zip(sorted_nodes(first), sorted_nodes(second), strict=True)
        )
    return first.replace(**changed)


def sorted_nodes(inside):
    return sorted(inside.nodes, key=lambda node: node.path)


# A container without nodes cannot be refused one, and one node gives one answer.
ON_ONE_NODE = {"inside-access", "inside-cgroup", "inside-gpu"}
# An override takes the place of the targets.
ON_TARGETS = {"inside-targets", "inside-override"}
PAIRS = [
    pair
    for pair in combinations(FAULTS, 2)
    if "inside-nodes" not in pair and not set(pair) <= ON_ONE_NODE and not set(pair) <= ON_TARGETS
]


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_two_faults_are_both_found(spoilt, pair):
    first, second = pair

    assert spoilt(together(FAULTS[first], FAULTS[second])) == {first: "bad", second: "bad"}


@pytest.mark.parametrize(
    ("number", "check"),
    [
        (errno.EACCES, "inside-access"),
        (errno.EPERM, "inside-cgroup"),
        (errno.EINVAL, "inside-kfd"),
        (errno.ENXIO, "inside-nodes"),
        (errno.ENODEV, "inside-nodes"),
        (errno.ENOMEM, "inside-gpu"),
        (errno.EBUSY, "inside-gpu"),
        (errno.EIO, "inside-gpu"),
    ],
)
def test_every_answer_of_the_kernel_belongs_to_one_check(spoilt, number, check):
    assert spoilt(node_says(number, KFD)) == {check: "bad"}


@pytest.mark.parametrize(
    ("inside", "words", "fix"),
    [
        (
            node_says(errno.EACCES, mode=0o660),
            "user 1000 with groups 1000 44 may not open /dev/dri/renderD128, which is 0660 0:110",
            "use --runtime=amd, or add --group-add 110",
        ),
        (
            in_a_namespace(node_says(errno.EACCES, mode=0o660)),
            "user 1000 with groups 1000 44 may not open /dev/dri/renderD128, which is 0660 0:110",
            "use --runtime=amd or Docker's --userns=host; for rootless Podman, crun with --group-add=keep-groups",
        ),
        (
            node_says(errno.EACCES),
            "SELinux or a mount with nodev closes /dev/dri/renderD128 in container comfy: its mode would allow access",
            "sudo setsebool -P container_use_devices on, or mount it without nodev",
        ),
    ],
)
def test_a_closed_node_is_explained_by_its_mode_or_by_what_else_closes_it(machine, inside, words, fix):
    made = machine()
    made.inside = inside

    (result,) = made.examine(only=["inside-access"])

    assert (result.finding.words, result.finding.fix) == (words, fix)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((RENDER,), "container comfy has no /dev/kfd"),
        ((KFD,), "container comfy has /dev/kfd and no render node"),
        (NO_NODES, "container comfy was given no GPU: it has no /dev/kfd and no render node"),
        ((KFD, RENDER), "container comfy has /dev/kfd and 1 render node"),
    ],
)
def test_the_nodes_of_a_container_are_counted(machine, nodes, words):
    made = machine()
    made.inside = HEALTHY.replace(nodes=nodes)

    (result,) = made.examine(only=["inside-nodes"])

    assert result.finding.words == words


@pytest.mark.parametrize(
    ("minors", "state"),
    [({128: 129}, "bad"), ({128: 129, 129: 128}, "bad"), ({128: 129, 129: 129}, "ok"), ({128: 128, 129: 129}, "ok")],
)
def test_a_render_node_under_another_number_is_not_found_by_rocm(machine, minors, state):
    made = machine("rx7900xtx-raphael")
    nodes = [RENDER.replace(path=f"/dev/dri/renderD{name}", minor=minor) for name, minor in minors.items()]
    made.inside = HEALTHY.replace(nodes=(KFD, *nodes))

    (result,) = made.examine(only=["inside-nodes"])

    assert result.finding.state == state
    if state == "bad":
        words = "/dev/dri/renderD128 is 226:129: ROCm opens the node of this GPU as /dev/dri/renderD129"
        assert result.finding.words == f"in container comfy, {words}"
        assert result.finding.fix == "leave its name as it is"


def test_a_simulated_host_has_no_driver_that_could_answer(spoilt):
    assert spoilt(node_says(errno.ENXIO).replace(has_driver=False)) == {}


def test_a_user_without_root_reads_what_the_check_needs(spoilt):
    inside = InsideFacts(name="comfy", problem="container comfy from inside", needs="root")

    assert spoilt(inside) == {"inside-nodes": "not checked"}


def two_gpus(machine, **image):
    """Return a machine whose container has two of four GPUs, and an image with code for them."""
    made = machine("mi210-4")
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in (128, 129))
    made.inside = image_has(targets=("gfx90a",), **image).replace(nodes=(KFD, *nodes))
    return made


def test_only_its_check_calls_too_little_shared_memory_for_rccl_bad(machine):
    assert two_gpus(machine, has_rccl=True).bad() == ["inside-shm"]


@pytest.mark.parametrize(
    ("size", "has_rccl", "state"), [(64, False, "note"), (65, True, "note"), (64, True, "bad"), (16384, True, "ok")]
)
def test_several_gpus_want_shared_memory(machine, size, has_rccl, state):
    made = two_gpus(machine, shared_memory=size << 20, has_rccl=has_rccl)

    (result,) = made.examine(only=["inside-shm"])

    assert result.finding.state == state
    assert result.finding.words.startswith(f"/dev/shm in container comfy has {size} MiB")


def card_and_integrated(machine, *minors, **image):
    """Return a machine with a Radeon RX 7900 XTX (129) and a Ryzen (128), whose container has some of their nodes."""
    made = machine("rx7900xtx-raphael")
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in minors)
    made.inside = image_has(**{"targets": ("gfx1100",), **image}).replace(nodes=(KFD, *nodes))
    return made


def test_only_its_check_calls_an_integrated_gpu_without_code_bad(machine):
    assert card_and_integrated(machine, 128, 129).bad() == ["inside-integrated"]


@pytest.mark.parametrize(
    ("minors", "targets", "variables", "finding"),
    [
        (
            (128,),
            ("gfx1100",),
            {},
            ("bad", "container comfy has GPU 1, which is integrated; the image has no code for gfx1036"),
        ),
        ((128, 129), (), {}, ("note", "container comfy uses GPU 1, which is integrated")),
        (
            (128, 129),
            (),
            {"HIP_VISIBLE_DEVICES": "1,0"},
            ("bad", "HIP in container comfy counts GPU 1 first, which is integrated, and cards behind it"),
        ),
        ((128, 129), ("gfx1100",), {"HIP_VISIBLE_DEVICES": "0"}, None),
        ((129,), ("gfx1100",), {}, None),
    ],
)
def test_the_integrated_gpu_that_a_container_uses_is_judged(machine, minors, targets, variables, finding):
    made = card_and_integrated(machine, *minors, targets=targets)
    made.inside = made.inside.replace(variables=variables)

    results = made.examine(only=["inside-integrated"])

    assert [(result.finding.state, result.finding.words) for result in results] == ([finding] if finding else [])
    assert {result.finding.fix for result in results} <= {"ask for the cards: AMD_VISIBLE_DEVICES=0"}


@pytest.mark.parametrize(
    ("value", "targets", "state", "words"),
    [
        (
            "10.3.0",
            ("gfx1201", "gfx942"),
            "bad",
            "HSA_OVERRIDE_GFX_VERSION makes GPU 0 gfx1030, but the image has code for gfx1201 gfx942",
        ),
        (
            "10.3.0",
            (),
            "bad",
            "HSA_OVERRIDE_GFX_VERSION makes GPU 0 gfx1030, but it is gfx1201, which cannot run that code",
        ),
        ("gfx1200", (), "bad", NO_VERSION.format("gfx1200")),
        # As `${HSA_OVERRIDE_GFX_VERSION:-}` in a Compose file sets it.
        ("", (), "bad", NO_VERSION.format("")),
        ("64.0.0", (), "bad", NO_VERSION.format("64.0.0")),
        ("12.0.300", (), "bad", NO_VERSION.format("12.0.300")),
        (
            " 12.0.0",
            (),
            "note",
            "HSA_OVERRIDE_GFX_VERSION makes ROCm take every GPU for gfx1200, which AMD does not support",
        ),
        (
            "12.0.0",
            (),
            "note",
            "HSA_OVERRIDE_GFX_VERSION makes ROCm take every GPU for gfx1200, which AMD does not support",
        ),
    ],
)
def test_an_override_is_judged(machine, value, targets, state, words):
    made = machine()
    made.inside = image_has(targets=targets).replace(variables={"HSA_OVERRIDE_GFX_VERSION": value})

    (result,) = made.examine(only=["inside-override", "inside-targets"])

    assert (result.check, result.finding.state, result.finding.words) == ("inside-override", state, words)


def test_an_override_of_one_card_is_judged_for_that_card(machine):
    made = machine("mi210-4")
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in (128, 129))
    # Of the nodes in the container, 0 and 1 are processors, and 3 is GPU 2.
    variables = {"HSA_OVERRIDE_GFX_VERSION_3": "10.3.0", "HSA_OVERRIDE_GFX_VERSION": "9.0.10"}
    made.inside = image_has(targets=()).replace(nodes=(KFD, *nodes), variables=variables)

    (result,) = made.examine(only=["inside-override", "inside-targets"])

    assert (result.finding.state, result.finding.words) == (
        "bad",
        "HSA_OVERRIDE_GFX_VERSION_3 makes GPU 2 gfx1030, but it is gfx90a, which cannot run that code",
    )
    assert result.finding.fix.startswith("start it without HSA_OVERRIDE_GFX_VERSION_3")


ASKING = HEALTHY.replace(nodes=NO_NODES, asks_gpus=True, runtime="runc")


@pytest.mark.parametrize(
    ("version", "inside", "bad", "words"),
    [
        ("26.1.5", ASKING, ["docker-gpus"], "asks with --gpus, but Docker 26.1.5 has no --gpus for AMD"),
        ("28.5.2", ASKING, ["docker-gpus"], "asks with --gpus, but it runs under runc"),
        (
            "26.1.5",
            InsideFacts(name="comfy", problem="container comfy is not running", asks_gpus=True),
            ["docker-gpus"],
            "asks with --gpus, but Docker 26.1.5 has no --gpus for AMD",
        ),
        ("28.5.2", ASKING.replace(runtime="amd"), ["inside-nodes"], ""),
        ("29.4.0", ASKING, ["docker-gpus"], "asks with --gpus, but it runs under runc"),
        ("26.1.5", ASKING.replace(nodes=HEALTHY.nodes), [], ""),
    ],
)
def test_doctor_gives_the_reason_why_a_container_cannot_use_its_gpus(machine, version, inside, bad, words):
    made = machine()
    made.docker["ServerVersion"] = version
    made.inside = inside

    assert made.bad() == bad
    said = {result.check: result.finding.words for result in made.examine()}["docker-gpus"]
    assert said.removeprefix("container comfy ") == words or not words


def test_tools_that_show_the_whole_host_are_explained(machine):
    made = machine("mi210-4")
    made.inside = HEALTHY

    (result,) = made.examine(only=["inside-smi"])

    assert result.finding.words == "rocm-smi in container comfy may list 4 GPUs, but only 1 can be used"


@pytest.mark.parametrize(
    ("given", "bad", "state", "words"),
    [
        ("0,1", [], "ok", "container comfy has the GPUs of its job"),
        ("1,2", ["inside-slurm"], "bad", "Slurm gave the job GPU 0, but container comfy may not open it"),
        ("0", [], "note", "container comfy may open 2 GPUs, but its job has 1"),
        ("9", ["inside-slurm"], "bad", "SLURM_JOB_GPUS=9: gres.conf has no GPU 9 here"),
        ("", [], "note", "container comfy may open 2 GPUs, but its Slurm job names no GPU"),
    ],
)
def test_a_container_in_a_job_is_compared_with_its_job(machine, given, bad, state, words):
    made = machine("mi210-4")
    made.write("/etc/slurm/gres.conf", GRES)
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in (128, 129))
    image = HEALTHY.image.replace(targets=("gfx90a",), shared_memory=16 << 30)
    made.inside = HEALTHY.replace(nodes=(KFD, *nodes), image=image, variables={**JOB, "SLURM_JOB_GPUS": given})

    (result,) = made.examine(only=["inside-slurm"])

    assert (result.finding.state, result.finding.words) == (state, words)
    assert made.bad() == bad


@pytest.mark.parametrize(
    ("variables", "state", "words"),
    [
        (
            {"SLURM_STEP_GPUS": "0,1", "SLURMD_NODENAME": "gpu-a"},
            "ok",
            "container comfy has the GPUs of its job",
        ),
        (
            {"SLURM_STEP_GPUS": "0,1", "SLURMD_NODENAME": "gpu-b"},
            "bad",
            "Slurm gave the job GPU 0, but container comfy may not open it",
        ),
        ({"SLURMD_NODENAME": "gpu-a"}, "note", "container comfy may open 2 GPUs, but its Slurm job names no GPU"),
        ({"SLURM_JOB_ID": "", "SLURMD_NODENAME": ""}, None, None),
    ],
)
def test_a_job_is_known_by_its_node_and_its_gpus_too(machine, variables, state, words):
    made = two_gpus(machine)
    minors = {"gpu-a": (128, 129, 130, 131), "gpu-b": (130, 131, 128, 129)}
    lines = [f"NodeName={node} Name=gpu File=/dev/dri/renderD{minor}\n" for node in minors for minor in minors[node]]
    made.write("/etc/slurm/gres.conf", "".join(lines))
    made.inside = made.inside.replace(variables=variables)

    results = made.examine(only=["inside-slurm"])

    assert [(result.finding.state, result.finding.words) for result in results] == ([(state, words)] if state else [])


def test_every_check_of_a_container_is_tried():
    tried_above = {"inside-shm", "inside-smi", "inside-slurm", "inside-integrated"}

    assert {name for name in check_names() if name.startswith("inside-")} == {*FAULTS, *NOTES} | tried_above


@pytest.mark.parametrize(
    ("variables", "state", "words"),
    [
        (
            {"HIP_VISIBLE_DEVICES": "2"},
            "bad",
            f"HIP_VISIBLE_DEVICES=2 in container comfy hides everything: {TWO}",
        ),
        (
            {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "0"},
            "bad",
            (
                "ROCR_VISIBLE_DEVICES= in container comfy hides everything: "
                "the container sees 2 GPUs, which ROCm counts 0-1"
            ),
        ),
        (
            {"HIP_VISIBLE_DEVICES": ""},
            "note",
            (
                f"HIP_VISIBLE_DEVICES= in container comfy hides nothing: {TWO}"
                "; newer releases of HIP hide everything: leave it out"
            ),
        ),
        (
            {"CUDA_VISIBLE_DEVICES": "1"},
            "note",
            f"CUDA_VISIBLE_DEVICES=1 in container comfy leaves GPU 2 of this host: {TWO}",
        ),
    ],
)
def test_a_filter_inside_is_explained(machine, variables, state, words):
    made = machine("mi210-4")
    nodes = tuple(RENDER.replace(path=f"/dev/dri/renderD{minor}", minor=minor) for minor in (128, 129))
    made.inside = HEALTHY.replace(nodes=(KFD, *nodes), variables=variables)

    (result,) = made.examine(only=["inside-filters"])

    assert (result.finding.state, result.finding.words) == (state, words)


@pytest.mark.parametrize(("name", "fault"), [("nodes", "/dev/kfd"), ("nodes", "/dev/dri/renderD128")])
def test_a_fault_of_the_host_and_one_of_a_container_are_both_found(machine, name, fault):
    made = machine()
    made.remove(fault)
    made.inside = FAULTS["inside-access"]

    assert made.bad() == [name, "inside-access"]
