"""amd-ctk explain."""

from __future__ import annotations

import json
import os
import shlex
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import load_profile


def test_variables_are_explained_with_the_gpus_they_give(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=2,3", "-e", "HIP_VISIBLE_DEVICES=2")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == (
        "AMD_VISIBLE_DEVICES=2,3  GPUs 2 and 3\n"
        "HIP_VISIBLE_DEVICES=2    hides everything: the container sees 2 GPUs, which HIP counts 0-1\n"
        "GPU  in the container           HIP  unique id             on the host\n"
        "2    /dev/dri/renderD129 card2  -    GPU-6e32f10efc982b4c  0000:43:00.0\n"
        "3    /dev/dri/renderD128 card1  -    GPU-012fe4f7fdaf06b9  0000:63:00.0\n"
        "/dev/kfd 510:0 mode 0666;"
        " rules c 226:2 rw, c 226:129 rw, c 226:1 rw, c 226:128 rw, c 510:0 rw; nothing else is changed\n"
    )


def test_everything_that_is_refused_is_reported_at_once(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=0,7,first")

    assert (answer.returncode, answer.stderr) == (4, "")
    assert answer.stdout == (
        "AMD_VISIBLE_DEVICES=0,7,first  GPU 0; GPU 7 does not exist, this host has GPUs 0-3;"
        " 'first' is not a GPU number, range, unique id or PCI address\n"
        "The container does not start:\n"
        "  AMD_VISIBLE_DEVICES=0,7,first: GPU 7 does not exist, this host has GPUs 0-3"
        " ('amd-ctk gpu list' shows them)\n"
        "  AMD_VISIBLE_DEVICES=0,7,first: 'first' is not a GPU number, range, unique id or PCI address"
        " (write GPUs 0-3)\n"
    )


def test_escape_sequences_of_an_image_do_not_reach_the_terminal(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "config.json").write_text(json.dumps({"process": {"env": [f"DOCKER_RESOURCE_\33]0;{'x' * 99}\a=1"]}}))

    answer = amd_ctk("explain", "--bundle", str(tmp_path))

    assert answer.stdout.splitlines()[0] == f"'DOCKER_RESOURCE_\\x1b]0;{'x' * 40}...'=1  is not counted"


def test_escape_sequences_of_a_compose_file_do_not_reach_the_terminal(host, amd_ctk, tmp_path):
    host()
    path = tmp_path / "compose.yaml"
    path.write_text('services: {web: {image: "i\\e[2J", runtime: "r\\nnote: all is well"}, "s\\e[2J": {}}')

    answer = amd_ctk("explain", str(path), "web")
    missing = amd_ctk("explain", str(path), "db")

    assert answer.stdout.splitlines()[-1] == "note: the environment of the image i?[2J is not known here"
    assert "note: all is well" not in answer.stdout.splitlines()
    assert missing.stderr == f"{path} has no service db (it has web, s?[2J)\n"


def test_a_broken_compose_file_is_named_in_words_that_a_terminal_shows(host, amd_ctk, tmp_path):
    host()
    path = tmp_path / "compose.yaml"
    path.write_text('"a\\e[2J": 1\n"a\\e[2J": 2\n')

    answer = amd_ctk("explain", str(path), "web")

    assert answer.stderr.startswith(f"{path}:2:1: ")
    assert answer.stderr.endswith("\n")
    assert answer.stderr.strip().isprintable()


def test_a_bundle_that_is_nested_too_deeply_is_refused(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "config.json").write_text('{"a":' * 600 + "1" + "}" * 600)

    answer = amd_ctk("explain", "--bundle", str(tmp_path))

    assert (answer.stdout, answer.stderr) == ("", "the container's config.json is nested too deeply\n")


def test_a_container_of_a_slurm_job_can_have_the_gpus_of_the_job(host, amd_ctk):
    slurm = Path(host().path("/etc/slurm/gres.conf"))
    slurm.parent.mkdir()
    slurm.write_text("".join(f"Name=gpu File=/dev/dri/renderD{minor}\n" for minor in (130, 131, 129, 128)))

    answer = amd_ctk("explain", "-e", "SLURM_STEP_GPUS=2,3", "-e", "ROCR_VISIBLE_DEVICES=2,3")

    assert answer.stdout.splitlines()[:2] == [
        "SLURM_STEP_GPUS=2,3       the container can have only the GPUs of this Slurm job",
        "ROCR_VISIBLE_DEVICES=2,3  is taken out of the environment: it would choose a second time among the job's GPUs",
    ]
    assert [line.split()[::3] for line in answer.stdout.splitlines()[3:5]] == [["3", "0"], ["2", "1"]]


def test_docker_run_without_the_runtime_gives_nothing(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "--", "docker", "run", "--rm", "-it", "-e", "AMD_VISIBLE_DEVICES=0", "img", "-e", "x")

    assert answer.stdout == (
        "AMD_VISIBLE_DEVICES=0  is not read\n"
        "The container gets no GPU\n"
        "config.json is not changed\n"
        "problem: AMD_VISIBLE_DEVICES is not read: the container runs under runc: add --runtime=amd\n"
        "note: the environment of the image img is not known here\n"
    )


def test_a_gpu_that_does_not_exist_is_named_also_where_nothing_reads_the_request(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "--", "docker", "run", "-e", "AMD_VISIBLE_DEVICES=9", "img")

    assert answer.returncode == 1
    assert answer.stdout.splitlines()[0] == (
        "AMD_VISIBLE_DEVICES=9  is not read; GPU 9 does not exist, this host has GPUs 0-3"
    )


@pytest.mark.parametrize(("asked", "code"), [("0", 1), ("all", 1), ("none", 0), ("", 0)])
def test_the_exit_code_says_that_a_container_lacks_the_gpus_it_asks_for(host, amd_ctk, asked, code):
    host()

    assert amd_ctk("explain", "docker", "run", "-e", f"AMD_VISIBLE_DEVICES={asked}", "img").returncode == code


def test_a_rule_for_every_gpu_without_a_node_gives_none_that_can_be_used(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "--json", "docker", "run", "--device-cgroup-rule", "c 226:* rwm", "img")

    told = json.loads(answer.stdout)
    assert told["spec"]["linux"]["resources"]["devices"] == [
        {"allow": False, "access": "rwm"},
        {"allow": True, "type": "c", "major": 226, "minor": -1, "access": "rwm"},
    ]
    assert answer.returncode == 1


def test_a_rule_that_is_none_stops_the_start(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "docker", "run", "--device-cgroup-rule=c 226", "img")

    assert "  --device-cgroup-rule 'c 226': this is not a rule (write it as 'c 226:* rwm')" in answer.stdout


@pytest.mark.parametrize(
    ("engine", "device", "paths", "access"),
    [
        ("docker", "/dev/dri/renderD128:/dev/gpu:r", ["/dev/gpu"], "r"),
        ("docker", "/dev/dri/renderD128:rw", ["/dev/dri/renderD128"], "rw"),
        ("docker", "/dev/dri/renderD128:/dev/gpu", ["/dev/gpu"], "rwm"),
        ("docker", "/dev/dri/", None, "rwm"),
        ("podman", "/dev/dri/:/dev/gpus", None, "rwm"),
    ],
)
def test_a_device_keeps_its_place_and_its_access(host, amd_ctk, engine, device, paths, access):
    host()

    answer = amd_ctk("explain", "--json", engine, "run", f"--device={device}", "img")

    linux = json.loads(answer.stdout)["spec"]["linux"]
    directory = "/dev/gpus" if engine == "podman" else "/dev/dri"
    names = ["card0", "card1", "card2", "card3", "card4", "renderD128", "renderD129", "renderD130", "renderD131"]
    assert [node["path"] for node in linux["devices"]] == (paths or [f"{directory}/{name}" for name in names])
    assert {rule["access"] for rule in linux["resources"]["devices"][1:]} == {access}


def test_a_name_that_two_files_define_stops_the_start(host, amd_ctk, tmp_path):
    made = Path(host().path("/etc/cdi"))
    amd_ctk("cdi", "generate")
    (made / "copy.json").write_bytes((made / "amd.json").read_bytes())

    answer = amd_ctk("explain", "docker", "run", "--device=amd.com/gpu=0", "img")

    assert answer.returncode == 1
    assert f"no engine can resolve this name, which {made}/amd.json and {made}/copy.json define" in answer.stdout


def test_the_hook_of_a_cdi_spec_refuses_an_image_in_explain_too(host, amd_ctk):
    host()
    amd_ctk("cdi", "generate")

    answer = amd_ctk("explain", "docker", "run", "-e", "AMD_REQUIRE_GFX=gfx=gfx942", "--device=amd.com/gpu=0", "img")

    assert answer.returncode == 10
    assert "  AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a (AMD_DISABLE_REQUIRE=true starts it anyway)" in answer.stdout


def test_an_option_that_is_not_read_and_may_count_is_named(host, amd_ctk):
    host()
    options = ("-v", "/dev/dri:/dev/dri", "-v", "/data:/data", "--security-opt=x", "--volumes-from=y", "--memory=1g")

    answer = amd_ctk("explain", "docker", "run", *options, "img", PATH="/nowhere")

    assert [line for line in answer.stdout.splitlines() if "is not read here" in line] == [
        "note: --volumes-from is not read here, and may change which GPUs the container gets",
    ]


def test_a_runtime_that_docker_does_not_have_stops_the_start(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "docker", "run", "--runtime=amd", "-e", "AMD_VISIBLE_DEVICES=0", "img")

    assert answer.returncode == 1
    assert "docker has no runtime amd (run 'sudo amd-ctk runtime configure'" in answer.stdout


def test_the_default_runtime_of_docker_counts(host, amd_ctk):
    host()
    program = "/usr/bin/amd-container-runtime"
    amd_ctk("runtime", "configure", "--set-as-default", f"--runtime-path={program}", "--no-validate")

    answer = amd_ctk("explain", "docker", "run", "-e", "AMD_VISIBLE_DEVICES=0", "img")

    assert answer.stdout.startswith("AMD_VISIBLE_DEVICES=0  GPU 0\n")


@pytest.mark.needs("root")
def test_a_cdi_device_gives_what_the_spec_says(host, amd_ctk):
    host()
    amd_ctk("cdi", "generate")

    answer = amd_ctk("explain", "podman", "run", "--device", "amd.com/gpu=1", "--user=1000", "img")

    assert answer.returncode == 0
    assert answer.stdout == (
        "GPU  in the container           HIP  unique id             on the host\n"
        "1    /dev/dri/renderD131 card4  0    GPU-89caa15875ff5a43  0000:26:00.0\n"
        "config.json is not changed\n"
        "note: the environment of the image img is not known here\n"
    )


def test_a_device_that_no_spec_has_stops_the_start(host, amd_ctk):
    host()
    amd_ctk("cdi", "generate")

    answer = amd_ctk("explain", "podman", "run", "--device=amd.com/gpu=1", "--device=amd.com/gpu=9", "img")

    assert answer.returncode == 1
    assert answer.stdout == (
        "The container does not start:\n"
        "  --device amd.com/gpu=9: no CDI spec of this host has this device"
        " ('amd-ctk cdi list --specs' shows them all; 'sudo amd-ctk cdi generate' writes those of AMD)\n"
        "note: the environment of the image img is not known here\n"
    )


def test_a_node_that_the_host_does_not_have_stops_the_start(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "--device", "/dev/nosuch", "-e", "AMD_VISIBLE_DEVICES=9")

    assert answer.returncode == 1
    assert answer.stdout.splitlines()[1:3] == [
        "The container does not start:",
        "  --device /dev/nosuch: this host has no such device",
    ]


def test_a_path_that_no_file_can_have_is_a_device_that_is_not_there(host, amd_ctk):
    host()

    answer = amd_ctk("explain", f"--device=/{'a' * 300}", "-e", "AMD_VISIBLE_DEVICES=9")

    assert answer.stdout.splitlines()[1:3] == [
        "The container does not start:",
        f"  --device /{'a' * 300}: this host has no such device",
    ]


def test_no_link_below_a_directory_is_followed(host, amd_ctk):
    made = host()
    before = amd_ctk("explain", "--json", "--device=/dev/dri").stdout
    os.symlink("..", made.path("/dev/dri/loop"))

    assert amd_ctk("explain", "--json", "--device=/dev/dri").stdout == before


def test_a_directory_with_too_many_files_is_refused(host, amd_ctk):
    made = host()
    many = made.path("/dev/many")
    os.mkdir(many)
    for number in range(10_001):
        os.mknod(f"{many}/{number}")

    answer = amd_ctk("explain", "--device=/dev/many")

    assert answer.returncode == 1
    assert answer.stdout.splitlines()[2] == (
        "  /dev/many: there are more than 10,000 files below this directory"
        " (name the device nodes, as in --device /dev/kfd --device /dev/dri)"
    )


DEVICES = "--device=/dev/kfd --device=/dev/dri/renderD128"
USED = "3    /dev/dri/renderD128  0    GPU-012fe4f7fdaf06b9  0000:63:00.0"
UNUSED = USED.replace("  0  ", "  -  ")
CLOSED = (
    "problem: user 1000 with groups {} may not open /dev/kfd, which is 0660 0:110: "
    "use --runtime=amd, or add --group-add 110"
)
NO_KFD = (
    "problem: the container has no /dev/kfd: give it /dev/kfd too, or start it with --runtime=amd"
    " -e AMD_VISIBLE_DEVICES=all"
)
A_NAME = "note: --group-add video is a name in the image, which is not read here: use its number"


@pytest.mark.parametrize(
    ("words", "row", "said"),
    [
        (f"{DEVICES} --user 1000", UNUSED, [CLOSED.format("0")]),
        (f"{DEVICES} --user 1000:7 --group-add 44", UNUSED, [CLOSED.format("7 44")]),
        (f"{DEVICES} --user 1000 --group-add 110", USED, []),
        (f"{DEVICES} --user 1000:110", USED, []),
        # Docker refuses the container if its image has no such group.
        (f"{DEVICES} --group-add video", USED, [A_NAME]),
        (f"{DEVICES} --user 1000 --group-add video", USED, [A_NAME]),
        (f"{DEVICES} --user root", USED, []),
        ("--device=/dev/dri/renderD128", UNUSED, [NO_KFD]),
    ],
)
@pytest.mark.needs("root")
def test_a_node_that_the_engine_passes_is_judged_as_by_the_kernel(host, amd_ctk, words, row, said):
    host()

    answer = amd_ctk("explain", "docker", "run", *words.split(), "img", PATH="/nowhere")

    assert answer.returncode == (0 if row is USED else 1)
    assert answer.stdout.splitlines()[1:] == [
        row,
        "config.json is not changed",
        *said,
        "note: the environment of the image img is not known here",
    ]


@pytest.mark.parametrize(
    ("words", "inside"),
    [
        ("--device=/dev/dri/renderD128:/dev/gpu:r", "/dev/gpu        "),
        ("--device=/dev/dri/card1", "/dev/dri/card1  "),
        ("--device=/dev/dri/renderD128 --device=/dev/dri/card1", "/dev/dri/renderD128 card1"),
        ("--device=/dev/dri/renderD128 --device=/dev/dri/card1:/dev/card", "/dev/dri/renderD128 /dev/card"),
        ("-v /dev/dri:/dev/dri --device-cgroup-rule c\\ 226:128\\ rw", "/dev/dri/renderD128"),
        # The container may make the node that it has not.
        ("--device-cgroup-rule c\\ 226:128\\ rw", "no node         "),
    ],
)
def test_a_gpu_is_shown_by_the_nodes_that_the_container_has_of_it(host, amd_ctk, words, inside):
    host()

    answer = amd_ctk("explain", "docker", "run", *shlex.split(words), "img", PATH="/nowhere")

    assert answer.stdout.splitlines()[1] == f"3    {inside}  -    GPU-012fe4f7fdaf06b9  0000:63:00.0"


@pytest.mark.needs("root")
def test_the_runtimes_own_nodes_are_open_to_every_user_and_the_engines_keep_their_mode(host, amd_ctk):
    host()
    asked = ("explain", "--user", "1000", "-e", "AMD_VISIBLE_DEVICES=3")

    opened = amd_ctk(*asked)
    closed = amd_ctk(*asked, "--device=/dev/kfd")

    assert opened.stdout.splitlines()[2] == USED.replace("renderD128", "renderD128 card1")
    assert "problem" not in opened.stdout
    assert closed.stdout.splitlines()[2] == UNUSED.replace("renderD128", "renderD128 card1")
    assert closed.stdout.splitlines()[-1] == (
        "problem: user 1000 with groups 0 may not open /dev/kfd, which is 0660 0:110: leave out --device /dev/kfd"
    )


LONG_FORM = "services: {rocm: {devices: [{source: /dev/kfd, target: /dev/kfd}, /dev/dri/renderD130]}}"


@pytest.mark.parametrize("words", [["docker", "run", "--device=/dev/kfd:/dev/kfd:r", "--device=/dev/dri", "x"], []])
def test_a_node_that_the_device_cgroup_closes_gives_no_gpu_that_can_be_used(host, amd_ctk, tmp_path, words):
    host()
    (tmp_path / "compose.yaml").write_text(LONG_FORM)

    answer = amd_ctk("explain", *(["--", *words] if words else [str(tmp_path / "compose.yaml"), "rocm"]))

    assert answer.returncode == 1
    assert "problem: the device cgroup denies reading and writing /dev/kfd: give it the access rw\n" in answer.stdout


def test_kfd_alone_gives_no_gpu_and_says_why(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "--device", "/dev/kfd")

    assert answer.stdout.splitlines()[1:] == [
        "The container gets no GPU",
        "config.json is not changed",
        (
            "problem: the container has /dev/kfd and no render node:"
            " start it with --runtime=amd -e AMD_VISIBLE_DEVICES=all"
        ),
    ]


@pytest.mark.parametrize("runtime", ["runc", "/usr/bin/amd-container-runtime"])
def test_a_privileged_container_gets_every_gpu(host, amd_ctk, runtime):
    host()

    answer = amd_ctk("explain", "docker", "run", "--privileged", f"--runtime={runtime}", "img", PATH="/nowhere")

    rows = [line.split() for line in answer.stdout.splitlines() if "/dev/dri/renderD" in line]
    assert [(row[0], row[3]) for row in rows] == [("3", "0"), ("2", "1"), ("0", "2"), ("1", "3")]
    assert "note: a privileged container can use every GPU of the host, whatever it asks for" in answer.stdout


def test_a_privileged_container_that_names_a_gpu_lists_each_once(host, amd_ctk):
    host()
    words = (
        "docker",
        "run",
        "--privileged",
        "--runtime=/usr/bin/amd-container-runtime",
        "-e",
        "AMD_VISIBLE_DEVICES=1",
        "i",
    )

    answer = amd_ctk("explain", *words, PATH="/nowhere")

    assert [line.split()[0] for line in answer.stdout.splitlines() if "/dev/dri/" in line] == ["3", "2", "0", "1"]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        # There is no device cgroup without root.
        (
            "podman run --device=amd.com/gpu=1 --group-add=keep-groups",
            "rocm-smi inside lists 4 GPUs, but only 1 can be used",
        ),
        (
            "docker run --device=/dev/kfd --device=/dev/dri/renderD128 --device-cgroup-rule='c 226:129 rw'",
            "rocm-smi inside lists 2 GPUs, but only 1 can be used",
        ),
        ("podman run --device=amd.com/gpu=1", None),
        ("docker run --device=/dev/kfd --device=/dev/dri/renderD128 --device-cgroup-rule='c 226:129 r'", None),
        ("docker run --privileged", None),
        ("docker run", None),
        # Why none can be used is said already.
        ("docker run --device=/dev/dri", None),
    ],
)
def test_explain_notes_that_rocm_smi_lists_gpus_that_the_container_cannot_open(host, amd_ctk, words, note):
    host()
    amd_ctk("cdi", "generate")

    answer = amd_ctk("explain", "--", *shlex.split(words), "img", PATH="/nowhere")

    assert [line for line in answer.stdout.splitlines() if "rocm-smi" in line] == ([f"note: {note}"] if note else [])


@pytest.mark.needs("root")
def test_a_privileged_container_of_another_user_is_judged_too(host, amd_ctk):
    host()

    answer = amd_ctk("explain", "docker", "run", "--privileged", "--user=1000", "img", PATH="/nowhere")

    assert CLOSED.format("0") in answer.stdout.splitlines()
    assert "can use every GPU" not in answer.stdout


def test_a_cdi_device_of_a_target_gives_every_gpu_of_it(host, amd_ctk):
    host("rx7900xtx-raphael")
    amd_ctk("cdi", "generate", "--by-model")

    answer = amd_ctk("explain", "podman", "run", "--device", "amd.com/gpu=gfx1100", "img")

    assert [line.split()[0] for line in answer.stdout.splitlines()[1:2]] == ["0"]
    assert "problem" not in answer.stdout


def test_an_image_is_held_against_the_gpus_that_its_engine_gives_too(host, amd_ctk):
    host("mi210-4")
    amd_ctk("runtime", "configure", "--runtime-path=/usr/bin/amd-container-runtime", "--no-validate")
    given = ("--runtime=amd", "--device=/dev/kfd", "--device=/dev/dri/renderD130", "-eAMD_REQUIRE_GFX=gfx=gfx942")

    refused = amd_ctk("explain", "docker", "run", *given, "img")

    assert refused.returncode == 10
    assert "AMD_REQUIRE_GFX=gfx=gfx942: GPU 0 is gfx90a (AMD_DISABLE_REQUIRE=true starts it anyway)" in refused.stdout


def test_an_image_for_another_gpu_is_refused_as_it_would_be(host, amd_ctk):
    host("mi210-4")
    amd_ctk("runtime", "configure", "--runtime-path=/usr/bin/amd-container-runtime", "--no-validate")
    asking = ("explain", "docker", "run", "--runtime=amd", "-eAMD_VISIBLE_DEVICES=1", "-eAMD_REQUIRE_GFX=gfx=gfx942")

    refused = amd_ctk(*asking, "img")
    anyway = amd_ctk(*asking, "-e", "AMD_DISABLE_REQUIRE=true", "img")

    sentence = "AMD_REQUIRE_GFX=gfx=gfx942: GPU 1 is gfx90a (AMD_DISABLE_REQUIRE=true starts it anyway)"
    assert sentence in refused.stdout
    assert anyway.stdout.startswith("AMD_VISIBLE_DEVICES=1  GPU 1\n")
    assert "does not start" not in anyway.stdout


def test_a_service_of_compose_is_explained(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "compose.yaml").write_text("services: {web: {image: img, devices: [/dev/kfd, /dev/dri/renderD128]}}")

    answer = amd_ctk("explain", tmp_path / "compose.yaml", "web")

    assert answer.stdout.splitlines()[1] == ("3    /dev/dri/renderD128  0    GPU-012fe4f7fdaf06b9  0000:63:00.0")


def test_an_exclusive_gpu_in_use_is_refused_without_a_trace(host, amd_ctk):
    tracker = Tracker(host())
    tracker.enable()
    tracker.set_accessibility("0", exclusive=True)
    tracker.reserve("0", name="job")

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=0,1")

    assert answer.returncode == 1
    assert "  GPUs [0] are exclusive and already in use\n" in answer.stdout
    assert "  GPU 0 is in use by job job\n" in answer.stdout
    assert not tracker.refusals()


def test_a_bundle_that_was_edited_already_is_explained_as_it_was(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "config.json").write_text(json.dumps({"process": {"env": ["AMD_VISIBLE_DEVICES=1"]}}))

    answer = amd_ctk("explain", "--bundle", tmp_path, "--json")

    explained = json.loads(answer.stdout)
    assert explained["starts"] is True
    assert explained["gpus"] == [
        {
            "number": 1,
            "given_by": "runtime",
            "render_node": "/dev/dri/renderD131",
            "card_node": "/dev/dri/card4",
            "hip": 0,
            "unique_id": "GPU-89caa15875ff5a43",
            "pci_address": "0000:26:00.0",
            "partition_rank": 0,
        }
    ]
    assert [device["path"] for device in explained["spec"]["linux"]["devices"]] == [
        "/dev/dri/card4",
        "/dev/dri/renderD131",
        "/dev/kfd",
    ]


def test_without_a_driver_the_refusal_is_the_runtimes(host, amd_ctk):
    host("no-driver")

    answer = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=all")

    assert answer.returncode == 1
    assert "amdgpu driver unavailable" in answer.stdout


def test_words_that_are_no_command_are_refused(host, amd_ctk):
    host()

    assert amd_ctk("explain", "run", "it", "now").returncode == 2
    assert amd_ctk("explain", "--container", "nobody").stderr.startswith("no container nobody is running")


@pytest.fixture
def engine(tmp_path):
    """Return a function that makes a docker which says what an image has, and PATH with it."""

    def make(environment, **settings):
        program = tmp_path / "bin/docker"
        program.parent.mkdir()
        config = json.dumps({"Env": environment, **settings})
        program.write_text(f"#!/bin/sh\n[ \"$1 $2\" = 'image inspect' ] && echo '{config}'\n")
        program.chmod(0o755)
        return {"PATH": f"{program.parent}:/usr/bin:/bin"}

    return make


def test_variables_of_the_image_come_from_its_engine(host, amd_ctk, engine):
    host()
    program = "/usr/bin/amd-container-runtime"
    amd_ctk("runtime", "configure", f"--runtime-path={program}", "--no-validate")
    environment = engine(["AMD_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=0"])

    answer = amd_ctk("explain", "docker", "run", "--runtime=amd", "-e", "HIP_VISIBLE_DEVICES=", "img", **environment)

    assert answer.stdout == (
        "AMD_VISIBLE_DEVICES=1  GPU 1\n"
        "HIP_VISIBLE_DEVICES=   hides nothing: the container sees one GPU, which HIP counts 0;"
        " newer releases of HIP hide everything: leave it out\n"
        "GPU  in the container           HIP  unique id             on the host\n"
        "1    /dev/dri/renderD131 card4  0    GPU-89caa15875ff5a43  0000:26:00.0\n"
        "/dev/kfd 510:0 mode 0666; rules c 226:4 rw, c 226:131 rw, c 510:0 rw; nothing else is changed\n"
    )


USER_OF_IMAGE = "note: USER {} is a name in the image, which is not read here: use its number"


# Docker 20.10.24 and Podman 4.3.1 print with `id` in such a container: uid and gid as here, gid 0 if none is named.
@pytest.mark.parametrize(
    ("user", "option", "row", "said"),
    [
        ("10001:999", "", UNUSED, [CLOSED.replace("1000", "10001").format("999")]),
        ("10001", "", UNUSED, [CLOSED.replace("1000", "10001").format("0")]),
        ("10001:110", "", USED, []),
        ("10001:999", "--group-add 110", USED, []),
        ("10001:999", "--user 0", USED, []),
        ("app", "", USED, [USER_OF_IMAGE.format("app")]),
        ("app:render", "", USED, [USER_OF_IMAGE.format("app:render")]),
        ("root", "--user 1000", UNUSED, [CLOSED.format("0")]),
        (":999", "", USED, []),
        ("", "", USED, []),
    ],
)
@pytest.mark.parametrize("asked", ["docker run", "compose"])
@pytest.mark.needs("root")
def test_the_user_of_the_image_opens_the_nodes(host, amd_ctk, engine, tmp_path, user, option, row, said, asked):
    host()
    environment = engine([], User=user)
    words = ["docker", "run", *DEVICES.split(), *option.split(), "img"]
    if asked == "compose":
        more = {"--user 0": ", user: 0", "--user 1000": ", user: 1000", "--group-add 110": ", group_add: [110]"}
        devices = "[/dev/kfd, /dev/dri/renderD128]"
        text = f"services: {{web: {{image: img, devices: {devices}{more.get(option, '')}}}}}"
        (tmp_path / "compose.yaml").write_text(text)
        words = [str(tmp_path / "compose.yaml"), "web"]

    answer = amd_ctk("explain", *words, **environment)

    assert answer.stdout.splitlines()[1:] == [row, "config.json is not changed", *said]


@pytest.mark.parametrize("profile", ["mi210-4", "mi300x-8-cpx", "strix-halo", "no-driver"])
@pytest.mark.parametrize(
    "words",
    [
        "-e AMD_VISIBLE_DEVICES=all",
        "-e AMD_VISIBLE_DEVICES=0,99,x",
        "-- docker run --gpus all img",
        "--device /dev/kfd",
    ],
)
def test_json_is_what_the_shipped_schema_says(host, amd_ctk, profile, words):
    host(profile)
    schema = json.loads(files("amd_ctk").joinpath("explain/schema/explain.json").read_text(encoding="utf-8"))

    answer = amd_ctk("explain", "--json", *words.split(), PATH="/nowhere")

    jsonschema.validate(json.loads(answer.stdout), schema)


@pytest.mark.parametrize(
    ("said", "note"),
    [
        (
            {"ras/umc_err_count": "ue: 3"},
            "note: GPU 2 at 0000:43:00.0 is suspect: 3 uncorrectable errors since the driver was loaded",
        ),
        (
            {"gpu_busy_percent": "[EIO]"},
            "note: GPU 2 at 0000:43:00.0 is sick: reading gpu_busy_percent ends with an I/O error",
        ),
    ],
)
def test_a_gpu_that_is_not_well_is_noted_for_who_gets_it(host, amd_ctk, said, note):
    plain = load_profile("mi210-4")
    position = next(at for at, gpu in enumerate(plain.gpus) if gpu.pci_address == "0000:43:00.0")
    host(plain.with_gpu(position, health=said))

    assert note in amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=2").stdout.splitlines()
    assert note not in amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=0,1").stdout.splitlines()


def test_all_names_the_gpus_that_it_leaves_out(host, amd_ctk):
    host()
    amd_ctk("gpu-tracker", "enable")
    amd_ctk("gpu-tracker", "drain", "0,2")

    whole = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=all").stdout.splitlines()
    named = amd_ctk("explain", "-e", "AMD_VISIBLE_DEVICES=all,0").stdout.splitlines()

    left_out = "AMD_VISIBLE_DEVICES=all  GPUs 1 and 3, without GPUs 0 and 2 (drained, sick or integrated)"
    assert whole[0] == left_out
    assert [line.split()[0] for line in whole if "/dev/dri/" in line] == ["3", "1"]
    assert named[0] == "AMD_VISIBLE_DEVICES=all,0  GPUs 0, 1 and 3, without GPU 2 (drained, sick or integrated)"
