"""amd-ctk config: show, set, unset and compile, with the comments of config.toml kept."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from amd_device_spec.settings import Settings, read_settings
from amd_device_spec.settings_file import set_setting
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.host import Host

UPDATED = "Updated the config file: /etc/amd-container-toolkit/config.toml\n"
UP_TO_DATE = "The config file is up to date: /etc/amd-container-toolkit/config.toml\n"
DEFAULTS = """\
unknown-gpus = "error"  # default
device-mode = "open"  # default
low-level-runtime = ""  # default
swarm-resources = ["AMD_GPU", "GPU", "GPU_COMPUTE"]  # default
swarm-resource-names = "uuid"  # default
swarm-vram-resources = []  # default
swarm-vram-headroom = 0  # default
vram-limit = "asked"  # default
vram-maximum = 0  # default
share-by-vram = "no"  # default
visible-devices-env = "always"  # default
privileged-claims = "requested"  # default
slurm-filters = "remove"  # default
image-requirements = "enforce"  # default
gpu-groups = []  # default
integrated-gpus = "include"  # default
drained-in-all = "skip"  # default
allow-sick-gpus = "no"  # default
allow-dirty-gpus = "no"  # default
clean = "no"  # default
bad-page-limit = 0  # default
temperature-limit = 0  # default
users = []  # default
queue-order = "fair"  # default
job-names = "public"  # default
gpu-access = "group"  # default
idle = ""  # default
history-days = 400  # default
history-names = "names"  # default
log-level = "info"  # default
log-file = ""  # default
"""

OF_TRACKER = """\
# Of the GPU Tracker
restart-grace = 15
exclusive-holder = "container"
ignored-users = []
"""


@pytest.fixture
def served(tmp_path: Path) -> Host:
    """Make the host that the commands serve; settings need no GPU."""
    (tmp_path / "host/etc/amd-container-toolkit").mkdir(parents=True)
    return Host(tmp_path / "host")


@pytest.fixture
def config_toml(served: Host) -> Path:
    return Path(served.path("/etc/amd-container-toolkit/config.toml"))


def test_everything_is_shown_as_a_config_would_have_it(served: Host, amd_ctk) -> None:
    answer = amd_ctk("config", "show")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, DEFAULTS + OF_TRACKER, "")


@pytest.mark.parametrize(
    ("key", "values", "said", "shown"),
    [
        ("restart-grace", ["30"], "Restarted containers keep their GPUs for 30 seconds\n", "30\n"),
        ("restart-grace", ["0"], "Restarted containers keep no GPUs\n", "0\n"),
        ("exclusive-holder", ["pod"], "An exclusive GPU belongs to one pod\n", "pod\n"),
        ("ignored-users", ["1001", "1000"], "Users [1000 1001] are ignored\n", "1000 1001\n"),
    ],
)
def test_a_setting_of_the_tracker_is_a_key(tracked: Host, amd_ctk, key, values, said, shown) -> None:
    before = amd_ctk("config", "show", key).stdout

    answer = amd_ctk("config", "set", key, *values)

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, said, "")
    assert amd_ctk("config", "show", key).stdout == shown
    assert amd_ctk("config", "unset", key).returncode == 0
    assert amd_ctk("config", "show", key).stdout == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["restart-grace", "soon"], "restart-grace: 'soon' is not a whole number (write digits)\n"),
        (["restart-grace", "9999"], "9999 is not a number of seconds from 0 to 3600\n"),
        (["restart-grace", "1", "2"], "restart-grace takes one value (as in restart-grace 15)\n"),
        (["exclusive-holder", "po"], "exclusive-holder is one of container, pod, not 'po' (write one of them)\n"),
        (["ignored-users", "alice"], "ignored-users: 'alice' is not a whole number (write digits)\n"),
    ],
)
def test_a_wrong_value_of_a_setting_of_the_tracker_changes_nothing(tracked: Host, amd_ctk, words, said) -> None:
    before = amd_ctk("config", "show").stdout

    answer = amd_ctk("config", "set", *words)

    assert answer.returncode != 0
    assert (answer.stdout, answer.stderr) == ("", said)
    assert amd_ctk("config", "show").stdout == before


def test_ignoring_two_users_of_which_one_cannot_be_ignores_none(tracked: Host, amd_ctk) -> None:
    answer = amd_ctk("config", "set", "ignored-users", "1000", "9999999999")

    assert (answer.returncode, answer.stderr) == (4, "9999999999 is not the number of a user\n")
    assert amd_ctk("config", "show", "ignored-users").stdout == "\n"


@pytest.mark.parametrize(
    ("command", "key"), [("grace", "restart-grace"), ("holder", "exclusive-holder"), ("ignore", "ignored-users")]
)
def test_the_earlier_command_of_a_key_works_on_is_hidden_and_names_it(tracked: Host, amd_ctk, command, key) -> None:
    answer = amd_ctk("gpu-tracker", command)

    said = f"'amd-ctk gpu-tracker {command}' still works; 'amd-ctk config set {key}' replaces it\n"
    assert (answer.returncode, answer.stderr) == (0, said)
    assert f"\n  {command} " not in amd_ctk("gpu-tracker", "--help").stdout


def test_a_setting_that_was_set_is_shown_in_every_form(served: Host, amd_ctk) -> None:
    amd_ctk("config", "set", "swarm-resources", "AMD_GPU,GPU", "VF")

    assert 'swarm-resources = ["AMD_GPU", "GPU", "VF"]\n' in amd_ctk("config", "show").stdout
    assert amd_ctk("config", "show", "swarm-resources").stdout == "AMD_GPU GPU VF\n"
    assert json.loads(amd_ctk("config", "show", "--json").stdout) == {
        "path": "/etc/amd-container-toolkit/config.toml",
        "settings": {
            "unknown-gpus": "error",
            "device-mode": "open",
            "low-level-runtime": "",
            "swarm-resources": ["AMD_GPU", "GPU", "VF"],
            "swarm-resource-names": "uuid",
            "swarm-vram-resources": [],
            "swarm-vram-headroom": 0,
            "vram-limit": "asked",
            "vram-maximum": 0,
            "share-by-vram": "no",
            "visible-devices-env": "always",
            "privileged-claims": "requested",
            "slurm-filters": "remove",
            "image-requirements": "enforce",
            "gpu-groups": [],
            "integrated-gpus": "include",
            "drained-in-all": "skip",
            "allow-sick-gpus": "no",
            "allow-dirty-gpus": "no",
            "clean": "no",
            "bad-page-limit": 0,
            "temperature-limit": 0,
            "users": [],
            "queue-order": "fair",
            "job-names": "public",
            "gpu-access": "group",
            "idle": "",
            "history-days": 400,
            "history-names": "names",
            "log-level": "info",
            "log-file": "",
            "restart-grace": 15,
            "exclusive-holder": "container",
            "ignored-users": [],
        },
        "chosen": ["swarm-resources"],
    }


def test_a_setting_is_written_where_people_and_container_starts_read_it(
    served: Host, config_toml: Path, amd_ctk
) -> None:
    config_toml.write_text('# chosen by ops\nlog-level = "warn" # less noise\n')

    answer = amd_ctk("config", "set", "visible-devices-env", "privileged")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, UPDATED, "")
    assert config_toml.read_text() == (
        '# chosen by ops\nlog-level = "warn" # less noise\nvisible-devices-env = "privileged"\n'
    )
    compiled = config_toml.with_name("config.compiled").read_text().splitlines()
    assert compiled[2:] == ["log-level=warn", "visible-devices-env=privileged"]
    assert read_settings(served) == Settings(log_level="warn", visible_devices_env="privileged")


def test_an_amount_is_written_as_a_number(served: Host, config_toml: Path, amd_ctk) -> None:
    answer = amd_ctk("config", "set", "swarm-vram-headroom", "0300")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, UPDATED, "")
    assert config_toml.read_text().endswith("\nswarm-vram-headroom = 300\n")
    assert amd_ctk("config", "show", "swarm-vram-headroom").stdout == "300\n"
    assert read_settings(served) == Settings(swarm_vram_headroom=300)
    assert amd_ctk("config", "set", "swarm-vram-headroom", "some").stderr == (
        "swarm-vram-headroom is not a number of MiB (as in swarm-vram-headroom = 300)\n"
    )


def test_the_same_value_again_changes_nothing(served: Host, config_toml: Path, amd_ctk) -> None:
    amd_ctk("config", "set", "unknown-gpus", "ignore")
    before = config_toml.stat().st_ino, config_toml.stat().st_mtime_ns

    assert amd_ctk("config", "set", "unknown-gpus", "ignore").stdout == UP_TO_DATE
    assert (config_toml.stat().st_ino, config_toml.stat().st_mtime_ns) == before


def test_an_unset_setting_is_a_default_again(served: Host, config_toml: Path, amd_ctk) -> None:
    amd_ctk("config", "set", "unknown-gpus", "ignore")

    assert amd_ctk("config", "unset", "unknown-gpus").stdout == UPDATED
    assert amd_ctk("config", "unset", "unknown-gpus").stdout == UP_TO_DATE
    assert amd_ctk("config", "show").stdout == DEFAULTS + OF_TRACKER
    assert read_settings(served) == Settings()


def test_a_change_by_hand_is_noticed_and_taken_over(served: Host, config_toml: Path, amd_ctk) -> None:
    amd_ctk("config", "set", "unknown-gpus", "ignore")
    config_toml.write_text('unknown-gpus = "error"\n')

    shown = amd_ctk("config", "show", "unknown-gpus")
    compiled = amd_ctk("config", "compile")

    assert (shown.stdout, shown.stderr) == (
        "error\n",
        "/etc/amd-container-toolkit/config.toml was changed since it was compiled; run 'sudo amd-ctk config compile'\n",
    )
    assert compiled.stdout == "Compiled the config file: /etc/amd-container-toolkit/config.toml\n"
    assert amd_ctk("config", "show", "unknown-gpus").stderr == ""
    assert config_toml.with_name("config.compiled").read_text().splitlines()[2:] == ["unknown-gpus=error"]


def test_compiling_without_a_config_takes_the_old_form_away(served: Host, config_toml: Path, amd_ctk) -> None:
    amd_ctk("config", "set", "unknown-gpus", "ignore")
    config_toml.unlink()

    answer = amd_ctk("config", "compile")

    assert answer.stdout == "There is no /etc/amd-container-toolkit/config.toml; the defaults are used\n"
    assert os.listdir(config_toml.parent) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["set", "unknown-gpu", "error"], "there is no setting unknown-gpu (did you mean unknown-gpus?)"),
        (["set", "foo", "1"], "there is no setting foo ('amd-ctk config show' lists them)"),
        (["unset", "loglevel"], "there is no setting loglevel (did you mean log-level?)"),
        (["show", "swarm"], "there is no setting swarm (did you mean swarm-resources?)"),
        (["set", "log-level", "loud"], 'log-level cannot be "loud" (it is one of info, debug, warn, error)'),
        (
            ["set", "log-file", "x.log"],
            "log-file is not an absolute path: x.log (as in /var/log/amd-container-runtime.log)",
        ),
    ],
)
def test_an_unknown_setting_is_refused(
    served: Host, config_toml: Path, amd_ctk, words: list[str], sentence: str
) -> None:
    answer = amd_ctk("config", *words)

    assert (answer.returncode, answer.stdout, answer.stderr) == (8, "", f"{sentence}\n")
    assert os.listdir(config_toml.parent) == []


def test_a_config_that_means_nothing_is_named_and_left_alone(served: Host, config_toml: Path, amd_ctk) -> None:
    config_toml.write_text('unkown-gpus = "ignore"\n')

    for words in [("show",), ("compile",), ("set", "log-level", "warn")]:
        answer = amd_ctk("config", *words)
        assert answer.returncode == 8
        assert answer.stderr == f"{config_toml}: there is no setting unkown-gpus (did you mean unknown-gpus?)\n"

    assert config_toml.read_text() == 'unkown-gpus = "ignore"\n'
    assert amd_ctk("config", "unset", "unkown-gpus").stdout == UPDATED


def test_a_config_that_is_not_toml_is_named(served: Host, config_toml: Path, amd_ctk) -> None:
    config_toml.write_text("log-level = \n")

    answer = amd_ctk("config", "show")

    assert (answer.returncode, answer.stdout) == (8, "")
    assert answer.stderr.startswith(f"{config_toml} cannot be read: ")


def test_a_low_level_runtime_that_others_may_replace_is_refused(served: Host, amd_ctk, tmp_path) -> None:
    program = tmp_path / "bin/runc"
    program.parent.mkdir()
    program.touch(0o755)
    program.chmod(0o757)

    refused = amd_ctk("config", "set", "low-level-runtime", program)

    assert (refused.returncode, refused.stderr) == (
        8,
        (
            f"the low-level runtime {program} can be replaced by users other than root, who may write to {program}"
            f" (make it writable by root only; 'ls -ld {program}' shows its owner and mode)\n"
        ),
    )
    program.chmod(0o755)
    assert amd_ctk("config", "set", "low-level-runtime", program).stdout == UPDATED


def test_no_directory_that_is_made_may_be_written_by_others(tmp_path, amd_ctk, served: Host) -> None:
    os.rmdir(served.path("/etc/amd-container-toolkit"))
    before = os.umask(0)
    try:
        amd_ctk("config", "set", "log-level", "debug")
    finally:
        os.umask(before)

    assert os.stat(served.path("/etc/amd-container-toolkit")).st_mode & 0o777 == 0o755


def test_a_group_that_no_host_could_have_is_refused(served: Host, amd_ctk) -> None:
    answer = amd_ctk("config", "set", "gpu-groups", "notebooks=0", "training=garbage")

    assert (answer.returncode, answer.stderr) == (
        8,
        (
            "the group training: 'garbage' is not a GPU number, range, unique id or PCI address"
            " (as in gpu-groups notebooks=0-1)\n"
        ),
    )
    assert read_settings(served).gpu_groups == ()


def test_groups_of_gpus_are_a_list(served: Host, amd_ctk) -> None:
    answer = amd_ctk("config", "set", "gpu-groups", "notebooks=0,2", "training=1-3")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, UPDATED, "")
    assert read_settings(served).gpu_groups == ("notebooks=0,2", "training=1-3")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_without_access_to_the_settings_reads_what_to_do():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(FileError) as refused:
                set_setting(Host(directory), "unknown-gpus", "ignore")
        finally:
            os.seteuid(0)

    assert str(refused.value) == (
        f"{directory}/etc/amd-container-toolkit/config.toml cannot be written: access is refused"
        " (run the command with sudo)"
    )
