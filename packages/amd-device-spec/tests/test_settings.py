from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amd_device_spec.settings import (
    COMPILED_FILE,
    CONFIG_FILE,
    Settings,
    SettingsError,
    check_settings,
    format_compiled,
    parse_compiled,
    parse_time,
    read_settings,
    stamp,
)
from amdgpu_discovery.host import Host

needs_tomllib = pytest.mark.skipif(sys.version_info < (3, 11), reason="this python cannot read TOML")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "etc/amd-container-toolkit").mkdir(parents=True)
    return Host(tmp_path)


def write(host: Host, path: str, content: str | bytes) -> Path:
    file = Path(host.path(path))
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def compile_settings(host: Host, values: dict[str, object]) -> None:
    source = os.stat(host.path(CONFIG_FILE))
    write(host, COMPILED_FILE, format_compiled(values, stamp(source)))


def test_a_host_without_a_config_has_the_defaults(host: Host) -> None:
    settings = read_settings(host)

    assert settings.as_dict() == {
        "unknown_gpus": "error",
        "device_mode": "open",
        "low_level_runtime": "",
        "swarm_resources": ("AMD_GPU", "GPU", "GPU_COMPUTE"),
        "swarm_resource_names": "uuid",
        "swarm_vram_resources": (),
        "swarm_vram_headroom": 0,
        "vram_limit": "asked",
        "vram_maximum": 0,
        "share_by_vram": "no",
        "visible_devices_env": "always",
        "privileged_claims": "requested",
        "slurm_filters": "remove",
        "image_requirements": "enforce",
        "gpu_groups": (),
        "integrated_gpus": "include",
        "drained_in_all": "skip",
        "allow_sick_gpus": "no",
        "allow_dirty_gpus": "no",
        "clean": "no",
        "bad_page_limit": 0,
        "temperature_limit": 0,
        "users": (),
        "queue_order": "fair",
        "job_names": "public",
        "gpu_access": "group",
        "idle": "",
        "history_days": 400,
        "history_names": "names",
        "log_level": "info",
        "log_file": "",
    }


def test_a_compiled_form_without_its_config_counts_for_nothing(host: Host) -> None:
    toml = write(host, CONFIG_FILE, 'unknown-gpus = "ignore"\n')
    compile_settings(host, {"unknown-gpus": "ignore"})
    toml.unlink()

    assert read_settings(host) == Settings()


def test_the_compiled_form_is_read_while_its_config_is_as_it_was(host: Host) -> None:
    write(host, CONFIG_FILE, "not even TOML")
    compile_settings(host, {"unknown-gpus": "ignore", "swarm-resources": ["AMD_GPU", "VF"], "log-file": "/tmp/a b.log"})

    assert read_settings(host) == Settings(
        unknown_gpus="ignore", swarm_resources=("AMD_GPU", "VF"), log_file="/tmp/a b.log"
    )


def test_an_empty_list_of_resources_stays_empty_when_compiled(host: Host) -> None:
    write(host, CONFIG_FILE, "swarm-resources = []\nswarm-vram-resources = []\n")
    compile_settings(host, {"swarm-resources": [], "swarm-vram-resources": []})

    assert read_settings(host) == Settings(swarm_resources=(), swarm_vram_resources=())


def test_kinds_of_memory_are_read_in_their_compiled_form(host: Host) -> None:
    write(host, CONFIG_FILE, 'swarm-vram-resources = ["VRAM", "GPU_MB"]\n')
    compile_settings(host, {"swarm-vram-resources": ["VRAM", "GPU_MB"]})

    assert read_settings(host).swarm_vram_resources == ("VRAM", "GPU_MB")


def test_an_amount_is_a_number_whether_it_was_compiled_or_not(host: Host) -> None:
    write(host, CONFIG_FILE, "swarm-vram-headroom = 300\n")
    compile_settings(host, {"swarm-vram-headroom": 300})

    assert read_settings(host).swarm_vram_headroom == 300
    assert check_settings({"swarm-vram-headroom": 9_999_999}, "c.toml").swarm_vram_headroom == 9_999_999


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("60m", 3600), ("2h", 7200), ("1d", 86400), ("", 0), ("60", 0), ("-1m", 0), ("1.5h", 0), ("m", 0)],
)
def test_a_length_of_time_has_a_unit(text: str, seconds: int) -> None:
    assert parse_time(text) == seconds


@needs_tomllib
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda file: file.write_text('unknown-gpus = "error"\n'), id="edited"),
        pytest.param(lambda file: os.utime(file, (1, 1)), id="replaced by an older one"),
        pytest.param(lambda file: os.utime(file, (2**33, 2**33)), id="from the future"),
    ],
)
def test_a_config_that_is_not_what_was_compiled_is_read_itself(host: Host, change: Callable[[Path], object]) -> None:
    toml = write(host, CONFIG_FILE, 'unknown-gpus = "error"\n')
    write(host, COMPILED_FILE, format_compiled({"unknown-gpus": "ignore"}, "1.1"))
    change(toml)

    assert read_settings(host).unknown_gpus == "error"


@needs_tomllib
def test_a_config_that_nobody_compiled_is_read_itself(host: Host) -> None:
    write(host, CONFIG_FILE, 'visible-devices-env = "never" # comment\n')

    assert read_settings(host) == Settings(visible_devices_env="never")


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="this python reads TOML")
def test_a_python_that_cannot_read_toml_asks_for_it_to_be_compiled(host: Host) -> None:
    path = write(host, CONFIG_FILE, 'visible-devices-env = "never"\n')

    with pytest.raises(SettingsError) as refused:
        read_settings(host)

    problem = f"{path} was changed since it was compiled, and python 3.10 cannot read it"
    assert str(refused.value) == f"{problem} (run 'sudo amd-ctk config compile')"


@needs_tomllib
def test_a_config_that_is_not_toml_is_an_error_that_names_it(host: Host) -> None:
    path = write(host, CONFIG_FILE, "unknown-gpus = ")

    with pytest.raises(SettingsError) as refused:
        read_settings(host)

    assert refused.value.message.startswith(f"{path} cannot be read: Invalid value")
    assert refused.value.hint == "fix it, or delete it to use the defaults"


def test_a_config_that_is_a_directory_is_an_error(host: Host) -> None:
    Path(host.path(CONFIG_FILE)).mkdir()
    Path(host.path(COMPILED_FILE)).mkdir()

    with pytest.raises(SettingsError, match=r"cannot be read: it is a directory$"):
        read_settings(host)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"unknown-gpu": "error"}, "there is no setting unknown-gpu (did you mean unknown-gpus?)"),
        ({"device_mode": "open"}, "there is no setting device_mode (did you mean device-mode?)"),
        ({"LogFile": "open"}, "there is no setting LogFile (did you mean log-file?)"),
        ({"device-mode": "0660"}, 'device-mode cannot be "0660" (it is one of open, host)'),
        ({"idle": "60"}, 'idle is not a length of time: "60" (as in idle = "60m", or "" for never)'),
        ({"log-level": 3}, 'log-level is not a line of text (as in log-level = "info")'),
        (
            {"low-level-runtime": "bin/runc"},
            "low-level-runtime is neither a name nor an absolute path: bin/runc (as in crun, or /usr/bin/crun)",
        ),
        ({"log-file": "a.log"}, "log-file is not an absolute path: a.log (as in /var/log/amd-container-runtime.log)"),
        ({"log-file": "/a\nb"}, 'log-file is not a line of text (as in log-file = "")'),
        (
            {"swarm-resources": "GPU"},
            'swarm-resources is not a list of resource kinds (as in swarm-resources = ["AMD_GPU"])',
        ),
        (
            {"swarm-vram-resources": "VRAM"},
            'swarm-vram-resources is not a list of resource kinds (as in swarm-vram-resources = ["VRAM"])',
        ),
        (
            {"swarm-vram-resources": ["VRAM", "GPU"]},
            "GPU cannot name GPUs and count VRAM at once (see swarm-resources and swarm-vram-resources)",
        ),
        *(
            (
                {"swarm-vram-headroom": value},
                "swarm-vram-headroom is not a number of MiB (as in swarm-vram-headroom = 300)",
            )
            for value in (-1, "-1", "", "3e2", "\u0663", True, 0.5, None, [300], 10_000_000, "10000000")
        ),
        (
            {"swarm-resources": ["A B"]},
            'swarm-resources is not a list of resource kinds (as in swarm-resources = ["AMD_GPU"])',
        ),
    ],
)
def test_a_setting_that_means_nothing_is_named(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        check_settings(values, "c.toml")

    assert str(refused.value) == f"c.toml: {sentence}"


def test_the_compiled_form_is_lines_that_a_shell_can_read() -> None:
    values = {"low-level-runtime": "/usr/bin/crun", "swarm-resources": ["GPU", "VF"]}

    compiled = format_compiled(values, "17.42")

    assert compiled == (
        b"# Compiled from config.toml by amd-ctk; edit that file, or use 'amd-ctk config set'.\n"
        b"source=17.42\nlow-level-runtime=/usr/bin/crun\nswarm-resources=GPU VF\n"
    )
    assert parse_compiled(compiled, "17.42") == values
    assert parse_compiled(compiled, "17.43") is None


def test_the_source_of_a_compiled_form_counts_in_its_second_line_only() -> None:
    compiled = b"# Compiled\nsource=17.43\nlow-level-runtime=crun\nsource=17.42\n"

    assert parse_compiled(compiled, "17.42") is None


def test_compiled_settings_cost_no_heavy_import(host: Host) -> None:
    write(host, CONFIG_FILE, "")
    compile_settings(host, {"unknown-gpus": "ignore"})
    program = (
        "import sys\nfrom amdgpu_discovery.host import Host\nfrom amd_device_spec.settings import read_settings\n"
        f"read_settings(Host({host.root!r}))\nprint({{'re', 'json', 'tomllib', 'difflib'}} & set(sys.modules))"
    )
    modules = [
        os.path.dirname(os.path.dirname(sys.modules[name].__file__ or ""))
        for name in ("amdgpu_discovery", "amd_device_spec")
    ]

    seen = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": ":".join(modules)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert seen.stdout == "set()\n"


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ("notebooks=0", 'gpu-groups is not a list of groups (as in gpu-groups = ["notebooks=0-1"])'),
        ([1], 'gpu-groups is not a list of groups (as in gpu-groups = ["notebooks=0-1"])'),
        (["a"], 'gpu-groups has "a", which is not NAME=GPUS (as in gpu-groups = ["notebooks=0-1"])'),
        (["a="], 'gpu-groups has "a=", which is not NAME=GPUS (as in gpu-groups = ["notebooks=0-1"])'),
        (["-a=0"], 'gpu-groups has "-a=0", which is not NAME=GPUS (as in gpu-groups = ["notebooks=0-1"])'),
        (["a=0, 1"], 'gpu-groups has "a=0, 1", which is not NAME=GPUS (as in gpu-groups = ["notebooks=0-1"])'),
        (["a=auto:1"], 'gpu-groups has "a=auto:1", which is not NAME=GPUS (as in gpu-groups = ["notebooks=0-1"])'),
        (["a=0", "a=1"], "gpu-groups has two groups a (give each a name of its own)"),
    ],
)
def test_a_group_is_a_name_and_gpus(groups: object, sentence: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        check_settings({"gpu-groups": groups}, "F")

    assert str(refusal.value) == f"F: {sentence}"


def test_groups_survive_being_compiled(host: Host) -> None:
    write(host, CONFIG_FILE, "not even TOML")
    compile_settings(host, {"gpu-groups": ["notebooks=0,2", "training=1-3"]})

    assert read_settings(host) == Settings(gpu_groups=("notebooks=0,2", "training=1-3"))


@needs_tomllib
def test_brackets_without_end_are_one_message(host: Host) -> None:
    path = write(host, CONFIG_FILE, f"x = {'[' * 2000}\n")

    with pytest.raises(SettingsError) as raised:
        read_settings(host)

    assert str(raised.value) == (
        f"{path} cannot be read: it is nested too deeply (fix it, or delete it to use the defaults)"
    )


def test_a_setting_that_a_later_version_compiled_stops_no_start(host: Host) -> None:
    write(host, CONFIG_FILE, 'unknown-gpus = "ignore"\nof-tomorrow = "x"\n')
    compile_settings(host, {"unknown-gpus": "ignore", "of-tomorrow": "x"})

    assert read_settings(host) == Settings(unknown_gpus="ignore")


@needs_tomllib
def test_a_setting_that_was_mistyped_is_refused(host: Host) -> None:
    path = write(host, CONFIG_FILE, 'unknwon-gpus = "ignore"\n')

    with pytest.raises(SettingsError) as raised:
        read_settings(host)

    assert str(raised.value) == f"{path}: there is no setting unknwon-gpus (did you mean unknown-gpus?)"
