"""`create`: a container gets all the GPUs it asks for, or a sentence and nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import hide_gpus, load_profile

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
needs_user_namespaces = pytest.mark.skipif(
    subprocess.run(["unshare", "--user", "true"], capture_output=True, check=False).returncode != 0,
    reason="this machine makes no user namespaces",
)
FOUR_GPUS = "this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"


def test_the_spec_is_edited_and_nothing_else(runtime):
    group = os.stat(runtime.host.path("/dev/kfd")).st_gid
    cards = os.stat(runtime.host.path("/dev/dri/card3")).st_gid
    owner = os.geteuid()
    runtime.write_config(
        "AMD_VISIBLE_DEVICES=0",
        linux={"resources": {"devices": [{"allow": False, "access": "rwm"}], "x-unknown": 1}},
        annotations={"theirs": "kept"},
        futureField={"big": 123456789012345678901234567890},
    )

    answer = runtime.create()

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    devices = [
        {"path": "/dev/dri/card3", "type": "c", "major": 226, "minor": 3, "fileMode": 438, "uid": owner, "gid": cards},
        {
            "path": "/dev/dri/renderD130",
            "type": "c",
            "major": 226,
            "minor": 130,
            "fileMode": 438,
            "uid": owner,
            "gid": group,
        },
        {"path": "/dev/kfd", "type": "c", "major": 510, "minor": 0, "fileMode": 438, "uid": owner, "gid": group},
    ]
    rules = [
        {"allow": True, "type": "c", "major": 226, "minor": 3, "access": "rw"},
        {"allow": True, "type": "c", "major": 226, "minor": 130, "access": "rw"},
        {"allow": True, "type": "c", "major": 510, "minor": 0, "access": "rw"},
    ]
    config = runtime.config
    assert json.loads(config["annotations"].pop("com.amd.container-toolkit.edits")) == {
        "devices": [
            f"/dev/dri/card3 c 226:3 438 {owner} {cards}",
            f"/dev/dri/renderD130 c 226:130 438 {owner} {group}",
            f"/dev/kfd c 510:0 438 {owner} {group}",
        ],
        "rules": ["226:3", "226:130", "510:0"],
    }
    assert config == {
        "ociVersion": "1.2.0",
        "process": {"args": ["sh"], "env": ["PATH=/bin", "AMD_VISIBLE_DEVICES=0"]},
        "linux": {
            "resources": {"devices": [{"allow": False, "access": "rwm"}, *rules], "x-unknown": 1},
            "devices": devices,
        },
        "annotations": {"theirs": "kept"},
        "futureField": {"big": 123456789012345678901234567890},
    }
    assert list(config)[:3] == ["ociVersion", "process", "linux"]


def test_runc_is_called_as_we_were(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0-2")

    runtime.create()

    assert runtime.runc_words == [
        *("--log", str(runtime.log), "--log-format", "json", "create", "--bundle", str(runtime.bundle), "c1")
    ]


def test_the_exit_code_is_runcs(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    assert runtime.create(RUNC_EXIT="42").returncode == 42


@pytest.mark.parametrize("command", ["create", "run", "restore"])
def test_every_way_to_start_gets_its_gpus(runtime, command):
    runtime.write_config("AMD_VISIBLE_DEVICES=1")

    runtime.run(command, "--bundle", runtime.bundle, "c1")

    assert runtime.paths() == ["/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd"]


def test_the_working_directory_is_the_default_bundle(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=1")

    runtime.run("create", "c1", cwd=runtime.bundle)

    assert runtime.paths() == ["/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd"]


def test_a_bundle_called_create_is_a_bundle(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=1")
    runtime.bundle.rename(runtime.bundle.parent / "create")
    runtime.bundle = runtime.bundle.parent / "create"

    runtime.run("create", "--bundle", "create", "c1", cwd=runtime.bundle.parent)

    assert runtime.paths() == ["/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd"]


@pytest.mark.parametrize(
    "variables", [(), ("AMD_VISIBLE_DEVICES=",), ("AMD_VISIBLE_DEVICES=none",), ("AMD_VISIBLE_DEVICES=void",)]
)
def test_a_container_that_asks_for_no_gpu_is_handed_over_untouched(runtime, variables):
    runtime.write_config(*variables)
    before = (runtime.bundle / "config.json").stat().st_ino

    assert runtime.create().returncode == 0
    assert (runtime.bundle / "config.json").stat().st_ino == before
    assert runtime.runc_words is not None


def test_a_second_create_of_the_same_bundle_adds_nothing(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")
    runtime.create()
    once = runtime.config

    runtime.create()

    assert runtime.config == once


def test_a_second_create_for_other_gpus_replaces_the_first(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")
    runtime.create()
    config = runtime.config
    config["process"]["env"] = ["AMD_VISIBLE_DEVICES=3"]
    (runtime.bundle / "config.json").write_text(json.dumps(config))

    runtime.create()

    assert runtime.paths() == ["/dev/dri/card1", "/dev/dri/renderD128", "/dev/kfd"]
    assert len(runtime.config["linux"]["resources"]["devices"]) == 3


def test_a_device_the_user_gave_is_kept(runtime):
    theirs = {"path": "/dev/kfd", "type": "c", "major": 510, "minor": 0, "fileMode": 0o600, "uid": 7, "gid": 7}
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux={"devices": [theirs]})

    runtime.create()

    assert runtime.config["linux"]["devices"][0] == theirs
    assert runtime.paths() == ["/dev/kfd", "/dev/dri/card3", "/dev/dri/renderD130"]


def test_two_requests_leave_the_last_one_in_the_environment(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", "B=1", "AMD_VISIBLE_DEVICES=1")

    runtime.create()

    assert runtime.config["process"]["env"] == ["PATH=/bin", "B=1", "AMD_VISIBLE_DEVICES=1"]
    assert runtime.paths() == ["/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd"]


def test_mode_and_owner_of_the_file_stay(runtime, mode_of):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    (runtime.bundle / "config.json").chmod(0o640)

    runtime.create()

    assert mode_of(runtime.bundle / "config.json") == 0o640
    assert runtime.files() == ["config.json"]


def test_swarms_choice_beats_the_images_and_is_logged(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=all", "DOCKER_RESOURCE_AMD_GPU=0x6E32F10EFC982B4C")

    runtime.create()

    assert runtime.paths() == ["/dev/dri/card2", "/dev/dri/renderD129", "/dev/kfd"]
    assert (
        'level=WARN msg="amd-container-runtime AMD_VISIBLE_DEVICES=all is ignored because DOCKER_RESOURCE_AMD_GPU'
        ' names GPUs" container=c1'
    ) in runtime.own_log


def test_the_hosts_modes_can_be_kept_with_its_groups(runtime):
    group = os.stat(runtime.host.path("/dev/kfd")).st_gid
    cards = os.stat(runtime.host.path("/dev/dri/card3")).st_gid
    runtime.configure(device_mode="host")
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    runtime.create()

    assert [device["fileMode"] for device in runtime.config["linux"]["devices"]] == [0o660, 0o660, 0o660]
    assert runtime.config["process"].get("user", {}).get("additionalGids", []) == sorted({cards, group} - {0})


@needs_user_namespaces
@pytest.mark.parametrize(
    ("mode", "warnings"),
    [
        (
            0o660,
            [
                (
                    'level=WARN msg="amd-container-runtime in this user namespace /dev/dri/card3, /dev/dri/renderD130,'
                    " /dev/kfd keep the host's mode and open only to their group: use crun with '--group-add"
                    ' keep-groups\', or a udev rule that sets MODE=\\"0666\\"" container=c1'
                )
            ],
        ),
        (0o666, []),
    ],
)
def test_rootless_containers_are_warned_of_nodes_they_cannot_open(runtime, mode, warnings):
    for path in ("/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"):
        os.chmod(runtime.host.path(path), mode)
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    runtime.run("create", "--bundle", runtime.bundle, "c1", under=("unshare", "--user", "--map-root-user"))

    assert [line for line in runtime.own_log if line.startswith("level=WARN")] == warnings


USER_NAMESPACE = {"namespaces": [{"type": "pid"}, {"type": "user"}]}


@needs_root
def test_in_a_user_namespace_of_its_own_a_container_gets_nodes_that_all_may_open(runtime, mode_of):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=USER_NAMESPACE)

    assert runtime.create().returncode == 0

    config = runtime.config
    directory = runtime.host.path("/dev/amd-container-toolkit")
    assert config["mounts"] == [
        {"destination": path, "type": "bind", "source": f"{directory}/{number}", "options": ["bind", "rprivate"]}
        for path, number in (("/dev/dri/card3", "226:3"), ("/dev/dri/renderD130", "226:130"), ("/dev/kfd", "510:0"))
    ]
    assert config["linux"] == {
        **USER_NAMESPACE,
        "devices": [],
        "resources": {
            "devices": [
                {"allow": True, "type": "c", "major": major, "minor": minor, "access": "rw"}
                for major, minor in ((226, 3), (226, 130), (510, 0))
            ]
        },
    }
    assert mode_of(directory) == 0o700
    assert sorted(os.listdir(directory)) == ["226:130", "226:3", "510:0"]
    assert [line for line in runtime.own_log if line.startswith("level=WARN")] == []


@needs_root
def test_a_second_create_changes_nothing_and_without_a_namespace_all_is_undone(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=USER_NAMESPACE)
    runtime.create()
    first = runtime.config
    runtime.create()
    assert runtime.config == first

    config = runtime.config
    config["linux"]["namespaces"] = []
    (runtime.bundle / "config.json").write_text(json.dumps(config))
    runtime.create()

    assert runtime.config["mounts"] == []
    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]


@pytest.mark.parametrize(
    ("mode", "settings", "linux"),
    [
        (0o660, {}, {"namespaces": [{"type": "pid"}]}),
        (0o666, {}, USER_NAMESPACE),
        (0o660, {"device_mode": "host"}, USER_NAMESPACE),
    ],
    ids=["no user namespace", "open on the host", "the host's mode is wanted"],
)
def test_no_node_is_made_that_is_not_needed(runtime, mode, settings, linux):
    for path in ("/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"):
        os.chmod(runtime.host.path(path), mode)
    runtime.configure(**settings)
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=linux)

    runtime.create()

    assert "mounts" not in runtime.config
    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
    assert not os.path.exists(runtime.host.path("/dev/amd-container-toolkit"))


@needs_user_namespaces
def test_a_rootless_engine_makes_no_nodes_for_a_container_with_another_namespace(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=USER_NAMESPACE)

    runtime.run("create", "--bundle", runtime.bundle, "c1", under=("unshare", "--user", "--map-root-user"))

    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
    assert "mounts" not in runtime.config
    assert [" in this user namespace " in line for line in runtime.own_log] == [True, False]
    assert not os.path.exists(runtime.host.path("/dev/amd-container-toolkit"))


@needs_root
def test_a_closed_node_that_the_engine_has_put_there_is_reported(runtime):
    kfd = {"path": "/dev/kfd", "type": "c", "major": 510, "minor": 0}
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux={**USER_NAMESPACE, "devices": [kfd]})

    runtime.create()

    assert [mount["destination"] for mount in runtime.config["mounts"]] == ["/dev/dri/card3", "/dev/dri/renderD130"]
    assert runtime.paths() == ["/dev/kfd"]
    assert " in this user namespace /dev/kfd keep the host's mode " in runtime.own_log[0]


@needs_root
def test_root_without_the_right_to_make_nodes_is_told_which_are_closed(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=USER_NAMESPACE)
    without = ("setpriv", "--bounding-set=-mknod", "--inh-caps=-mknod")

    assert runtime.run("create", "--bundle", runtime.bundle, "c1", under=without).returncode == 0

    assert "mounts" not in runtime.config
    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
    assert [" in this user namespace " in line for line in runtime.own_log] == [True, False]


@needs_root
def test_a_directory_for_nodes_that_others_may_enter_ends_the_start(runtime):
    directory = runtime.host.path("/dev/amd-container-toolkit")
    os.mkdir(directory, 0o755)
    runtime.write_config("AMD_VISIBLE_DEVICES=0", linux=USER_NAMESPACE)

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        5,
        (
            f"amd-container-runtime: {directory} is not a directory of mode 0700 that belongs to root"
            " (remove it; the next container with a user namespace makes it)\n"
        ),
    )
    assert runtime.runc_words is None


def test_unknown_gpus_can_be_left_out_with_a_warning(runtime):
    runtime.configure(unknown_gpus="ignore")
    runtime.write_config("AMD_VISIBLE_DEVICES=0,7")

    runtime.create()

    assert runtime.paths() == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
    assert (
        'level=WARN msg="amd-container-runtime AMD_VISIBLE_DEVICES=0,7: GPU 7 does not exist, this host has GPUs 0-3"'
        " container=c1"
    ) in runtime.own_log


@pytest.mark.parametrize(
    ("policy", "capabilities", "paths"),
    [
        ("always", [], ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]),
        ("privileged", ["CAP_SYS_ADMIN"], ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]),
        ("privileged", ["CAP_CHOWN"], []),
        ("never", ["CAP_SYS_ADMIN"], []),
    ],
)
def test_the_administrator_decides_who_may_ask_by_environment(runtime, policy, capabilities, paths):
    runtime.configure(visible_devices_env=policy)
    runtime.write_config(
        process={"env": ["AMD_VISIBLE_DEVICES=0"], "capabilities": {"bounding": capabilities}},
    )

    assert runtime.create().returncode == 0
    assert runtime.paths() == paths


def test_the_level_of_the_log_is_the_administrators(runtime):
    runtime.configure(log_level="error", log_file=runtime.host.path("/var/log/other.log"))
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    runtime.create()

    assert runtime.own_log == []
    assert not os.path.exists(runtime.host.path("/var/log/other.log"))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("7", f"AMD_VISIBLE_DEVICES=7: GPU 7 does not exist, {FOUR_GPUS}"),
        ("0-9999999999", f"AMD_VISIBLE_DEVICES=0-9999999999: GPUs 4-9999999999 do not exist, {FOUR_GPUS}"),
        ("3-1", "AMD_VISIBLE_DEVICES=3-1: '3-1' is not a range of GPUs (write 1-3)"),
        (
            "1-",
            "AMD_VISIBLE_DEVICES=1-: '1-' is not a range of GPUs (write the first and the last number, such as 0-2)",
        ),
        (
            "0x1234",
            (
                "AMD_VISIBLE_DEVICES=0x1234: no GPU has the unique id 0x1234, this host has 0xEA35F57CC80DEB35,"
                " 0x89CAA15875FF5A43, 0x6E32F10EFC982B4C, 0x12FE4F7FDAF06B9 ('amd-ctk gpu list' shows them)"
            ),
        ),
        (
            "0000:99:00.0",
            (
                "AMD_VISIBLE_DEVICES=0000:99:00.0: no GPU is at PCI address 0000:99:00.0, this host has 0000:03:00.0,"
                " 0000:26:00.0, 0000:43:00.0, 0000:63:00.0 ('amd-ctk gpu list' shows them)"
            ),
        ),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_everywhere_people_look(runtime, value, sentence):
    runtime.write_config(f"AMD_VISIBLE_DEVICES={value}")
    before = (runtime.bundle / "config.json").read_bytes()

    answer = runtime.create()

    assert answer.returncode == 4
    assert answer.stderr == f"amd-container-runtime: {sentence}\n"
    (line,) = runtime.reported
    assert (line["level"], line["msg"]) == ("error", f"amd-container-runtime: {sentence}")
    assert runtime.runc_words is None
    assert (runtime.bundle / "config.json").read_bytes() == before
    assert runtime.files() == ["config.json"]
    assert runtime.own_log[-1].startswith("level=ERROR msg=")


@pytest.mark.parametrize("value", [" 0 , 1 ", "1,0,1", "0-1"])
def test_white_space_and_duplicates_are_forgiven(runtime, value):
    runtime.write_config(f"AMD_VISIBLE_DEVICES={value}")

    runtime.create()

    assert runtime.paths() == [
        *("/dev/dri/card3", "/dev/dri/renderD130", "/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd")
    ]


def test_without_a_driver_a_request_is_refused(runtime_on):
    runtime = runtime_on("no-driver")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        1,
        (
            "amd-container-runtime: amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
            " (load it with 'sudo modprobe amdgpu', or install it)\n"
        ),
    )


def test_a_gpu_that_kfd_does_not_list_is_refused_for_that_reason(runtime_on):
    runtime = runtime_on(load_profile("rx7900xtx-raphael").with_gpu(1, partitions=0))
    runtime.write_config("AMD_VISIBLE_DEVICES=0000:6d:00.0")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        4,
        (
            "amd-container-runtime: AMD_VISIBLE_DEVICES=0000:6d:00.0: the GPU at 0000:6d:00.0 has no number because the"
            " kernel's compute driver (KFD) does not list it ('amd-ctk gpu list' shows the GPUs that containers can"
            " have)\n"
        ),
    )


@pytest.mark.parametrize(
    "variable", ["AMD_VISIBLE_DEVICES=none", "DOCKER_RESOURCE_FPGA=dc0", "DOCKER_RESOURCE_FPGA=0x1234"]
)
def test_without_a_driver_other_containers_start(runtime_on, variable):
    runtime = runtime_on("no-driver")
    runtime.write_config(variable)

    assert runtime.create().returncode == 0


def test_a_missing_node_refuses_the_container(runtime):
    os.unlink(runtime.host.path("/dev/kfd"))
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        1,
        (
            "amd-container-runtime: /dev/kfd is missing although the driver has this device"
            " (udev makes it: 'sudo udevadm trigger --action=add --subsystem-match=kfd')\n"
        ),
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"{", "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        (b"[" * 100_000, "is not JSON: it is nested too deeply"),
        (b"[]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b'{"process": null}', "is not a spec: its 'process' is not an object"),
        (b'{"process": {"env": [7]}}', "is not a spec: entry 0 of its 'process.env' is not a string"),
        (
            b'{"process": {"env": ["AMD_VISIBLE_DEVICES=0"]}, "linux": 7}',
            "is not a spec: its 'linux' is not an object",
        ),
        (
            b'{"linux": {"devices": [{"major": 226, "minor": [1]}]}}',
            "is not a spec: its 'linux.devices[0].minor' is not a number",
        ),
        (b'{"linux": {"namespaces": 5}}', "is not a spec: its 'linux.namespaces' is not a list"),
        (
            b'{"hooks": {"createRuntime": [{"args": 5}]}}',
            "is not a spec: its 'hooks.createRuntime[0].args' is not a list",
        ),
        (
            b'{"linux": {"resources": {"devices": [{"allow": true, "Major": 226}]}}}',
            "is not a spec: its key 'Major' in 'linux.resources.devices[0]' is not written 'major' (runtimes differ",
        ),
        (
            b'{"linux": {"devices": [{"major": 226, "major": 5}]}}',
            "is not a spec: its key 'major' is given twice in one object (runtimes differ in which one they use)",
        ),
    ],
)
def test_a_broken_config_is_named_and_left_as_it_is(runtime, content, complaint):
    path = runtime.bundle / "config.json"
    path.write_bytes(content)

    answer = runtime.create()

    assert answer.returncode in (5, 6)
    assert answer.stderr.startswith(f"amd-container-runtime: the bundle's {path} {complaint}")
    assert answer.stderr.count("\n") == 1
    assert path.read_bytes() == content
    assert runtime.runc_words is None


def test_a_missing_bundle_is_named(runtime):
    answer = runtime.run("create", "--bundle", "/nowhere/bundle", "c1")

    assert (answer.returncode, answer.stderr) == (
        5,
        (
            "amd-container-runtime: the bundle's /nowhere/bundle/config.json cannot be read: it does not exist"
            " (name the bundle's directory with --bundle)\n"
        ),
    )


READ_ONLY = """mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@" """


@pytest.mark.skipif(
    subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True, check=False
    ).returncode,
    reason="this machine makes no user namespaces, in which anybody may mount",
)
def test_a_bundle_on_a_read_only_file_system_is_named(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    before = (runtime.bundle / "config.json").read_bytes()

    answer = runtime.run(
        *("create", "--bundle", runtime.bundle, "c1"),
        under=("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh", runtime.bundle),
    )

    assert (answer.returncode, answer.stderr) == (
        5,
        f"amd-container-runtime: {runtime.bundle}/config.json cannot be written: the file system is read-only\n",
    )
    assert (runtime.bundle / "config.json").read_bytes() == before
    assert runtime.files() == ["config.json"]
    assert runtime.runc_words is None


def test_a_number_that_cannot_be_written_again_is_named(runtime):
    content = b'{"process": {"env": ["AMD_VISIBLE_DEVICES=0"]}, "x": 1e999}'
    (runtime.bundle / "config.json").write_bytes(content)

    answer = runtime.create()

    assert answer.returncode == 5
    assert answer.stderr.startswith(
        f"amd-container-runtime: the bundle's {runtime.bundle}/config.json contains values that cannot be written"
        " again: Out of"
    )
    assert (runtime.bundle / "config.json").read_bytes() == content
    assert runtime.files() == ["config.json"]


def test_a_message_never_takes_dockers_exit_codes(runtime):
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    (runtime.bundle / "config.json").unlink()

    message = runtime.create().stderr

    assert "no such file or directory" not in message.lower()
    assert "permission denied" not in message.lower()


def test_an_error_is_printed_even_if_the_claim_cannot_be_given_back(runtime):
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    # The bundle can be written, and then neither put in place nor, later, can the lease be read.
    broken = (
        "import amd_container_runtime.create as b, amd_gpu_tracker.claims.container as c;"
        " b.put_in_place = lambda *_: exec('raise OSError(28, \"No space left on device\")');"
        " c.withdraw = lambda *_: exec('raise OSError(5, \"Input/output error\")');"
    )

    answer = subprocess.run(
        [
            *(sys.executable, "-I", "-c", f"{broken} from amd_container_runtime.shim import main; main()"),
            *("create", "--bundle", str(runtime.bundle), "c1"),
        ],
        env=runtime.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.stderr == (
        f"amd-container-runtime: {runtime.bundle}/config.json cannot be replaced: the disk is full\n"
    )
    assert answer.returncode == 5


@pytest.fixture
def replaced_engine(runtime):
    """Return the runtime's host with a lease of container c1 that an engine in another pid namespace left."""
    Tracker(runtime.host).enable()
    runtime.write_config("AMD_VISIBLE_DEVICES=0")
    runtime.create_below()
    (lease,) = runtime.leases()
    fields = json.loads(lease.read_text())
    lease.write_text(json.dumps({**fields, "namespace": "pid:[1]"}, separators=(",", ":")) + "\n")
    runtime.write_config("AMD_VISIBLE_DEVICES=0-1")
    return runtime


def test_a_container_started_again_after_its_engine_got_another_pid_namespace_has_its_gpus(replaced_engine):
    answer = replaced_engine.create_below()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert replaced_engine.paths() == [
        *("/dev/dri/card3", "/dev/dri/renderD130", "/dev/dri/card4", "/dev/dri/renderD131", "/dev/kfd")
    ]
    (lease,) = replaced_engine.leases()
    assert json.loads(lease.read_text())["gpus"] == ["0000:03:00.0/0", "0000:26:00.0/0"]


def test_where_the_runtime_has_that_container_it_says_so_and_nothing_is_changed(replaced_engine):
    (replaced_engine.root / "c1").mkdir(parents=True)
    before = replaced_engine.config

    answer = replaced_engine.create_below(RUNC_EXIT="1")

    assert answer.returncode == 1
    assert replaced_engine.runc_words[-1] == "c1"
    assert replaced_engine.config == before


def test_the_log_says_that_gpus_were_given_only_after_they_were(runtime):
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.set_accessibility("0", exclusive=True)
    tracker.reserve("0", name="mine")
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    refused = runtime.create()
    lines = [line.partition(" msg=")[0] for line in runtime.own_log]

    assert refused.returncode == 1
    assert lines == ["level=ERROR"]


def test_an_id_that_has_gpus_and_no_container_is_refused_rather_than_started_without(runtime):
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.reserve("0", name="c1")
    runtime.write_config("AMD_VISIBLE_DEVICES=1")
    before = runtime.config

    answer = runtime.create()

    assert (answer.returncode, answer.stderr) == (
        9,
        (
            "amd-container-runtime: the id c1 already has GPUs, but the runtime has no container with that id yet"
            " (run 'amd-ctk gpu-tracker status --wide' to see which container uses them)\n"
        ),
    )
    assert runtime.config == before
    assert runtime.runc_words is None


# --- a process whose device cgroup hides GPUs


def create_in_a_job(runtime):
    """Create where files that nobody may read are closed to root as well."""
    limit = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    words = ("--log", runtime.log, "--log-format", "json", "create", "--bundle", runtime.bundle, "c1")
    return runtime.run(*words, under=limit)


@pytest.mark.parametrize("request_text", ["all", "2-3", "2,0x12FE4F7FDAF06B9"])
def test_a_container_of_a_job_gets_gpus_of_the_job_by_the_hosts_numbers(runtime, request_text):
    hide_gpus(runtime.host, (0, 1))
    runtime.write_config(f"AMD_VISIBLE_DEVICES={request_text}")

    assert create_in_a_job(runtime).returncode == 0

    nodes = ["/dev/dri/card2", "/dev/dri/renderD129", "/dev/dri/card1", "/dev/dri/renderD128", "/dev/kfd"]
    assert runtime.paths() == nodes


def test_a_gpu_outside_the_job_is_refused_with_those_of_the_job(runtime):
    hide_gpus(runtime.host, (0, 1))
    runtime.write_config("AMD_VISIBLE_DEVICES=0")

    answer = create_in_a_job(runtime)

    assert answer.returncode == 4
    assert answer.stderr == (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=0: GPU 0 is not among the GPUs this process may use (2, 3)"
        " (its device cgroup hides the others)\n"
    )
    assert runtime.runc_words is None


def test_all_of_no_gpu_that_may_be_used_is_refused(runtime):
    hide_gpus(runtime.host, (0, 1, 2, 3))
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    answer = create_in_a_job(runtime)

    assert "4 of 4 GPUs are hidden from this process by its device cgroup" in answer.stderr
    assert runtime.runc_words is None


class TestPrivilegedContainers:
    """They are root on the host: they claim what they ask for, and status shows what they could reach."""

    SPEC = {  # noqa: RUF012 - never changed
        "process": {"args": ["sh"], "env": [], "capabilities": {"bounding": ["CAP_SYS_ADMIN"]}},
        "linux": {
            "devices": [{"path": "/dev/dri/renderD130", "type": "c", "major": 226, "minor": 130}],
            "resources": {"devices": [{"allow": True, "access": "rwm"}]},
        },
    }

    @pytest.fixture
    def privileged(self, runtime):
        """Return the runtime with a tracker on which GPU 0 is exclusive and in use, and a privileged container."""
        tracker = Tracker(runtime.host)
        tracker.enable()
        tracker.set_accessibility("0", exclusive=True)
        tracker.reserve("0", name="first")
        runtime.write_spec(self.SPEC)
        runtime.tracker = tracker
        return runtime

    def write_request(self, runtime, gpus):
        process = {**self.SPEC["process"], "env": [f"AMD_VISIBLE_DEVICES={gpus}"]}
        runtime.write_spec({**self.SPEC, "process": process})

    def test_a_container_that_asks_for_nothing_starts_as_it_is_and_is_shown(self, privileged):
        answer = privileged.create()

        assert (answer.returncode, answer.stderr) == (0, "")
        assert privileged.config == self.SPEC
        (lease,) = [json.loads(path.read_text()) for path in privileged.leases() if path.name.startswith("c1@")]
        assert (lease["gpus"], lease["is_privileged"]) == ([], True)

    def test_a_privileged_container_that_asks_claims_what_it_asks_for(self, privileged):
        self.write_request(privileged, "0")
        assert "GPUs [0] are exclusive and already in use" in privileged.create().stderr

        self.write_request(privileged, "1")
        assert privileged.create().returncode == 0

        (lease,) = [json.loads(path.read_text()) for path in privileged.leases() if path.name.startswith("c1@")]
        assert (lease["gpus"], lease["is_privileged"]) == (["0000:26:00.0/0"], True)

    @pytest.mark.parametrize("content", ["{", '{"version":1,"enabled":true,"gpus":[]}'])
    def test_a_container_that_asks_for_nothing_starts_also_if_the_tracker_is_broken(self, privileged, content):
        with open(privileged.host.path("/var/lib/amd-container-toolkit/gpu-tracker.json"), "w") as file:
            file.write(content)

        assert privileged.create().returncode == 0

    def test_a_setting_makes_it_claim_every_gpu(self, privileged):
        privileged.configure(privileged_claims="all")

        assert (
            "GPUs [1 2 3] allocated\nGPUs [0] are exclusive and already in use\n"
            "Released GPUs [1 2 3] used by container c1"
        ) in privileged.create().stderr

        privileged.tracker.release("first")
        assert privileged.create().returncode == 0
        (lease,) = privileged.leases()
        assert len(json.loads(lease.read_text())["gpus"]) == 4

    def test_the_setting_says_nothing_about_others(self, privileged):
        privileged.configure(privileged_claims="all")
        privileged.write_config("AMD_VISIBLE_DEVICES=1")

        assert privileged.create().returncode == 0
