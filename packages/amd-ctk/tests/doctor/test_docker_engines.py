"""Docker that is rootless, on another machine, or silent is not judged by what root's daemon.json says."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from amd_ctk.doctor.facts.users import User

WITH_AMD = json.dumps({"runtimes": {"amd": {"path": "amd-container-runtime"}}})
USER = User(name="u1", uid=1000, groups=(1000,), home="/home/u1", runtime_directory="/run/user/1000")
OWN_FILE = "/home/u1/.config/docker/daemon.json"


def rootless(machine):
    machine.user = USER
    machine.docker["SecurityOptions"] = ["name=seccomp,profile=builtin", "name=rootless"]
    machine.write("/etc/docker/daemon.json", WITH_AMD)
    return machine


@pytest.fixture
def chosen(tmp_path, monkeypatch):
    """Return a function that makes a context of Docker with an address, and chooses it."""

    def choose(name, address):
        directory = tmp_path / "docker/contexts/meta" / sha256(name.encode()).hexdigest()
        directory.mkdir(parents=True)
        (directory / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": address}}}))
        (tmp_path / "docker/config.json").write_text(json.dumps({"currentContext": name}))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))

    return choose


def finding_of(machine, check):
    (result,) = machine.examine(only=[check])
    return result.finding.state, result.finding.words, result.finding.fix or result.finding.needs


def answer_with(machine, script):
    """Have a `docker` that runs this, in place of one that answers."""
    machine.facts = _facts_with(machine, script)
    return machine


def _facts_with(machine, script):
    from amd_ctk.doctor.facts.all import read_facts

    def facts(engine=""):
        machine.add_program("docker", script)
        return read_facts(machine.host, engine=engine, user=machine.user, proc=str(machine.proc))

    return facts


def test_rootless_docker_is_not_compared_with_the_file_of_root(machine):
    made = rootless(machine())

    assert finding_of(made, "docker") == (
        "note",
        "28.5.2 has no runtime amd",
        f"amd-ctk runtime configure --config-path={OWN_FILE} && systemctl --user restart docker",
    )


def test_rootless_docker_is_compared_with_its_own_file(machine):
    made = rootless(machine())
    made.write(OWN_FILE, WITH_AMD)

    assert finding_of(made, "docker") == (
        "bad",
        "28.5.2 was started before daemon.json had the runtime amd",
        "systemctl --user restart docker",
    )


def test_a_broken_file_of_rootless_docker_is_named(machine):
    made = rootless(machine())
    made.write(OWN_FILE, "[")

    state, words, fix = finding_of(made, "docker-file")

    assert (state, words.startswith(f"{OWN_FILE} cannot be read: ")) == ("bad", True)
    assert fix == f"sudo dockerd --validate --config-file {OWN_FILE}, and correct it"


def test_the_file_of_rootless_docker_is_where_its_user_has_settings(machine):
    made = rootless(machine())
    made.write("/settings/docker/daemon.json", WITH_AMD)
    made.user = USER.replace(chosen_settings="/settings")

    assert finding_of(made, "docker")[2] == "systemctl --user restart docker"


def test_a_file_of_a_user_that_never_ends_is_not_read(machine):
    made = rootless(machine())
    (made.root / "home/u1/.config/docker").mkdir(parents=True)
    (made.root / OWN_FILE.lstrip("/")).symlink_to("/dev/zero")

    assert finding_of(made, "docker-file")[:2] == ("bad", f"{OWN_FILE} cannot be read: it is not a plain file")


def test_rootless_docker_of_nobody_known_is_judged_by_its_answer_alone(machine):
    made = rootless(machine())
    made.user = None

    assert finding_of(made, "docker")[0] == "note"


@pytest.mark.parametrize("endpoint", ["tcp://10.0.0.1:2375", "ssh://u1@10.0.0.1:2375/x", "10.0.0.1:2375"])
def test_an_engine_on_another_machine_is_named_and_not_judged(machine, monkeypatch, endpoint):
    made = machine()
    made.write("/etc/docker/daemon.json", WITH_AMD)
    monkeypatch.setenv("DOCKER_HOST", endpoint)

    assert made.examine(only=["docker", "docker-cdi", "docker-gpus", "rootless"]) == []
    assert finding_of(made, "docker-context") == (
        "note",
        f"'docker' talks to {'ssh' if 'ssh' in endpoint else 'tcp'}://10.0.0.1:2375, which is not this machine",
        "run amd-ctk doctor there, or: unset DOCKER_HOST",
    )


def test_an_engine_on_another_machine_that_does_not_answer_is_not_judged(machine, monkeypatch):
    made = answer_with(machine(), "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")

    assert made.examine(only=["docker"]) == []
    assert finding_of(made, "docker-context")[0] == "note"


def test_a_context_of_another_machine_is_named(machine, chosen):
    made = machine()
    chosen("far", "ssh://far.example")

    assert made.examine(only=["docker"]) == []
    assert "'docker' talks to ssh://far.example, " in finding_of(made, "docker-context")[1]


@pytest.mark.parametrize(
    "endpoint",
    [
        *("unix:///run/user/1000/docker.sock", "tcp://localhost:2375", "tcp://127.0.0.1:2375", "tcp://[::1]:2375"),
        "tcp://:2375",
    ],
)
def test_a_socket_of_this_machine_is_judged(machine, monkeypatch, endpoint):
    made = machine()
    monkeypatch.setenv("DOCKER_HOST", endpoint)

    assert finding_of(made, "docker")[0] == "note"
    assert made.examine(only=["docker-context"]) == []


@pytest.mark.parametrize(
    ("said", "needs"),
    [
        (
            "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?",
            "sudo systemctl start docker",
        ),
        ("permission denied while trying to connect to the Docker daemon socket", "root or group docker"),
    ],
)
def test_the_error_of_an_engine_decides_what_its_check_needs(machine, said, needs):
    made = answer_with(machine(), f"echo '{said}' >&2; exit 1")

    assert finding_of(made, "docker") == ("not checked", f"the docker daemon does not answer: {said}", needs)


def test_docker_that_maps_ids_of_users_and_closed_nodes_are_noted(machine):
    made = machine()
    made.docker["SecurityOptions"] = ["name=userns"]

    assert finding_of(made, "rootless") == (
        "note",
        "Docker maps user ids, and with --device /dev/dri/renderD128 keeps its mode 0660",
        "use --runtime=amd, or --userns=host with --device",
    )


def test_podman_docker_is_no_docker(machine):
    made = answer_with(machine(), 'exec podman "$@"')

    assert made.examine(only=["docker", "docker-cdi", "docker-gpus", "docker-context", "rootless"]) == []


CANNOT_CONNECT = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"


def test_a_dead_address_is_named_and_no_service_is_started(machine, monkeypatch):
    made = answer_with(machine(), CANNOT_CONNECT)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")

    assert finding_of(made, "docker") == (
        "not checked",
        "the docker daemon does not answer: Cannot connect to the Docker daemon",
        "an engine at unix:///nowhere.sock, or: unset DOCKER_HOST",
    )


@pytest.mark.parametrize(
    ("variable", "undo"), [("", "docker context use default"), ("old", "unset DOCKER_CONTEXT")], ids=["chosen", "set"]
)
def test_a_context_with_an_address_where_nobody_listens_is_named(machine, monkeypatch, chosen, variable, undo):
    made = answer_with(machine(), CANNOT_CONNECT)
    chosen("old", "unix:///nowhere.sock")
    monkeypatch.setenv("DOCKER_CONTEXT", variable)

    assert finding_of(made, "docker")[2] == f"an engine at unix:///nowhere.sock, or: {undo}"


def test_a_context_that_was_removed_is_named(machine, chosen):
    # What Docker 28.2 says of one whose directory is gone.
    made = answer_with(machine(), "echo 'Failed to initialize: context not found' >&2; exit 1")
    chosen("far", "")

    assert finding_of(made, "docker") == (
        "not checked",
        "the docker daemon does not answer: Failed to initialize: context not found",
        "a context that exists, or: docker context use default",
    )


def test_an_engine_on_another_machine_that_does_not_answer_is_reported(machine, monkeypatch):
    made = answer_with(machine(), CANNOT_CONNECT)
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")

    assert finding_of(made, "docker-context")[1] == (
        "'docker' talks to tcp://10.0.0.1:2375, which is not this machine and does not answer"
    )


def named_by_unit(machine):
    machine.write(
        "/usr/lib/systemd/system/docker.service", "[Service]\nExecStart=/usr/bin/dockerd --config-file=/opt/dk.json\n"
    )
    return machine


def test_the_file_that_the_unit_names_is_judged_and_not_the_default_one(machine):
    made = named_by_unit(machine())
    made.write("/etc/docker/daemon.json", WITH_AMD)

    assert finding_of(made, "docker") == (
        "note",
        "28.5.2 has no runtime amd",
        "sudo amd-ctk runtime configure && sudo systemctl restart docker",
    )

    made.write("/opt/dk.json", WITH_AMD)

    assert finding_of(made, "docker")[1] == "28.5.2 was started before dk.json had the runtime amd"
    made.write("/opt/dk.json", "{")
    assert finding_of(made, "docker-file")[1].startswith("/opt/dk.json cannot be read: ")


@pytest.mark.parametrize("program", ["runc", "/usr/bin/amd-container-runtime ", "/opt/other"])
def test_a_runtime_named_amd_that_is_another_program_is_bad(machine, program):
    made = machine()
    made.write("/etc/docker/daemon.json", json.dumps({"runtimes": {"amd": {"path": program}}}))
    made.docker["Runtimes"] = {"runc": {}, "amd": {"path": program}}

    assert finding_of(made, "docker-file")[:2] == (
        "bad",
        f"the runtime amd in daemon.json is {program!r}, which is not the AMD runtime",
    )
    assert made.examine(only=["docker"]) == []


def test_docker_of_a_snap_is_not_told_to_configure_what_it_does_not_read(machine):
    made = machine()
    made.write(
        "/etc/systemd/system/snap.docker.dockerd.service", "[Service]\nExecStart=/usr/bin/snap run docker.dockerd\n"
    )

    assert finding_of(made, "docker")[2] == (
        "a snap cannot start programs of the host: install Docker from packages; --config-path names another file"
    )


@pytest.mark.parametrize("unit", ["k3s", "k3s-agent"])
def test_containerd_of_k3s_is_judged_by_the_file_of_k3s(machine, unit):
    made = machine()
    made.write(f"/etc/systemd/system/{unit}.service", "[Service]\nExecStart=/usr/local/bin/k3s server\n")
    runtime = (
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.amd.options]\nBinaryName = "amd-container-runtime"\n'
    )
    made.write("/etc/containerd/config.toml", f"version = 2\n{runtime}")
    file = "/var/lib/rancher/k3s/agent/etc/containerd/config.toml"

    made.write(file, "# File generated by k3s. DO NOT EDIT. Use config.toml.tmpl instead.\nversion = 2\n")
    words = f"containerd of this host belongs to k3s and reads {file}, which has no runtime amd"
    assert finding_of(made, "containerd")[:2] == ("note", words)

    made.write(file, f"version = 2\n{runtime}")
    assert finding_of(made, "containerd")[:2] == ("ok", "containerd has the runtime amd")


def test_podman_in_the_place_of_docker_is_no_docker(machine):
    made = machine()
    # Podman 4.3.1 answers the client of Docker so.
    made.docker |= {"ServerVersion": "4.3.1", "ProductLicense": "Apache-2.0", "DefaultRuntime": "crun"}

    assert finding_of(made, "docker") == (
        "note",
        "'docker' talks to Podman, which drops the runtime that a container asks for",
        "start it with 'podman --runtime amd system service', or request driver=cdi,device=amd.com/gpu=0",
    )
    assert made.examine(only=["docker-cdi", "docker-gpus", "docker-compose"]) == []
