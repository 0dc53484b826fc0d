"""amd-ctk runtime configure for Docker: the words of the original, and none of its defects."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host

PROGRAM = "/usr/bin/amd-container-runtime"
FRESH = """\
{
    "runtimes": {
        "amd": {
            "path": "/usr/bin/amd-container-runtime",
            "runtimeArgs": []
        }
    },
    "features": {
        "cdi": true
    }
}
"""
UPDATED = "Updated the config file: /etc/docker/daemon.json\nPlease restart docker daemon\n"
REMOVED = "Removed the config file: /etc/docker/daemon.json\nPlease restart docker daemon\n"
LOADING = "Loading configuration from: /etc/docker/daemon.json\n"
# As a vendor's own tools and an administrator leave it.
NVIDIA = """\
{
  "default-runtime": "nvidia",
  "runtimes": {
    "nvidia": { "path": "nvidia-container-runtime", "args": [] }
  },
  "features": { "containerd-snapshotter": true },
  "max-concurrent-downloads": 9007199254740993,
  "proxies": { "https-proxy": "http://u:p\\u0026x@proxy:1" }
}
"""


@pytest.fixture
def daemon_json(tmp_path: Path) -> Path:
    """Where the host of a test, which has no GPU and needs none here, keeps Docker's configuration."""
    path = tmp_path / "host/etc/docker/daemon.json"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def configure(daemon_json: Path, amd_ctk, tmp_path: Path):
    """Return a function that runs the command on the test's host, where no engine is installed."""

    def run(*words: str):
        path = [] if any(word.startswith("--runtime-path") for word in words) else [f"--runtime-path={PROGRAM}"]
        return amd_ctk("runtime", "configure", *path, *words, PATH=str(tmp_path))

    return run


def test_the_commands_of_the_guide_print_what_it_shows(configure, daemon_json: Path) -> None:
    assert configure("--runtime=docker").stdout == UPDATED
    assert daemon_json.read_text() == FRESH
    assert configure("--set-as-default").stdout == LOADING + UPDATED
    assert json.loads(daemon_json.read_text())["default-runtime"] == "amd"
    assert configure("--unset-as-default").stdout == LOADING + "Removed amd as the default runtime\n" + UPDATED
    assert daemon_json.read_text() == FRESH
    assert configure("--remove").stdout == LOADING + REMOVED
    assert not daemon_json.exists()
    assert configure("--remove").stdout == ""


def test_the_second_time_nothing_is_changed(configure, daemon_json: Path) -> None:
    configure("--set-as-default")
    before = (daemon_json.read_text(), os.stat(daemon_json).st_ino)

    again = configure("--set-as-default")

    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == LOADING + "The config file is up to date: /etc/docker/daemon.json\n"
    assert (daemon_json.read_text(), os.stat(daemon_json).st_ino) == before


def test_configuring_again_without_the_flag_keeps_the_default(configure, daemon_json: Path) -> None:
    configure("--set-as-default")
    configure()

    assert json.loads(daemon_json.read_text())["default-runtime"] == "amd"


@pytest.mark.parametrize("flag", ["--set-as-default", "--amd-set-as-default"])
def test_both_spellings_set_the_default(configure, daemon_json: Path, flag: str) -> None:
    configure(flag)

    assert json.loads(daemon_json.read_text())["default-runtime"] == "amd"


@pytest.mark.parametrize("flag", ["--unset-as-default", "--unset-amd-as-default"])
def test_both_spellings_unset_the_default(configure, daemon_json: Path, flag: str) -> None:
    configure("--set-as-default")
    configure(flag)

    assert "default-runtime" not in json.loads(daemon_json.read_text())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set-as-default", "--unset-as-default"], "both set and unset as default cannot be used at the same time"),
        (["--remove", "--set-as-default"], "remove flag cannot be used along with set-as-default flag"),
        (["--remove", "--unset-as-default"], "remove flag cannot be used along with set-as-default flag"),
        (["--undo", "--remove"], "undo flag cannot be used along with remove or set-as-default flag"),
        (["--runtime=lxc"], "unsupported runtime engine: lxc (choose from docker, podman, containerd, crio, slurm)"),
        (
            ["--runtime-name=runc"],
            'docker has a runtime of its own called "runc" (choose another with --runtime-name)',
        ),
        (["--runtime-name= "], "the name of the runtime is empty (choose another with --runtime-name)"),
        (["--all"], "all flag can only be used along with remove flag, and without config-path flag"),
        (
            ["--all", "--remove", "--config-path=/x"],
            "all flag can only be used along with remove flag, and without config-path flag",
        ),
        (
            ["--runtime-path=bin/x"],
            "the runtime path bin/x is not absolute (give an absolute path; an engine may have another PATH)",
        ),
    ],
)
def test_contradictory_options_are_refused(configure, daemon_json: Path, words: list[str], sentence: str) -> None:
    answer = configure(*words)

    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "", f"{sentence}\n")
    assert not daemon_json.exists()


class TestDefectsOfTheOriginal:
    def test_removal_leaves_the_cdi_specs_of_everybody(self, configure, daemon_json: Path) -> None:
        spec = daemon_json.parent.parent / "cdi/nvidia.yaml"
        spec.parent.mkdir()
        spec.write_text("cdiVersion: 0.5.0\n")
        configure()

        configure("--remove")

        assert spec.read_text() == "cdiVersion: 0.5.0\n"

    def test_other_features_stay(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text(NVIDIA)

        configure()

        assert json.loads(daemon_json.read_text())["features"] == {"containerd-snapshotter": True, "cdi": True}

    def test_cdi_that_somebody_else_turned_on_stays_on(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text('{"features": {"cdi": true}, "runtimes": {"x": {"path": "/x"}}}')
        configure()

        configure("--remove")

        assert daemon_json.read_text() == '{"features": {"cdi": true}, "runtimes": {"x": {"path": "/x"}}}'

    def test_cdi_that_somebody_turned_off_stays_off_unless_asked_for(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text('{"features": {"cdi": false}}')

        answer = configure()
        assert answer.stderr == "CDI is turned off in /etc/docker/daemon.json; --cdi turns it on\n"
        assert json.loads(daemon_json.read_text())["features"] == {"cdi": False}
        configure("--cdi")
        assert json.loads(daemon_json.read_text())["features"] == {"cdi": True}
        configure("--no-cdi")
        assert json.loads(daemon_json.read_text())["features"] == {"cdi": False}

    def test_the_default_of_another_vendor_is_not_unset(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text(NVIDIA)

        answer = configure("--unset-as-default")

        assert (answer.returncode, answer.stdout) == (0, LOADING)
        assert answer.stderr == "amd is not the default runtime in /etc/docker/daemon.json\n"
        assert daemon_json.read_text() == NVIDIA

    def test_the_default_that_amd_replaced_comes_back(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text(NVIDIA)
        configure("--set-as-default")

        configure("--unset-as-default")

        assert json.loads(daemon_json.read_text())["default-runtime"] == "nvidia"
        configure("--remove")
        assert daemon_json.read_text() == NVIDIA

    def test_order_numbers_and_escapes_of_others_stay(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text(NVIDIA)

        configure()

        assert daemon_json.read_text() == (
            "{\n"
            '  "default-runtime": "nvidia",\n'
            '  "runtimes": {\n'
            '    "nvidia": { "path": "nvidia-container-runtime", "args": [] },\n'
            '    "amd": {\n'
            '      "path": "/usr/bin/amd-container-runtime",\n'
            '      "runtimeArgs": []\n'
            "    }\n"
            "  },\n"
            '  "features": { "containerd-snapshotter": true, "cdi": true },\n'
            '  "max-concurrent-downloads": 9007199254740993,\n'
            '  "proxies": { "https-proxy": "http://u:p\\u0026x@proxy:1" }\n'
            "}\n"
        )

    def test_a_file_edited_since_loses_only_what_amd_ctk_added(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text('{\n  "debug": true\n}\n')
        configure("--set-as-default")
        configured = daemon_json.read_text()
        daemon_json.write_text(configured.replace('"debug": true', '"debug": false,\n  "hosts": ["fd://"]'))

        configure("--remove")

        assert daemon_json.read_text() == '{\n  "debug": false,\n  "hosts": ["fd://"]\n}\n'

    def test_keys_that_somebody_changed_since_are_kept(self, configure, daemon_json: Path) -> None:
        configure()
        daemon_json.write_text(daemon_json.read_text().replace('"cdi": true', '"cdi": false'))

        configure("--remove")

        assert json.loads(daemon_json.read_text()) == {"features": {"cdi": False}}

    def test_an_entry_of_the_original_toolkit_is_removed_too(self, configure, daemon_json: Path) -> None:
        relative = '{"runtimes": {"amd": {"args": [], "path": "amd-container-runtime"}}, "features": {"cdi": true}}'
        daemon_json.write_text(relative)

        configure()
        assert json.loads(daemon_json.read_text())["runtimes"]["amd"]["path"] == PROGRAM
        daemon_json.write_text(relative)
        configure("--remove")

        assert daemon_json.read_text() == '{"features": {"cdi": true}}'

    def test_remove_leaves_no_entry_of_the_original_toolkit_that_was_replaced(
        self, configure, daemon_json: Path
    ) -> None:
        daemon_json.write_text(
            '{"mtu": 1450, "default-runtime": "amd",'
            ' "runtimes": {"amd": {"path": "/usr/local/bin/amd-container-runtime"}}}'
        )

        configure()
        configure("--remove")

        assert daemon_json.read_text() == '{"mtu": 1450}'

    def test_a_foreign_runtime_of_that_name_stays(self, configure, daemon_json: Path) -> None:
        daemon_json.write_text('{"runtimes": {"amd": {"path": "/opt/mine"}}}')

        added = configure()
        removed = configure("--remove")
        beside = configure("--runtime-name=amd2")

        assert (added.returncode, removed.returncode, beside.returncode) == (1, 0, 0)
        assert added.stderr == (
            'the runtime "amd" exists already and runs /opt/mine (choose another with --runtime-name)\n'
        )
        assert removed.stderr == "/etc/docker/daemon.json contains nothing added by amd-ctk\n"
        assert list(json.loads(daemon_json.read_text())["runtimes"]) == ["amd", "amd2"]

    def test_mode_and_link_stay(self, configure, daemon_json: Path, tmp_path: Path) -> None:
        target = tmp_path / "elsewhere.json"
        target.write_text("{}")
        target.chmod(0o640)
        daemon_json.symlink_to(target)

        configure()

        assert daemon_json.is_symlink()
        assert target.read_text() == FRESH.rstrip("\n")
        assert target.stat().st_mode & 0o7777 == 0o640

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("{} x", "Extra data: line 1 column 4 (char 3)"),
            ("null", "it is not a JSON object (a configuration begins with { and ends with })"),
            ('{"runtimes": []}', '"runtimes" is not a table of keys and values'),
            ('{"runtimes": null}', '"runtimes" is not a table of keys and values'),
            ('{"features": 1}', '"features" is not a table of keys and values'),
            ('{"features": {"cdi": "yes"}}', '"features.cdi" is not true or false'),
            ('{"default-runtime": 3}', '"default-runtime" is not a string'),
        ],
    )
    def test_odd_files_are_named_and_left_alone(self, configure, daemon_json: Path, text: str, why: str) -> None:
        daemon_json.write_text(text)

        answer = configure("--set-as-default")

        assert (answer.returncode, answer.stdout) == (1, LOADING)
        assert answer.stderr == (
            "failed to init config for runtime engine: docker | err: error decoding configuration file: "
            f"/etc/docker/daemon.json | err: {why}\n"
        )
        assert daemon_json.read_text() == text
        assert os.listdir(daemon_json.parent) == ["daemon.json"]

    def test_a_directory_is_named(self, configure, daemon_json: Path) -> None:
        daemon_json.mkdir()

        answer = configure()

        assert (answer.returncode, answer.stdout) == (1, LOADING)
        assert answer.stderr == (
            "failed to init config for runtime engine: docker | err: error reading configuration file: "
            "/etc/docker/daemon.json | err: read /etc/docker/daemon.json: is a directory\n"
        )

    def test_a_link_to_nothing_is_named_and_nothing_is_made(self, configure, daemon_json: Path) -> None:
        daemon_json.symlink_to("nowhere.json")

        answer = configure()

        assert (answer.returncode, answer.stdout) == (1, "")
        assert answer.stderr.endswith(
            "/etc/docker/daemon.json | err: it is a symbolic link to a file that does not exist\n"
        )
        assert os.listdir(daemon_json.parent) == ["daemon.json"]

    def test_bytes_that_are_no_text_are_named(self, configure, daemon_json: Path) -> None:
        daemon_json.write_bytes(b'{"a": "\xff"}')

        assert configure().stderr.endswith("/etc/docker/daemon.json | err: byte 7 is not UTF-8\n")


def test_a_path_given_by_the_user_is_one_of_the_simulated_host(configure, daemon_json: Path, tmp_path: Path) -> None:
    inside = tmp_path / "host/etc/other/daemon.json"

    by_its_name_there = configure("--config-path=/etc/other/daemon.json")
    by_its_name_here = configure(f"--config-path={inside}", "--set-as-default")

    updated = "Updated the config file: /etc/other/daemon.json\nPlease restart docker daemon\n"
    assert by_its_name_there.stdout == updated
    assert by_its_name_here.stdout == f"Loading configuration from: /etc/other/daemon.json\n{updated}"
    assert json.loads(inside.read_text())["default-runtime"] == "amd"
    assert not Path("/etc/other").exists()
    assert not daemon_json.exists()


def test_a_command_that_writes_says_which_simulated_host_it_changes(host, run_amd_ctk, tmp_path: Path) -> None:
    host()
    announced = f"Working on the simulated host {tmp_path}/host, not on this machine\n"
    configure = ("runtime", "configure", f"--runtime-path={PROGRAM}")

    changing = [
        configure,
        ("gpu-tracker", "enable"),
        ("config", "set", "log-level", "debug"),
        ("cdi", "generate"),
        ("cdi", "remove"),
    ]
    looking = [
        ("gpu-tracker", "status"),
        (*configure, "--dry-run"),
        ("config", "show"),
        ("cdi", "generate", "--output=-"),
        ("gpu", "list"),
    ]

    assert [run_amd_ctk(*words).stderr for words in changing] == [announced] * 5
    assert [run_amd_ctk(*words).stderr for words in looking] == [""] * 5


def test_an_empty_path_prints_the_configuration_of_a_new_host(configure, daemon_json: Path) -> None:
    daemon_json.write_text("{}")

    answer = configure("--config-path=")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, FRESH, "")
    assert daemon_json.read_text() == "{}"


def test_a_dry_run_prints_the_new_file_and_changes_nothing(configure, daemon_json: Path, tmp_path: Path) -> None:
    answer = configure("--dry-run")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, FRESH, "")
    assert os.listdir(daemon_json.parent) == []
    assert not (tmp_path / "host/var").exists()


def test_a_diff_shows_what_changes(configure, daemon_json: Path) -> None:
    daemon_json.write_text('{"a": 1, "features": {"cdi": true}}')

    answer = configure("--diff", "--dry-run")

    assert answer.stdout == (
        "--- /etc/docker/daemon.json\n"
        "+++ /etc/docker/daemon.json\n"
        "@@ -1 +1 @@\n"
        '-{"a": 1, "features": {"cdi": true}}\n'
        "\\ No newline at end of file\n"
        '+{"a": 1, "features": {"cdi": true}, "runtimes": {"amd": {"path": "/usr/bin/amd-container-runtime", '
        '"runtimeArgs": []}}}\n'
        "\\ No newline at end of file\n"
    )
    assert configure("--diff").stdout == LOADING + answer.stdout + UPDATED


def test_a_diff_without_a_change_says_so(configure, daemon_json: Path) -> None:
    configure()

    assert configure("--diff", "--dry-run").stdout == "The config file is up to date: /etc/docker/daemon.json\n"
    assert configure("--diff", "--dry-run", "--remove", "--runtime-name=x").stderr == (
        "/etc/docker/daemon.json contains nothing added by amd-ctk\n"
    )


def test_an_empty_file_is_configured_and_empty_again_after_removal(configure, daemon_json: Path) -> None:
    daemon_json.write_text("")

    assert configure().stdout == LOADING + UPDATED
    assert daemon_json.read_text() == FRESH
    configure("--remove")
    assert daemon_json.read_text() == ""


def test_every_engine_can_be_left_at_once(configure, daemon_json: Path, tmp_path: Path) -> None:
    for engine in ("docker", "podman", "containerd", "crio"):
        configure(f"--runtime={engine}")
    crio = tmp_path / "host/etc/crio/crio.conf.d/99-amd.conf"
    crio.write_text("x = [")

    answer = configure("--all", "--remove")

    assert answer.returncode == 1
    assert answer.stderr.startswith("failed to init config for runtime engine: crio | err: ")
    assert [line for line in answer.stdout.splitlines() if line.startswith("Removed")] == [
        "Removed the config file: /etc/docker/daemon.json",
        "Removed the config file: /etc/containers/containers.conf.d/99-amd.conf",
        "Removed the config file: /etc/containerd/config.toml",
    ]
    assert not daemon_json.exists()


UNIT = """\
[Service]
EnvironmentFile=-/etc/default/docker
ExecStart=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS
"""


class TestOptionsOfTheDaemonsUnit:
    @pytest.fixture
    def options(self, tmp_path: Path):
        """Return a function that gives the host's dockerd options by its unit's environment file."""
        root = tmp_path / "host"
        (root / "lib/systemd/system").mkdir(parents=True)
        (root / "etc/default").mkdir(parents=True)
        (root / "lib/systemd/system/docker.service").write_text(UNIT)

        return lambda words: (root / "etc/default/docker").write_text(f'# of the daemon\nDOCKER_OPTS="{words}"\n')

    def test_a_directive_that_is_one_of_them_is_refused(self, configure, daemon_json: Path, options) -> None:
        options("--default-runtime=runc --debug")

        answer = configure("--set-as-default")

        assert (answer.returncode, answer.stdout, answer.stderr) == (
            1,
            "",
            (
                "docker.service has --default-runtime=runc on its command line, and docker does not start while "
                '/etc/docker/daemon.json has "default-runtime" too (nothing was changed; remove --default-runtime '
                "from the unit or its environment file first)\n"
            ),
        )
        assert not daemon_json.exists()

    def test_options_of_dockerd_that_do_not_collide_allow_the_file(self, configure, daemon_json: Path, options) -> None:
        options("--default-runtime runc --add-runtime nv=/x")

        assert configure().returncode == 0
        assert daemon_json.read_text() == FRESH
        assert configure("--remove").returncode == 0

    def test_a_directive_that_the_file_has_already_is_not_this_commands(
        self, configure, daemon_json: Path, options
    ) -> None:
        options("--default-runtime=runc --feature=cdi=true")
        daemon_json.write_text('{"default-runtime": "runc", "features": {"cdi": true}}')

        assert configure().returncode == 0
        assert json.loads(daemon_json.read_text())["default-runtime"] == "runc"

    def test_another_file_is_not_that_daemons(self, configure, options) -> None:
        options("--default-runtime=runc")

        assert configure("--set-as-default", "--config-path=/home/u/daemon.json").returncode == 0


def test_undo_brings_back_the_file_from_before_the_last_change(configure, daemon_json: Path) -> None:
    daemon_json.write_text(NVIDIA)
    configure()
    configured = daemon_json.read_text()
    configure("--set-as-default")

    undone = configure("--undo")

    assert undone.stdout == LOADING + UPDATED
    assert daemon_json.read_text() == configured
    configure("--remove")
    assert daemon_json.read_text() == NVIDIA


def test_undo_takes_away_a_file_that_was_not_there(configure, daemon_json: Path) -> None:
    configure()

    configure("--undo")

    assert not daemon_json.exists()


def test_undo_brings_back_what_removal_took(configure, daemon_json: Path) -> None:
    configure()
    configure("--remove")

    configure("--undo")

    assert daemon_json.read_text() == FRESH
    configure("--remove")
    assert not daemon_json.exists()


def test_undo_does_not_lose_what_was_written_since(configure, daemon_json: Path) -> None:
    daemon_json.write_text("{}")
    configure()
    edited = daemon_json.read_text().replace("true", "false")
    daemon_json.write_text(edited)

    answer = configure("--undo")

    assert (answer.returncode, answer.stderr) == (
        1,
        (
            "/etc/docker/daemon.json was edited since amd-ctk changed it"
            " (use --remove to remove only what amd-ctk added)\n"
        ),
    )
    assert daemon_json.read_text() == edited


def test_there_is_nothing_to_undo_at_first(configure) -> None:
    answer = configure("--undo")

    assert (answer.returncode, answer.stderr) == (1, "there is nothing to undo in /etc/docker/daemon.json\n")


def test_the_backup_is_as_private_as_the_file(configure, daemon_json: Path) -> None:
    daemon_json.write_text(NVIDIA)
    daemon_json.chmod(0o600)

    configure()

    backup = daemon_json.with_name("daemon.json.before-amd-ctk")
    assert backup.read_text() == NVIDIA
    assert backup.stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize(
    "damaged", ["{", '{"files": {"/etc/docker/daemon.json": {"keys": [{"path": "a", "value": 1}]}}}']
)
def test_a_damaged_record_is_named(configure, daemon_json: Path, tmp_path: Path, damaged: str) -> None:
    configure()
    record = tmp_path / "host/var/lib/amd-container-toolkit/engine-configuration.json"
    record.write_text(damaged)

    answer = configure("--remove")

    assert answer.returncode == 5
    assert answer.stderr == (
        f"{record}, the record of what amd-ctk changed, cannot be read: it is damaged "
        "(move it away; --remove then finds only runtimes that run amd-container-runtime)\n"
    )
    assert daemon_json.read_text() == FRESH


def test_the_record_is_private_because_it_holds_the_configuration(configure, tmp_path: Path) -> None:
    configure()

    record = tmp_path / "host/var/lib/amd-container-toolkit/engine-configuration.json"
    assert record.stat().st_mode & 0o7777 == 0o600


def test_the_runtime_is_found_beside_amd_ctk(program: str, daemon_json: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    installed.mkdir()
    amd_ctk = shutil.copy(program, installed)
    runtime = installed / "amd-container-runtime"
    runtime.write_text("#!/bin/sh\n")
    runtime.chmod(0o755)

    subprocess.run(
        [amd_ctk, "runtime", "configure"],
        env={"PATH": str(tmp_path), "AMD_CTK_HOST_ROOT": str(tmp_path / "host")},
        capture_output=True,
        check=True,
    )

    assert json.loads(daemon_json.read_text())["runtimes"]["amd"]["path"] == str(runtime)


def test_no_engine_of_a_simulated_host_is_restarted(configure, daemon_json: Path) -> None:
    answer = configure("--restart")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        f"the simulated host {Host(daemon_json.parent.parent.parent).root} has no engine to restart"
        " (remove --restart)\n"
    )
