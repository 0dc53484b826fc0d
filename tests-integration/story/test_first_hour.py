"""The first hour of two people on a booted machine: pages as written, wrong lines, TAB, and a roll-back.

alice may use sudo and Docker; bob may use neither, and is in the group render.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support.busybox import pack_rocm
from support.debian_root import typed_root
from support.documentation import NOT_RUN, read_page
from support.installed import require_root
from support.stand import APT, ONLY_OURS, Stand
from support.system import can_boot
from support.terminal import on_terminal
from support.transcripts import Section, Step, parse_page
from support.typed import check, check_typed

pytestmark = [pytest.mark.e2e, pytest.mark.story]

PROGRAMS = {"python3": "ls /dev/dri | grep -c renderD", "vllm": 'echo "$@"'}
DOCKER_IMAGES = ("rocm/rocm-terminal", "rocm/pytorch", "rocm/vllm")
PODMAN_IMAGE = "docker.io/rocm/rocm-terminal"
# The machine has no other network than lo, and may not grant Podman's default limits.
CONTAINERS_CONF = """\
[containers]
netns = "none"
default_sysctls = []
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
pids_limit = 0
[engine]
events_logger = "file"
runtime = "runc"
"""
# crun raises a limit when it is root, which it may not here; without root, only crun keeps groups.
OF_USERS = '[engine]\nruntime = "crun"\n'
PREPARE = f"""
usermod --append --groups sudo,docker --shell /bin/bash alice
usermod --shell /bin/bash bob
echo 'alice ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/alice
echo 'DOCKER_OPTS="--bridge=none"' >>/etc/default/docker
rm -f /etc/containers/storage.conf
systemctl restart docker
for name in {" ".join(DOCKER_IMAGES)}; do docker import /run/shared/rocm.tar $name; done
podman import --quiet /run/shared/rocm.tar {PODMAN_IMAGE} 2>&1
chmod 644 /run/shared/rocm.tar
"""
# Else systemd refuses to start Docker so often within a minute.
FORGET = "systemctl reset-failed docker.service amd-gpu-tracker.service 2>/dev/null"
FRESH = f"""
containers=$(docker ps --all --quiet)
[ -z "$containers" ] || docker rm --force $containers
amd-ctk users deny --all; amd-ctk gpu-tracker disable
amd-ctk runtime configure --remove --all; amd-ctk cdi remove --all; rm -rf /etc/cdi
systemctl disable --now amd-gpu-tracker.socket; systemctl stop amd-gpu-tracker.service
rm -rf /var/lib/amd-container-toolkit/* /etc/amd-container-toolkit/* /run/amd-container-toolkit/*
find /home/alice -mindepth 1 -maxdepth 1 ! -name '.*' -exec rm -r {{}} +
{FORGET}
"""
ALL_NODES = ("kfd", *(f"dri/card{n}" for n in range(1, 5)), *(f"dri/renderD{n}" for n in range(128, 132)))
ALL = "\n".join(f"/dev/{node} ... 666 0:... opens" for node in ALL_NODES)
# In a rootless container nobody owns the nodes, and the group is kept.
KEPT = "\n".join(f"/dev/{node} ... 660 65534:65534 opens" for node in ALL_NODES)
GPU_0 = ALL_NODES[0], "dri/card3", "dri/renderD130"
GPUS_0_1 = ALL_NODES[0], "dri/card3", "dri/card4", "dri/renderD130", "dri/renderD131"
ONE = "\n".join(f"/dev/{node} ... 666 0:... opens" for node in GPU_0)
TWO = "\n".join(f"/dev/{node} ... 666 0:... opens" for node in GPUS_0_1)
ONE_KEPT = "\n".join(f"/dev/{node} ... 660 65534:65534 opens" for node in GPU_0)
NO_CDI = "docker: amd.com/gpu={} is not an absolute path.\nSee 'docker run --help'."
# Lines that pages show without output. Docker of Debian 12 has no CDI, and says so as docs/how-to/troubleshoot.md does.
SAID = {
    f"sudo podman run --rm --device amd.com/gpu=all {PODMAN_IMAGE} rocm-smi": ALL,
    f"podman run --rm --group-add keep-groups --device amd.com/gpu=all {PODMAN_IMAGE} rocm-smi": KEPT,
    f"sudo docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all {PODMAN_IMAGE} rocm-smi": ALL,
    f"sudo podman run --rm --device amd.com/gpu=0xEA35F57CC80DEB35 {PODMAN_IMAGE} rocm-smi": ONE,
    f"sudo podman run --rm --device amd.com/gpu=0000:03:00.0 {PODMAN_IMAGE} rocm-smi": ONE,
    f"podman run --rm --device amd.com/gpu=0 --group-add keep-groups {PODMAN_IMAGE} rocm-smi": ONE_KEPT,
    "sudo amd-ctk runtime configure --restart": "...\nRestarted docker daemon",
    "sudo systemctl restart docker": "",
}
BY_CDI = {
    f"sudo docker run --rm --device amd.com/gpu=all {PODMAN_IMAGE} rocm-smi": ALL,
    "docker run --rm --device amd.com/gpu=all rocm/rocm-terminal rocm-smi": ALL,
    "docker run --rm --device amd.com/gpu=0 --device amd.com/gpu=1 rocm/rocm-terminal rocm-smi": TWO,
}
# What pages show of a machine without containerd, and without the image.
OTHERWISE = {
    "sudo amd-ctk runtime configure --runtime=containerd": (
        "Loading configuration from: /etc/containerd/config.toml\n"
        "Updated the config file: /etc/containerd/config.toml\n"
        "Please restart containerd daemon"
    ),
    "amd-ctk explain -- docker run --rm -it -e AMD_VISIBLE_DEVICES=0 rocm/pytorch": (
        "AMD_VISIBLE_DEVICES=0  is not read\n"
        "The container gets no GPU\n"
        "config.json is not changed\n"
        "problem: AMD_VISIBLE_DEVICES is not read: the container runs under runc: add --runtime=amd"
    ),
}
PAGES = (
    "README.md",
    *(
        f"docs/how-to/{name}.md"
        for name in ("install", "run-containers", "configure-engines", "cdi", "compose", "gpu-tracker", "service-gpus")
    ),
    *(f"docs/how-to/{name}.md" for name in ("explain", "doctor", "report", "check-images", "limit-gpu-memory")),
)
# It breaks a simulated host, which a variable names.
BREAKS = "AMD_CTK_HOST_ROOT"


def is_typed(step: Step) -> bool:
    return step.command not in NOT_RUN or step.command in SAID or step.command in BY_CDI


def sections() -> Iterator[tuple[str, Section]]:
    """Yield what pages show of a machine with four MI210, by page and line."""
    for page in PAGES:
        for section in parse_page(read_page(page)):
            steps = [step for step in section.steps if is_typed(step)]
            if section.profile in ("", "mi210-4") and steps and not any(BREAKS in step.command for step in steps):
                yield f"{page}:{section.line}", section


SECTIONS = dict(sections())


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def stand(request, tmp_path_factory, rootfs):
    """Return a machine on which nothing was configured, and Docker, alice's Podman and bob's have the images."""
    require_root()
    if not can_boot():
        pytest.skip("this machine has no cgroup version 2, in which the stand boots")
    stand = Stand(tmp_path_factory.mktemp(request.param), request.param, root=typed_root(request.param))
    pack_rocm(rootfs, tmp_path_factory.mktemp("rocm"), PROGRAMS).rename(stand.shared / "rocm.tar")
    stand.write("/etc/containers/containers.conf", CONTAINERS_CONF)
    stand.write("/etc/containers/policy.json", '{"default": [{"type": "insecureAcceptAnything"}]}')
    for user in ("alice", "bob"):
        stand.write(f"/home/{user}/.config/containers/containers.conf", OF_USERS)
        stand.run(f"chown -R {user}:{user} /home/{user}/.config")
    stand.run(PREPARE)
    yield stand
    stand.stop()


@pytest.fixture(scope="module")
def shells(stand):
    """Return a shell of each user, in which the user is logged in."""
    with stand.open_shell("alice") as alice, stand.open_shell("bob") as bob:
        for shell in (alice, bob):
            shell.run(f"podman import --quiet /run/shared/rocm.tar {PODMAN_IMAGE}")
        yield {"alice": alice, "bob": bob}


def has_cdi(stand):
    return not stand.run("docker --version").startswith("Docker version 20.")


def expectation(step, stand):
    """Return a step of a page with what it prints on this machine."""
    output, code = SAID.get(step.command, OTHERWISE.get(step.command, step.expected)), step.exit_code
    if step.command in BY_CDI:
        output = BY_CDI[step.command]
        if not has_cdi(stand):
            output, code = NO_CDI.format("all" if "gpu=all" in step.command else "0"), 125
    return Step(command=step.command, line=step.line, expected=output, exit_code=code)


@pytest.mark.parametrize("place", SECTIONS)
def test_a_page_is_typed_as_written(stand, shells, place):
    commands = "\n".join(step.command for step in SECTIONS[place].steps)
    stand.run(FRESH, check=False)
    if "docker run" in commands and "runtime configure" not in commands:
        stand.run("amd-ctk runtime configure --restart")
    if not SECTIONS[place].profile:
        stand.run("amd-ctk cdi generate")

    for step in filter(is_typed, SECTIONS[place].steps):
        check(shells["alice"], expectation(step, stand))


ENGINE = "docker: Error response from daemon: ...: amd-container-runtime:"
WITHOUT_RIGHTS = """
bob$ amd-ctk gpu list
Found 4 AMD GPU devices
---------------------------------------------------------------------------
GPU Id    UUID                     DRM Devices
---------------------------------------------------------------------------
0         0xEA35F57CC80DEB35       /dev/dri/renderD130
1         0x89CAA15875FF5A43       /dev/dri/renderD131
2         0x6E32F10EFC982B4C       /dev/dri/renderD129
3         0x12FE4F7FDAF06B9        /dev/dri/renderD128
bob$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all rocm/rocm-terminal rocm-smi
docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: ...
See 'docker run --help'.
[126]
bob$ amd-ctk cdi generate
failed to write CDI spec: directory /etc/cdi cannot be made: access is refused (run the command with sudo)
[1]
bob$ amd-ctk runtime configure
failed to save the config: failed to open file: /etc/docker/daemon.json | err: access is refused (run the command with sudo)
[1]
bob$ amd-ctk gpu-tracker enable
changing the GPU Tracker needs root (run the command with sudo)
[3]
bob$ amd-ctk users allow everyone --gpus=2
changing the GPU Tracker needs root (run the command with sudo)
[3]
bob$ amd-ctk config set idle 60m
/etc/amd-container-toolkit/config.toml cannot be written: access is refused (run the command with sudo)
[5]
bob$ amd-ctk run --count=1 --wait -- true
the GPU Tracker is disabled, so no GPU can be reserved (run 'sudo amd-ctk gpu-tracker enable')
[11]
bob$ amd-ctk run --count=1 --detach --name=night -- true
auto needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'
[11]
bob$ amd-ctk reserve free:1 --for=1h
users cannot reserve GPUs on this host (the administrator enables it with 'sudo amd-ctk users allow NAME')
[3]
bob$ amd-ctk image check docker.io/rocm/rocm-terminal
not known: no file name in the image names a target (--deep looks into programs and libraries), and it does not say what it is for
[2]
"""  # noqa: E501 - as printed


def test_who_lacks_a_right_reads_who_has_it(stand, shells):
    stand.run(FRESH, check=False)

    check_typed(shells, WITHOUT_RIGHTS)


NOT_RESTARTED = """
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi
docker: Error response from daemon: ...nknown ... amd.
See 'docker run --help'.
[125]
alice$ amd-ctk explain docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi
AMD_VISIBLE_DEVICES=0  is not read
The container does not start:
  docker has no runtime amd (run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker')
[1]
alice$ sudo amd-ctk runtime configure
Updated the config file: /etc/docker/daemon.json
Please restart docker daemon
alice$ sudo amd-ctk doctor --only=docker,docker-file
docker       bad          ... was started before daemon.json had the runtime amd
                          fix: sudo systemctl restart docker
docker-file  ok           daemon.json is valid
2 checks: 1 ok, 1 bad, 0 notes, 0 not checked
[1]
bob$ amd-ctk runtime configure --restart
Loading configuration from: /etc/docker/daemon.json
docker was not restarted: ... (its configuration is changed; 'sudo systemctl restart docker' restarts it)
The config file is up to date: /etc/docker/daemon.json
[1]
alice$ sudo systemctl restart docker
"""
WRONG_REQUESTS = f"""
alice$ docker run --rm -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi
alice$ amd-ctk explain docker run --rm -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi
AMD_VISIBLE_DEVICES=0  is not read
The container gets no GPU
config.json is not changed
problem: AMD_VISIBLE_DEVICES is not read: the container runs under runc: add --runtime=amd
[1]
alice$ amd-ctk explain docker run --rm --runtime=amd rocm/rocm-terminal rocm-smi
AMD_VISIBLE_DEVICES  is not set, so the runtime gives no GPU (-e AMD_VISIBLE_DEVICES=all gives all)
The container gets no GPU
config.json is not changed
alice$ docker run --rm --gpus all rocm/rocm-terminal rocm-smi
docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].
[125]
alice$ amd-ctk explain docker run --rm --gpus all rocm/rocm-terminal rocm-smi
The container does not start:
  --gpus all: Docker ... does not know AMD GPUs (use --runtime=amd -e AMD_VISIBLE_DEVICES=0)
[1]
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=9 rocm/rocm-terminal rocm-smi
{ENGINE} AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)...
[125]
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=0,two rocm/rocm-terminal rocm-smi
{ENGINE} AMD_VISIBLE_DEVICES=0,two: 'two' is not a GPU number, range, unique id or PCI address (write GPUs 0-3)...
[125]
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=free:1 rocm/rocm-terminal rocm-smi
{ENGINE} free needs the GPU Tracker; enable it with 'sudo amd-ctk gpu-tracker enable'...
[125]
alice$ sudo amd-ctk doctor --container nothing
no container nothing is running here (give a name or an id of 'sudo docker ps' or 'sudo podman ps', or a process id, with sudo)
[2]
bob$ podman run --rm --group-add keep-groups --device amd.com/gpu=9 docker.io/rocm/rocm-terminal rocm-smi
Error: setting up CDI devices: unresolvable CDI devices amd.com/gpu=9
[126]
bob$ amd-ctk explain -- podman run --rm --device amd.com/gpu=9 docker.io/rocm/rocm-terminal rocm-smi
The container does not start:
  --device amd.com/gpu=9: no CDI spec of this host has this device ('amd-ctk cdi list --specs' shows them all; 'sudo amd-ctk cdi generate' writes those of AMD)
...
[1]
bob$ amd-ctk explain -- podman run --rm --device amd.com/gpu=0 docker.io/rocm/rocm-terminal rocm-smi
GPU  in the container           HIP  unique id             on the host
0    /dev/dri/renderD130 card3  -    GPU-ea35f57cc80deb35  0000:03:00.0
config.json is not changed
problem: user 1001 with groups 1001 may not open /dev/dri/renderD130, which is 0660 0:...: use crun with --group-add keep-groups
...
[1]
"""  # noqa: E501 - as printed


def test_an_engine_that_was_not_restarted_is_named_with_the_command(stand, shells):
    stand.run(f"{FRESH}systemctl restart docker; {FORGET}", check=False)

    check_typed(shells, NOT_RESTARTED)


def test_a_wrong_request_is_refused_or_explained_with_what_to_write(stand, shells):
    stand.run(f"{FRESH}amd-ctk cdi generate; amd-ctk runtime configure --restart", check=False)

    check_typed(shells, WRONG_REQUESTS)


SHARED = """
alice$ sudo amd-ctk users allow everyone --gpus=2 --time=24h
GPU Tracker has been enabled
GPUs [0 1 2 3] have been made exclusive
amd-gpu-tracker.socket has been enabled
everyone may reserve GPUs, at most 2 at once, for at most 24h
alice$ amd-ctk users list
Who       Number  GPUs at once  Time  Groups
everyone          2             24h   all GPUs
bob$ amd-ctk run --count=1 --wait -- sh -c 'echo $AMD_VISIBLE_DEVICES'
GPU 0 for at most 24 h 0 min
0
bob$ amd-ctk run --gpus=free:1 -- podman run --rm --group-add keep-groups docker.io/rocm/rocm-terminal ls /dev/dri
GPU 0 for at most 24 h 0 min
card3
renderD130
alice$ amd-ctk run --gpus=free:1 --wait -- docker run --rm --runtime=amd rocm/pytorch python3 train.py
GPU 0 for at most 24 h 0 min
1
bob$ amd-ctk reserve free:2 --for=4h --name=debug
GPUs 0 and 1 reserved as debug for 4 h 0 min
bob$ amd-ctk run --reservation=debug -- sh -c 'echo $AMD_VISIBLE_DEVICES'
GPUs 0 and 1 for at most 4 h 0 min
0,1
bob$ amd-ctk keep debug 6h
debug ends in 6 h 0 min
bob$ amd-ctk queue
Person  Name   GPUs  Numbers  Process  For...  Ends in
bob     debug  2     0,1      -        ...

No job waits for GPUs
"""
WRONG_RESERVATIONS = """
bob$ amd-ctk run --count=3 --wait -- true
you may have 2 GPUs at once, but this requests 3 (request fewer)
[3]
bob$ amd-ctk run --gpus=9 -- true
--gpus 9 is GPU number 9; for 9 free GPUs use --count 9
GPU 9 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)
[4]
bob$ amd-ctk reserve free:1 --for=48h
you may have GPUs for 24h at most (write --for=24h, or less)
[3]
bob$ amd-ctk reserve free:1 --for=4h --name=other
you have 2 of 2 GPUs ('amd-ctk run --wait' waits in line)
[1]
bob$ amd-ctk keep debug 30h
your limit is 24 h 0 min; debug has used ... (write 'amd-ctk keep debug ...m', or less)
[3]
bob$ amd-ctk run --reservation=debgu -- true
you have no reservation debgu (see 'amd-ctk queue')
[11]
bob$ amd-ctk end debgu
you have no reservation or job debgu (see 'amd-ctk queue')
[11]
alice$ amd-ctk run --gpus=0 -- true
GPUs [0] are exclusive and already in use
GPU 0 is in use by job debug of bob (--wait waits for them)
[1]
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi
docker: Error response from daemon: ...: amd-container-runtime: GPUs [0] are exclusive and already in use
GPU 0 is in use by job debug of bob...
[125]
alice$ sudo amd-ctk users require-reservation on
Containers get only reserved GPUs
alice$ docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=3 rocm/rocm-terminal rocm-smi
docker: Error response from daemon: ...: amd-container-runtime: containers get only reserved GPUs on this host (start it with 'amd-ctk run --gpus=free:1 -- docker run ...')...
[125]
alice$ sudo amd-ctk users require-reservation off
Containers get the GPUs that they ask for
bob$ amd-ctk end debug
Ending debug
bob$ amd-ctk reserve free:2 --for=4h --at="yesterday" --name=demo
'yesterday' is not a time (write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00')
[2]
alice$ sudo amd-ctk users deny everyone
The rule for everyone is removed
bob$ amd-ctk run --count=1 -- true
auto:1: GPUs 0-3 are exclusive, which users get only with a reservation ('sudo amd-ctk users allow NAME' lets a user reserve them with 'amd-ctk run')
[1]
bob$ amd-ctk report
/var/lib/amd-container-toolkit/history/open cannot be read: access is refused (run it as root, or let root give a group the history: 'sudo amd-ctk report enable --readers GROUP')
[3]
"""  # noqa: E501 - as printed


def test_two_people_share_the_machine_and_read_why_they_get_no_gpu(stand, shells):
    stand.run(f"{FRESH}amd-ctk cdi generate; amd-ctk runtime configure --restart", check=False)

    check_typed(shells, SHARED)
    check_typed(shells, WRONG_RESERVATIONS)


# What Debian's zsh asks a new user to choose.
ZSHRC = "autoload -Uz compinit && compinit\n"
# What is shown behind what was typed; fish gives what was typed a style of its own.
TAB = {
    "amd-ctk r": "eport",
    "amd-ctk run --g": "--gpus",
    "amd-ctk gpu list --w": "--wide",
    "amd-ctk --simulate mi300a": "-4",
    "amd-ctk runtime configure --runtime pod": "podman",
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_tab_completes_in_the_shells_of_the_distribution(stand, shell):
    stand.write("/home/alice/.zshrc", ZSHRC)
    words = [*stand.enter(), "TERM=xterm", "su", "--login", "alice", f"--shell=/usr/bin/{shell}"]
    with on_terminal(words, {"PATH": "/usr/bin:/bin"}, columns=200) as terminal:
        # The first time it is the command that is shown.
        terminal.type("echo rea''dy\n")
        terminal.wait_for("ready")
        for typed, shown in TAB.items():
            terminal.type(f"{typed}\t\t")
            terminal.wait_for(shown)
            # Ctrl-U removes the line.
            terminal.type("\x15")


PACKAGES = (
    *("amd-container-toolkit", "amd-ctk", "amd-container-runtime", "amd-gpu-images", "amd-gpu-sharing"),
    *("amdgpu-simulator", "amd-gpu-tracker", "amd-device-spec", "amdgpu-discovery"),
)


def test_a_roll_back_from_a_repository_stays_until_the_packages_are_released(stand, shells):
    stand.release("9.0")
    page = [step.command for section in parse_page(read_page("docs/how-to/roll-back.md")) for step in section.steps]
    listed, install, hold, *_ = (command.replace("VERSION", stand.version) for command in page)
    alice = shells["alice"]
    quiet = f"sudo env DEBIAN_FRONTEND=noninteractive {APT}"
    # No other archive can be reached from here.
    upgrade = f"{quiet} {ONLY_OURS} upgrade"
    alice.run(upgrade)
    assert stand.run("dpkg-query -W -f '${Version}' amd-ctk") == "9.0"

    versions, _ = alice.run(f"{listed} 2>/dev/null")
    alice.run(install.replace("sudo apt", quiet))
    held, _ = alice.run(hold)
    alice.run(upgrade)

    assert re.findall(r"^amd-container-toolkit/\S+ (\S+) all", versions, re.MULTILINE) == ["9.0", stand.version]
    assert held == "".join(f"{name} set on hold.\n" for name in PACKAGES)
    shown = stand.run("dpkg-query -W -f '${Package} ${Version}\\n' " + " ".join(PACKAGES))
    assert sorted(shown.splitlines()) == sorted(f"{name} {stand.version}" for name in PACKAGES)
    alice.run(f"sudo apt-mark unhold {' '.join(PACKAGES)}; {upgrade}")
    assert stand.run("dpkg-query -W -f '${Version}' amd-ctk") == "9.0"
