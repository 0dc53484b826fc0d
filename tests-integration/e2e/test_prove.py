"""`amd-ctk doctor --prove` with engines: no driver answers behind the nodes of a simulated host, and it says so."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from amd_ctk.prove import probe
from amdgpu_discovery.discover import find_gpus
from support.installed import engine_program, our_program, require_root

pytestmark = pytest.mark.e2e

NO_GPU = "no driver answers behind the nodes: this is not a GPU"


def prove(directory, host_root, **environment):
    return subprocess.run(
        [our_program("amd-ctk"), "doctor", "--prove"],
        cwd=directory,
        env={"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "AMD_CTK_HOST_ROOT": host_root, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def engines(docker, podman, mi300x, tmp_path):
    """Return a function that runs the command with Docker and Podman of one's own."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "podman").write_text(f'#!/bin/sh\nexec {" ".join(podman.command())} "$@"\n')
    (programs / "podman").chmod(0o755)
    runtimes = f'[engine.runtimes]\namd = ["{podman.runtime}"]\n'
    settings = Path(podman.environment["CONTAINERS_CONF"])
    settings.write_text(f"{settings.read_text().partition('[engine.runtimes]')[0]}{runtimes}")
    # Podman reads no other file where this variable is set; the simulated host has it under the same path.
    of_host = Path(mi300x.path(podman.environment["CONTAINERS_CONF"]))
    of_host.parent.mkdir(parents=True, exist_ok=True)
    of_host.write_text(runtimes.replace(podman.runtime, "/usr/bin/amd-container-runtime"))
    # That of this machine is none of the test's.
    containerd = f"{docker.directory}/containerd.sock"
    path = f"{programs}:{os.environ['PATH']}:/usr/sbin:/sbin"

    def run(**environment):
        told = {
            "DOCKER_HOST": f"unix://{docker.socket}",
            "CONTAINERD_ADDRESS": containerd,
            **podman.environment,
            **environment,
        }
        return prove(tmp_path, mi300x.root, **{**told, "PATH": path})

    yield run
    of_host.unlink()


@pytest.mark.docker
@pytest.mark.podman
def test_nodes_without_a_driver_prove_nothing(engines, docker, podman, tmp_path):
    ended = engines()

    assert ended.returncode == 1
    rows = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    for engine in ("docker", "podman", "containerd"):
        assert [row[1:] for row in rows if row[0] == engine] == [[str(gpu), f"no GPU  {NO_GPU}"] for gpu in range(8)]
    assert "Wrote amd-gpu-proof.json" in ended.stderr
    written = json.loads((tmp_path / "amd-gpu-proof.json").read_text())
    assert {result["state"] for result in written["results"]} == {"no GPU"}
    assert written["gpus"][0] == {
        "number": 0,
        "target": "gfx942",
        "device_id": "0x74a1",
        "compute_partition": "SPX",
        "memory_partition": "NPS1",
        "integrated": False,
    }
    assert podman("images", "-q", "localhost/amd-ctk-proof").stdout == ""
    assert docker("images", "-q", "localhost/amd-ctk-proof").stdout == ""


@pytest.mark.docker
def test_a_gpu_in_use_is_left_alone_and_named(engines, start, mi300x):
    subprocess.run(
        [our_program("amd-ctk"), "gpu-tracker", "enable"], env={"AMD_CTK_HOST_ROOT": mi300x.root}, check=True
    )
    try:
        start("3", "--name=busy")
        rows = [line.split(maxsplit=3) for line in engines().stdout.splitlines()]
    finally:
        subprocess.run(
            [our_program("amd-ctk"), "gpu-tracker", "disable"], env={"AMD_CTK_HOST_ROOT": mi300x.root}, check=True
        )

    (row,) = (row for row in rows if row[:2] == ["docker", "3"])
    assert row[2:] == ["skipped", "reserved by busy"]


def test_without_an_engine_nothing_is_proved(mi300x, tmp_path):
    ended = prove(tmp_path, mi300x.root, PATH="/nowhere")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "no container engine answers (start Docker or Podman, and run this with sudo)\n"


# --- the kernel's answers, as strace plays them

ENTRY = 56


def aperture_bytes(*gpu_ids):
    """Return the argument of AMDKFD_IOC_GET_PROCESS_APERTURES_NEW as KFD fills it, from its count on."""
    entries = b"".join(bytes(48) + gpu_id.to_bytes(4, "little") + bytes(4) for gpu_id in gpu_ids)
    return len(gpu_ids).to_bytes(4, "little") + bytes(4) + entries


def probe_with(tmp_path, poked):
    """Run the probe where /dev/kfd is a plain file, with an ioctl that answers this; return what it printed."""
    require_root()
    kfd = tmp_path / "kfd"
    kfd.write_bytes(b"")
    hexadecimal = (bytes(8) + poked).hex()
    program = tmp_path / "probe.py"
    source = Path(probe.__file__).read_text(encoding="utf-8")
    program.write_text(source.replace('"/dev/kfd"', f'"{kfd}"').replace('"/dev/dri"', f'"{tmp_path}/dri"'))
    inject = f"inject=ioctl:retval=0:poke_exit=@arg3={hexadecimal}"
    words = [
        engine_program("strace"),
        "-qq",
        "-o",
        tmp_path / "trace",
        "-P",
        kfd,
        "-e",
        "trace=ioctl,openat",
        "-e",
        inject,
    ]
    ended = subprocess.run(
        [*words, our_program("python"), "-ISB", program, ""], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout.replace(str(kfd), "/dev/kfd").replace(f"{tmp_path}/dri", "/dev/dri")
    return printed, (tmp_path / "trace").read_text()


def test_the_probe_reads_what_the_kernel_lists(tmp_path):
    printed, trace = probe_with(tmp_path, aperture_bytes(12261, 51030))

    assert printed == "open /dev/kfd 0\nlisted 12261 0\nlisted 51030 0\n"
    assert "AMDKFD_IOC_GET_PROCESS_APERTURES_NEW" in trace or "0x4b, 0x14, 0x10" in trace


def test_a_count_beyond_the_room_is_cut(tmp_path):
    printed, _ = probe_with(tmp_path, (1 << 31).to_bytes(4, "little"))

    assert printed.count("listed") == 512


# A Docker with the runtime, whose containers print what the probe printed.
DOCKER = """#!/bin/sh
case $1 in
    info) echo '{"ServerVersion": "28.5.2", "Runtimes": {"runc": {}, "amd": {}}, "DefaultRuntime": "runc"}' ;;
    import) cat >/dev/null ;;
    run) cat PRINTED ;;
esac
"""


def test_one_gpu_too_many_in_the_kernels_answer_ends_the_command_with_1(mi300x, tmp_path):
    first, second, *_ = find_gpus(mi300x)
    (tmp_path / "dri").mkdir()
    for gpu in (first, second):
        (tmp_path / "dri" / os.path.basename(gpu.render_path)).touch()
    printed, _ = probe_with(tmp_path, aperture_bytes(first.gpu_id, second.gpu_id))
    (tmp_path / "printed").write_text(printed)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in (("docker", DOCKER.replace("PRINTED", f"{tmp_path}/printed")), ("podman", ""), ("ctr", "")):
        (programs / name).write_text(script or "#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)

    ended = prove(tmp_path, mi300x.root, PATH=f"{programs}:{os.environ['PATH']}")

    assert ended.returncode == 1
    assert ended.stdout.splitlines()[1] == "docker  0    failed  the container can use GPUs 0, 1"
