"""amd-ctk cdi generate and remove."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from amdgpu_simulator import load_profile

KFD = {
    "path": "/dev/kfd",
    "type": "c",
    "major": 235,
    "minor": 0,
    "fileMode": 438,
    "permissions": "rw",
    "uid": 0,
    "gid": 110,
}


def names(path):
    return [device["name"] for device in json.loads(path.read_text())["devices"]]


def files_below(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def spec(tmp_path):
    """Return where the spec of the test's host is."""
    return tmp_path / "host/etc/cdi/amd.json"


@pytest.mark.needs("root")
def test_the_answer_is_the_originals(host, amd_ctk, spec):
    host("one-gpu")

    answer = amd_ctk("cdi", "generate")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "Generated CDI spec: /etc/cdi/amd.json\n", "")
    assert json.loads(spec.read_text())["devices"][0] == {
        "name": "0",
        "containerEdits": {
            "deviceNodes": [
                {**KFD, "path": "/dev/dri/card0", "major": 226, "minor": 0, "gid": 44},
                {**KFD, "path": "/dev/dri/renderD128", "major": 226, "minor": 128},
                KFD,
            ]
        },
    }
    assert spec.stat().st_mode & 0o777 == 0o644
    assert spec.read_text().endswith("\n}\n")


def test_a_gpu_is_offered_under_its_number_id_and_address(host, amd_ctk, spec):
    host()

    amd_ctk("cdi", "generate")

    assert names(spec) == [
        *("0", "1", "2", "3", "all"),
        *("0xEA35F57CC80DEB35", "0xea35f57cc80deb35", "eaff740f-0000-1000-8035-f57cc80deb35"),
        "ea00740f-0000-1000-8035-f57cc80deb35",
        *("0x89CAA15875FF5A43", "0x89caa15875ff5a43", "89ff740f-0000-1000-80ca-a15875ff5a43"),
        "8900740f-0000-1000-80ca-a15875ff5a43",
        *("0x6E32F10EFC982B4C", "0x6e32f10efc982b4c", "6eff740f-0000-1000-8032-f10efc982b4c"),
        "6e00740f-0000-1000-8032-f10efc982b4c",
        *("0x12FE4F7FDAF06B9", "0x12fe4f7fdaf06b9", "01ff740f-0000-1000-802f-e4f7fdaf06b9"),
        "0100740f-0000-1000-802f-e4f7fdaf06b9",
        *("0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0"),
    ]


def test_a_file_elsewhere_is_named_as_it_was_given_and_its_directory_made(host, amd_ctk, tmp_path):
    host()

    answer = amd_ctk("cdi", "generate", f"--output={tmp_path}/host/a/b/amd.yaml", "--gpus", "1-2", "--no-all")

    assert (answer.returncode, answer.stdout) == (0, f"Generated CDI spec: {tmp_path}/host/a/b/amd.yaml\n")
    text = (tmp_path / "host/a/b/amd.yaml").read_text()
    assert text.startswith('cdiVersion: "0.5.0"\nkind: "amd.com/gpu"\ndevices:\n- name: "1"\n')


def test_an_empty_output_is_the_default(host, amd_ctk, spec):
    host()

    assert amd_ctk("cdi", "generate", "--output=").stdout == "Generated CDI spec: /etc/cdi/amd.json\n"
    assert spec.exists()


def test_a_hyphen_prints_the_spec_and_writes_nothing(host, amd_ctk, tmp_path):
    host("one-gpu")
    before = files_below(tmp_path)

    answer = amd_ctk("cdi", "generate", "--output", "-", "--vendor=example.com", "--class=accelerator")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["kind"] == "example.com/accelerator"
    assert files_below(tmp_path) == before


def test_a_language_can_be_chosen(host, amd_ctk):
    host("one-gpu")

    assert amd_ctk("cdi", "generate", "--output=-", "--format=yaml").stdout.startswith('cdiVersion: "0.5.0"\n')


def test_content_that_needs_a_later_version_names_who_cannot_read_it(host, amd_ctk, spec):
    host("one-gpu")

    answer = amd_ctk("cdi", "generate", "--annotations", "--additional-gids")

    assert answer.stdout == "Generated CDI spec: /etc/cdi/amd.json\n"
    assert answer.stderr == "These engines cannot read CDI 0.7.0: Podman 4.3\n"
    assert json.loads(spec.read_text())["cdiVersion"] == "0.7.0"


def test_the_hosts_modes_are_kept_where_the_settings_say_so(host, amd_ctk, tmp_path, spec):
    host("one-gpu")
    (tmp_path / "host/etc/amd-container-toolkit").mkdir(parents=True)
    (tmp_path / "host/etc/amd-container-toolkit/config.toml").write_text('device-mode = "host"\n')
    amd_ctk("config", "compile")

    amd_ctk("cdi", "generate")

    nodes = json.loads(spec.read_text())["devices"][0]["containerEdits"]["deviceNodes"]
    assert [node["fileMode"] for node in nodes] == [0o660, 0o660, 0o660]


def test_the_trackers_hook_knows_what_becomes_of_images_that_do_not_fit(host, amd_ctk, spec):
    host()
    amd_ctk("gpu-tracker", "enable")
    amd_ctk("config", "set", "image-requirements", "warn")

    amd_ctk("cdi", "generate")

    claim, release = json.loads(spec.read_text())["containerEdits"]["hooks"]
    assert claim["args"][-2:] == ["--image-requirements", "warn"]
    assert "--image-requirements" not in release["args"]


def test_the_trackers_hooks_come_and_go_with_the_tracker(host, amd_ctk, spec):
    host()
    amd_ctk("cdi", "generate")

    amd_ctk("gpu-tracker", "enable")
    hooks = json.loads(spec.read_text())["containerEdits"]["hooks"]
    amd_ctk("gpu-tracker", "disable")
    (check,) = json.loads(spec.read_text())["containerEdits"]["hooks"]

    assert [(hook["hookName"], hook["timeout"]) for hook in hooks] == [("createRuntime", 120), ("poststop", 120)]
    assert (check["hookName"], check["path"], "claim" in check["args"]) == ("createRuntime", "/bin/sh", False)


@pytest.mark.parametrize(("setting", "words"), [("enforce", []), ("warn", ["--image-requirements", "warn"])])
def test_a_spec_checks_images_while_the_tracker_is_disabled(host, amd_ctk, spec, setting, words):
    host()
    amd_ctk("config", "set", "image-requirements", setting)

    amd_ctk("cdi", "generate")

    (hook,) = json.loads(spec.read_text())["containerEdits"]["hooks"]
    assert hook["args"][:2] == ["/bin/sh", "-c"]
    assert [word for word in hook["args"] if word in ("--image-requirements", "warn")] == words


def test_a_spec_for_another_host_has_no_hook_where_the_settings_say_so(host, amd_ctk, spec):
    host()
    amd_ctk("config", "set", "image-requirements", "ignore")

    amd_ctk("cdi", "generate")

    assert "containerEdits" not in json.loads(spec.read_text())


def test_a_gpu_that_kfd_does_not_list_is_refused_for_that_reason(host, amd_ctk):
    host(load_profile("rx7900xtx-raphael").with_gpu(1, partitions=0))

    assert amd_ctk("cdi", "generate", "--gpus=0000:6d:00.0").stderr == (
        "failed to generate CDI spec: the GPU at 0000:6d:00.0 has no number because the kernel's compute driver (KFD)"
        " does not list it ('amd-ctk gpu list' shows the GPUs that containers can have)\n"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--vendor=a"], "the vendor 'a' has fewer than two characters (as in --vendor=example.com)"),
        (["--class=gpu!"], "the class 'gpu!' does not end with a letter or digit (as in --class=gpu)"),
        (["--gpus=7"], "GPU 7 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"),
        (["--gpus=none"], "it would contain no GPU (name GPUs, or leave out --gpus)"),
        (
            ["--additional-gids", "--spec-version=0.6.0"],
            (
                "a CDI spec of version 0.6.0 cannot hold additionalGids"
                " (give --spec-version 0.7.0 or a later one, or leave it out)"
            ),
        ),
    ],
)
def test_options_that_no_spec_can_have_are_refused(host, amd_ctk, spec, words, sentence):
    host()

    answer = amd_ctk("cdi", "generate", *words)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"failed to generate CDI spec: {sentence}\n"
    assert not spec.exists()


def test_no_driver_no_gpu_and_no_node_keep_the_old_file(host, amd_ctk, tmp_path, spec):
    host("one-gpu")
    amd_ctk("cdi", "generate")
    old = spec.read_bytes()
    answers = []
    for profile in ("no-driver", load_profile("one-gpu").replace(gpus=()), "one-gpu"):
        host(profile)
        spec.parent.mkdir(parents=True, exist_ok=True)
        spec.write_bytes(old)
        if profile == "one-gpu":
            os.unlink(tmp_path / "host/dev/dri/renderD128")
        answers.append(amd_ctk("cdi", "generate"))
        assert spec.read_bytes() == old

    assert [answer.returncode for answer in answers] == [1, 1, 1]
    no_driver, no_gpu, no_node = (answer.stderr for answer in answers)
    assert no_driver == (
        "failed to generate CDI spec: getting GPUs: amdgpu driver unavailable:"
        " /sys/module/amdgpu/drivers/ does not exist (load it with 'sudo modprobe amdgpu', or install it)\n"
    )
    assert no_gpu == (
        "failed to generate CDI spec: this host has no AMD GPU that can compute ('amd-ctk gpu list' shows them)\n"
    )
    assert no_node == (
        "failed to generate CDI spec: /dev/dri/renderD128 is missing although the driver has this device"
        " (udev makes it: 'sudo udevadm trigger --action=add --subsystem-match=drm')\n"
    )


FOREIGN = {
    "a spec of another vendor": '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[]}',
    "yaml of another vendor": "kind: nvidia.com/gpu\n",
    "a text": "Dear administrator,\n",
    "a list": "[]",
    "half a spec": '{"cdiVersion":',
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_spec_that_amd_ctk_did_not_write_is_not_overwritten(host, amd_ctk, spec, content):
    host()
    spec.parent.mkdir(parents=True)
    spec.write_text(content)
    holds = "a CDI spec of nvidia.com/gpu" if "nvidia" in content else "content that is not a CDI spec"

    answer = amd_ctk("cdi", "generate")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"failed to write CDI spec: {spec} holds {holds} (move it away, or give another file with --output)\n"
    )
    assert spec.read_text() == content


def test_an_empty_spec_after_a_power_cut_is_overwritten(host, amd_ctk, spec):
    host()
    spec.parent.mkdir(parents=True)
    spec.write_bytes(b"\0" * 512)

    assert amd_ctk("cdi", "generate").returncode == 0


def test_a_directory_a_link_and_a_pipe_are_no_output(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "host/srv").mkdir()
    (tmp_path / "host/srv/real.json").write_text("{}")
    (tmp_path / "host/srv/link.json").symlink_to("real.json")
    os.mkfifo(tmp_path / "host/srv/pipe.json")

    answers = [amd_ctk("cdi", "generate", f"--output=/srv/{name}") for name in ("", "link.json", "pipe.json")]

    assert [answer.returncode for answer in answers] == [1, 1, 1]
    directory, link, pipe = (answer.stderr for answer in answers)
    assert directory == f"failed to write CDI spec: {tmp_path}/host/srv is a directory (give a file with --output)\n"
    assert link == (
        f"failed to write CDI spec: {tmp_path}/host/srv/link.json is a symbolic link"
        f" (give the file itself: {tmp_path}/host/srv/real.json)\n"
    )
    assert pipe == (
        f"failed to write CDI spec: {tmp_path}/host/srv/pipe.json is not a plain file"
        " (give a file with --output, or - for standard output)\n"
    )
    assert (tmp_path / "host/srv/real.json").read_text() == "{}"


def test_a_directory_that_cannot_be_made_is_named(host, amd_ctk, tmp_path):
    host()
    (tmp_path / "host/srv").mkdir()
    (tmp_path / "host/srv/file").write_text("")

    answer = amd_ctk("cdi", "generate", f"--output={tmp_path}/host/srv/file/cdi/amd.json")

    assert answer.returncode == 1
    assert answer.stderr.startswith(f"failed to write CDI spec: {tmp_path}/host/srv/file/cdi/amd.json cannot be read: ")


def test_options_that_cannot_be_kept_do_not_spoil_the_spec(host, amd_ctk, tmp_path, spec):
    host()
    (tmp_path / "host/var/lib/amd-container-toolkit").mkdir(parents=True, exist_ok=True)
    (tmp_path / "host/var/lib/amd-container-toolkit/cdi").write_text("in the way")

    answer = amd_ctk("cdi", "generate")

    assert (answer.returncode, answer.stdout) == (0, "Generated CDI spec: /etc/cdi/amd.json\n")
    assert answer.stderr.startswith("'amd-ctk cdi refresh' will not update it, because ")
    assert spec.exists()


def test_remove_takes_out_a_generated_spec_and_no_other(host, amd_ctk, tmp_path, spec):
    host()
    amd_ctk("cdi", "generate")
    (tmp_path / "host/mine.json").write_text("{}")

    removed = amd_ctk("cdi", "remove")
    again = amd_ctk("cdi", "remove")
    mine = amd_ctk("cdi", "remove", "--output=/mine.json")

    assert (removed.returncode, removed.stdout) == (0, "Removed CDI spec: /etc/cdi/amd.json\n")
    assert (again.returncode, again.stderr) == (
        1,
        "/etc/cdi/amd.json was not generated by 'amd-ctk cdi generate' (remove it yourself)\n",
    )
    assert (mine.returncode, (tmp_path / "host/mine.json").read_text()) == (1, "{}")
    assert files_below(tmp_path / "host/etc/cdi") == []


def test_remove_all_takes_out_every_generated_spec_where_engines_look(host, amd_ctk, tmp_path, spec):
    host()
    for output in ("/etc/cdi/amd.json", "/etc/cdi/lab.yaml", "/run/cdi/amd.json", "/srv/mine.json"):
        amd_ctk("cdi", "generate", f"--output={output}")
    (tmp_path / "host/etc/cdi/nic.json").write_text("{}")

    removed = amd_ctk("cdi", "remove", "--all")
    again = amd_ctk("cdi", "remove", "--all")

    assert removed.returncode == 0
    assert removed.stdout.splitlines() == [
        "Removed CDI spec: /etc/cdi/amd.json",
        "Removed CDI spec: /etc/cdi/lab.yaml",
        "Removed CDI spec: /run/cdi/amd.json",
    ]
    assert (again.returncode, again.stdout) == (0, "")
    assert files_below(tmp_path / "host/etc/cdi") == ["nic.json"]
    assert (tmp_path / "host/srv/mine.json").exists()


def test_a_spec_that_is_up_to_date_was_not_generated_where_it_cannot_be_written(host, amd_ctk, spec, program):
    host()
    amd_ctk("cdi", "generate")
    root = spec.parents[2]

    answer = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c",
         'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" cdi generate', "sh", root, program],
        env={"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    if "unshare failed" in answer.stderr:
        pytest.skip("this machine gives its users no mounts of their own")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.splitlines()[-1] == (
        f"failed to write CDI spec: {spec} cannot be written: the file system is read-only"
    )


class TestLxd:
    """What LXD 6.7 expects of the program that it runs at each start of an instance with an AMD GPU."""

    @pytest.mark.parametrize("directory", ["/var/log/lxd/c1", "/var/snap/lxd/common/lxd/logs/c1"])
    @pytest.mark.parametrize("profile", ["mi210-4", "mi300x-8-cpx", "one-gpu"])
    def test_the_spec_of_an_instance_has_what_lxd_looks_for(self, host, amd_ctk, tmp_path, profile, directory):
        host(profile)
        output = f"{directory}/amd.json"

        answer = amd_ctk("cdi", "generate", "--output", output)

        assert (answer.returncode, answer.stdout) == (0, f"Generated CDI spec: {output}\n")
        spec = tmp_path / f"host{output}"
        assert {"0", "all"} <= {*names(spec)}
        assert json.loads(spec.read_text())["kind"] == "amd.com/gpu"

    def test_each_hook_has_three_arguments_or_more(self, host, amd_ctk, tmp_path):
        host()
        amd_ctk("gpu-tracker", "enable")

        amd_ctk("cdi", "generate", "--output=/var/log/lxd/c1/amd.json")

        spec = json.loads((tmp_path / "host/var/log/lxd/c1/amd.json").read_text())
        assert [len(hook["args"]) >= 3 for hook in spec["containerEdits"]["hooks"]] == [True, True]

    def test_nothing_is_remembered_of_the_spec_of_an_instance(self, host, amd_ctk, tmp_path):
        host()

        amd_ctk("cdi", "generate", "--output=/var/log/lxd/c1/amd.json")

        assert amd_ctk("cdi", "refresh").stdout == "No CDI spec has been generated, so there is nothing to refresh\n"
        assert not (tmp_path / "host/var/lib/amd-container-toolkit/cdi").exists()
