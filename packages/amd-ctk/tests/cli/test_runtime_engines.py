"""amd-ctk runtime configure for Podman, CRI-O and containerd."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = "/usr/bin/amd-container-runtime"
PODMAN = """\
# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=podman --remove'.

[engine.runtimes]
amd = ["/usr/bin/amd-container-runtime"]
"""
CRIO = """\
# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=crio --remove'.

[crio.runtime.runtimes.amd]
runtime_path = "/usr/bin/amd-container-runtime"
runtime_type = "oci"
"""
CONTAINERD = """\
version = 2

[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]
BinaryName = "/usr/bin/amd-container-runtime"
"""
MAIN_WITH_IMPORTS = """\
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true # as the kubelet
"""
NEEDED = "and runtimes need version 2, 3 or 4 ('containerd config migrate' prints a newer form of it)"
DROP_IN = """\
# AMD GPUs in containers; remove with 'amd-ctk runtime configure --runtime=containerd --remove'.
version = 3

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.amd]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.amd.options]
SystemdCgroup = true
BinaryName = "/usr/bin/amd-container-runtime"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "host/etc").mkdir(parents=True)
    return tmp_path / "host"


@pytest.fixture
def configure(root: Path, amd_ctk, tmp_path: Path):
    """Return a function that runs the command on the test's host, where no engine is installed."""
    return lambda *words: amd_ctk("runtime", "configure", f"--runtime-path={PROGRAM}", *words, PATH=str(tmp_path))


@pytest.mark.parametrize(
    ("engine", "path", "text", "restart"),
    [
        ("podman", "/etc/containers/containers.conf.d/99-amd.conf", PODMAN, ""),
        ("crio", "/etc/crio/crio.conf.d/99-amd.conf", CRIO, "Please restart crio daemon\n"),
        ("containerd", "/etc/containerd/config.toml", CONTAINERD, "Please restart containerd daemon\n"),
    ],
)
def test_an_engine_gets_a_file_of_the_toolkit_and_loses_it_again(
    configure, root: Path, engine: str, path: str, text: str, restart: str
) -> None:
    updated = f"Updated the config file: {path}\n{restart}"

    assert configure(f"--runtime={engine}").stdout == updated
    assert Path(f"{root}{path}").read_text() == text
    assert configure(f"--runtime={engine}").stdout == (
        f"Loading configuration from: {path}\nThe config file is up to date: {path}\n"
    )
    assert configure(f"--runtime={engine}", "--remove").stdout == (
        f"Loading configuration from: {path}\nRemoved the config file: {path}\n{restart}"
    )
    assert not Path(f"{root}{path}").exists()


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("podman", 'runtime = "amd"'),
        ("crio", 'default_runtime = "amd"'),
        ("containerd", 'default_runtime_name = "amd"'),
    ],
)
def test_the_default_is_set_and_unset(configure, engine: str, line: str) -> None:
    asked = f"--runtime={engine}"
    configure(asked, "--set-as-default")
    assert line in configure(asked, "--dry-run").stdout.splitlines()

    answer = configure(asked, "--unset-as-default")

    assert "Removed amd as the default runtime\n" in answer.stdout
    left = configure(asked, "--dry-run").stdout
    assert line not in left.splitlines()
    assert PROGRAM in left


@pytest.mark.parametrize("version", ["version = 3", "version = 4"])
def test_containerd_gets_a_drop_in_where_its_main_file_imports_and_merges_one(
    configure, root: Path, version: str
) -> None:
    main = root / "etc/containerd/config.toml"
    main.parent.mkdir()
    main.write_text(MAIN_WITH_IMPORTS.replace("version = 3", version))

    answer = configure("--runtime=containerd")

    assert answer.stdout == (
        "Updated the config file: /etc/containerd/conf.d/99-amd.toml\nPlease restart containerd daemon\n"
    )
    assert (root / "etc/containerd/conf.d/99-amd.toml").read_text() == DROP_IN.replace("version = 3", version)
    assert main.read_text() == MAIN_WITH_IMPORTS.replace("version = 3", version)
    assert "Removed the config file" in configure("--runtime=containerd", "--remove").stdout


def test_a_drop_in_follows_the_version_of_the_main_file(configure, root: Path) -> None:
    main = root / "etc/containerd/config.toml"
    main.parent.mkdir()
    main.write_text(MAIN_WITH_IMPORTS)
    configure("--runtime=containerd")
    main.write_text(MAIN_WITH_IMPORTS.replace("version = 3", "version = 4"))

    answer = configure("--runtime=containerd")

    assert "Updated the config file: /etc/containerd/conf.d/99-amd.toml\n" in answer.stdout
    drop_in = root / "etc/containerd/conf.d/99-amd.toml"
    assert drop_in.read_text() == DROP_IN.replace("version = 3", "version = 4")
    assert "is up to date" in configure("--runtime=containerd").stdout
    assert "Removed the config file" in configure("--runtime=containerd", "--remove").stdout


def test_a_main_file_of_version_4_without_imports_gets_the_runtime_where_version_3_has_it(
    configure, root: Path
) -> None:
    main = root / "etc/containerd/config.toml"
    main.parent.mkdir()
    main.write_text("version = 4\n")

    configure("--runtime=containerd")

    assert "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.amd]" in main.read_text().replace('"', "'")
    configure("--runtime=containerd", "--remove")
    assert main.read_text() == "version = 4\n"


@pytest.mark.parametrize(
    "main",
    [
        pytest.param(MAIN_WITH_IMPORTS.replace("version = 3", "version = 2"), id="which would replace a whole section"),
        pytest.param(MAIN_WITH_IMPORTS.replace("conf.d", "other.d"), id="which is not imported"),
    ],
)
def test_containerd_gets_no_drop_in(configure, root: Path, main: str) -> None:
    path = root / "etc/containerd/config.toml"
    path.parent.mkdir()
    path.write_text(main)

    answer = configure("--runtime=containerd")

    assert "Updated the config file: /etc/containerd/config.toml\n" in answer.stdout
    assert 'BinaryName = "/usr/bin/amd-container-runtime"' in path.read_text()
    assert not (root / "etc/containerd/conf.d").exists()


def test_the_cgroup_driver_of_runc_is_that_of_our_runtime(configure, root: Path) -> None:
    path = root / "etc/containerd/config.toml"
    path.parent.mkdir()
    path.write_text(
        "version = 2\n"
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]\n'
        'runtime_type = "io.containerd.runc.v2"\n'
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
        'BinaryName = "/opt/runc"\nSystemdCgroup = true\n'
    )

    configure("--runtime=containerd")

    assert path.read_text().endswith(
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]\n'
        'BinaryName = "/usr/bin/amd-container-runtime"\nSystemdCgroup = true\n'
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('disabled_plugins = ["cri"]\n', f"it has no version, which means 1, {NEEDED}"),
        ("version = 5\n", f"it has version 5, {NEEDED}"),
        ("version = [2]\n", f"it has version [2], {NEEDED}"),
        ("version = 2\nplugins = []\n", '"plugins" is not a table of keys and values'),
    ],
)
def test_a_containerd_file_that_cannot_hold_a_runtime_is_named(configure, root: Path, text: str, why: str) -> None:
    path = root / "etc/containerd/config.toml"
    path.parent.mkdir()
    path.write_text(text)

    answer = configure("--runtime=containerd")

    assert answer.returncode == 1
    assert answer.stderr == (
        "failed to init config for runtime engine: containerd | err: error decoding configuration file: "
        f"/etc/containerd/config.toml | err: {why}\n"
    )
    assert path.read_text() == text


@pytest.mark.parametrize("engine", ["podman", "crio", "containerd"])
@pytest.mark.parametrize("text", ["x = [", "\x00", "x = 1\nx = 2\n"])
def test_a_file_that_is_not_toml_is_named_and_left_alone(configure, tmp_path: Path, engine: str, text: str) -> None:
    path = tmp_path / "host/config"
    path.write_text(text)

    answer = configure(f"--runtime={engine}", "--config-path=/config")

    assert answer.returncode == 1
    assert answer.stderr.startswith(
        f"failed to init config for runtime engine: {engine} | err: error decoding configuration file: /config | err: "
    )
    assert path.read_text() == text


def test_an_engine_that_refuses_keeps_its_file(configure, root: Path, amd_ctk, tmp_path: Path) -> None:
    crio = tmp_path / "crio"
    crio.write_text('#!/bin/sh\necho "validating runtime config: no" >&2\nexit 1\n')
    crio.chmod(0o755)

    refused = configure("--runtime=crio")
    forced = configure("--runtime=crio", "--no-validate")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "crio refuses the new /etc/crio/crio.conf.d/99-amd.conf: validating runtime config: no "
        "(nothing was changed; use --no-validate to skip this check)\n"
    )
    assert forced.returncode == 0
    assert (root / "etc/crio/crio.conf.d/99-amd.conf").read_text() == CRIO
