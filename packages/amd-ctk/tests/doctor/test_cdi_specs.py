"""What doctor says of specs that something else wrote, or that an engine here is too old for."""

from __future__ import annotations

import json
import os

import pytest

from amd_ctk.cdi.generate_options import DEFAULT_OUTPUT, GenerateOptions, save_generate_options
from amd_ctk.cdi.specs import FoundGpus, write_spec
from amd_device_spec.cdi.spec import CdiOptions
from amd_device_spec.cdi.version import latest_version


def write(machine, path, *, version="0.5.0", minor=None):
    """Write a spec that nothing refreshes, with a wrong number where one is given."""
    wanted = GenerateOptions(output="/tmp/spec.json", language="json", options=CdiOptions())
    spec, _ = write_spec(FoundGpus(machine.host), wanted)
    spec["cdiVersion"] = version
    if minor is not None:
        spec["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] = minor
    machine.write(path, json.dumps(spec))


def generate(machine, output=DEFAULT_OUTPUT):
    wanted = GenerateOptions(output=output, language="json", options=CdiOptions())
    write_spec(FoundGpus(machine.host), wanted)
    save_generate_options(machine.host, wanted)


def finding_of(machine, check):
    return next((result.finding for result in machine.examine(only=[check])), None)


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("/etc/cdi/amd.json", "sudo amd-ctk cdi generate"),
        ("/etc/cdi/gpus.json", "sudo mv /etc/cdi/gpus.json /etc/cdi/gpus.json.off && sudo amd-ctk cdi generate"),
    ],
)
def test_a_stale_spec_that_nothing_refreshes_is_written_again(machine, path, fix):
    made = machine()
    write(made, path, minor=77)

    finding = finding_of(made, "cdi")

    assert (finding.state, finding.fix) == ("bad", fix)


def test_a_stale_spec_that_is_refreshed_is_refreshed(machine):
    made = machine()
    generate(made)
    write(made, DEFAULT_OUTPUT, minor=77)

    assert finding_of(made, "cdi").fix == "sudo amd-ctk cdi refresh"


def test_a_stale_spec_over_a_true_one_is_moved_away(machine):
    made = machine()
    generate(made)
    write(made, "/run/cdi/amd.json", minor=77)

    finding = finding_of(made, "cdi")

    assert finding.words.startswith("/run/cdi/amd.json")
    assert finding.fix == "sudo mv /run/cdi/amd.json /run/cdi/amd.json.off && sudo amd-ctk cdi refresh"


def test_a_stale_spec_that_was_generated_below_var_run_is_refreshed(machine):
    made = machine()
    os.makedirs(made.host.path("/run/cdi"), exist_ok=True)
    generate(made, "/var/run/cdi/amd.json")
    write(made, "/run/cdi/amd.json", minor=77)

    assert finding_of(made, "cdi").fix == "sudo amd-ctk cdi refresh"


@pytest.mark.parametrize(
    ("engine", "number", "latest"),
    [
        ("Docker", (25, 0, 5), "0.7.0"),
        ("Docker", (26, 1, 5), "0.7.0"),
        ("Docker", (27, 5), "1.0.0"),
        ("Docker", (28, 5, 2), "1.0.0"),
        ("Docker", (29, 0, 1), ""),
        ("Podman", (4, 3, 1), "0.5.0"),
        ("Podman", (5, 0), "0.8.0"),
        ("Podman", (5, 8, 6), "1.0.0"),
        ("Podman", (6, 1), "1.0.0"),
        ("Podman", (6, 2), ""),
        ("crun", (1,), ""),
    ],
)
def test_an_engine_that_was_not_tried_counts_as_the_next_that_was(engine, number, latest):
    assert latest_version(engine, number) == latest


def test_a_spec_that_is_too_new_for_podman_is_reported(machine):
    made = machine()
    write(made, DEFAULT_OUTPUT, version="0.8.0")
    made.add_program("podman", "echo podman version 4.3.1")

    finding = finding_of(made, "podman-cdi")

    assert (finding.state, finding.words) == (
        "bad",
        "Podman 4.3.1 reads CDI specs up to version 0.5.0, but /etc/cdi/amd.json has 0.8.0",
    )
    assert finding.fix == "sudo mv /etc/cdi/amd.json /etc/cdi/amd.json.off && sudo amd-ctk cdi generate"


@pytest.mark.parametrize(("version", "state"), [("26.1.5", "bad"), ("28.5.2", "ok"), ("29.4.0", "ok")])
def test_a_spec_that_is_too_new_for_docker_is_reported(machine, version, state):
    made = machine()
    made.docker["ServerVersion"] = version
    made.write("/etc/docker/daemon.json", '{"features": {"cdi": true}}')
    write(made, "/etc/cdi/amd.json", version="1.0.0")

    assert finding_of(made, "docker-cdi").state == state


def test_a_spec_that_every_engine_reads_is_no_matter(machine):
    made = machine()
    generate(made)
    made.add_program("podman", "echo podman version 4.3.1")

    assert finding_of(made, "podman-cdi") is None


OF_NVIDIA = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=B"]}}],
}
CDI_OFF = '{"features": {"cdi": false}}'
IN_VAIN = "--gpus has no effect without --runtime=amd"


ADD_RUNTIME = "add --runtime=amd"
GENERATE_FIRST = "sudo amd-ctk cdi generate && sudo systemctl restart docker"


@pytest.mark.parametrize(
    ("version", "has_spec", "has_nvidia", "daemon_json", "words", "fix"),
    [
        ("29.2.1", True, False, "{}", IN_VAIN, ADD_RUNTIME),
        ("29.3.0", True, False, "{}", "--gpus works for AMD GPUs", ""),
        ("29.3.0", False, False, "{}", f"{IN_VAIN}, as no CDI spec offers amd.com/gpu", GENERATE_FIRST),
        ("29.3.0", True, True, "{}", f"{IN_VAIN}, because there are NVIDIA CDI devices", ADD_RUNTIME),
        # A spec of AMD beside it would not help.
        ("29.3.0", False, True, "{}", f"{IN_VAIN}, because there are NVIDIA CDI devices", ADD_RUNTIME),
        ("29.3.0", True, False, CDI_OFF, f"{IN_VAIN}, because Docker's CDI is off", ADD_RUNTIME),
    ],
)
def test_the_cdi_specs_decide_what_gpus_of_docker_means(
    machine, version, has_spec, has_nvidia, daemon_json, words, fix
):
    made = machine()
    made.docker["ServerVersion"] = version
    made.write("/etc/docker/daemon.json", daemon_json)
    if has_spec:
        generate(made)
    if has_nvidia:
        made.write("/etc/cdi/nvidia.json", json.dumps(OF_NVIDIA))

    found = finding_of(made, "docker-gpus")

    assert (found.words, found.fix) == (words, fix)


def test_a_spec_that_docker_does_not_read_is_bad(machine):
    made = machine()
    write_spec(FoundGpus(made.host), GenerateOptions(output="/etc/cdi/amd.json", language="json", options=CdiOptions()))
    made.docker["CDISpecDirs"] = ["/opt/cdi", "/run/user/1/cdi"]

    finding = finding_of(made, "docker-cdi")

    assert (finding.state, finding.words, finding.fix) == (
        "bad",
        "Docker reads CDI specs in /opt/cdi and /run/user/1/cdi only, and not /etc/cdi/amd.json",
        "sudo amd-ctk cdi generate --output=/opt/cdi/amd.json",
    )


def test_a_spec_that_only_docker_reads_is_compared_with_the_host(machine):
    made = machine()
    made.write("/etc/docker/daemon.json", '{"cdi-spec-dirs": ["/opt/cdi"]}')
    write_spec(FoundGpus(made.host), GenerateOptions(output="/opt/cdi/amd.json", language="json", options=CdiOptions()))

    assert finding_of(made, "docker-cdi").state == "ok"
    assert finding_of(made, "cdi").words == "/opt/cdi/amd.json matches this host"


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_a_spec_of_another_vendor_that_podman_leaves_out_is_named(machine, version):
    made = machine()
    made.add_program("podman", "echo podman version 6.1.1")
    devices = [{"name": "0", "containerEdits": {"env": ["A=b"]}}]
    spec = {"cdiVersion": version, "kind": "nvidia.com/gpu", "devices": devices}
    made.write("/etc/cdi/nvidia.json", json.dumps(spec))

    found = [(one.finding.state, one.finding.words) for one in made.examine(only=["podman-cdi"])]

    words = (
        "Podman 6.1.1 reads CDI specs up to version 1.0.0,"
        " and leaves /etc/cdi/nvidia.json of another vendor out, which has a later one"
    )
    assert found == ([("note", words)] if version == "1.1.0" else [])


def test_a_spec_that_podman_does_not_read_is_bad(machine):
    made = machine()
    made.add_program("podman", "echo podman version 5.8.6")
    write_spec(FoundGpus(made.host), GenerateOptions(output="/etc/cdi/amd.json", language="json", options=CdiOptions()))
    made.write("/etc/containers/containers.conf", '[engine]\ncdi_spec_dirs = ["/opt/cdi"]\n')

    assert finding_of(made, "podman-cdi").words == (
        "Podman reads CDI specs in /opt/cdi only, and not /etc/cdi/amd.json"
    )


@pytest.mark.parametrize(
    ("path", "text", "check"),
    [
        ("/etc/amd-container-toolkit/config.toml", "x = [\n", "settings"),
        ("/etc/amd-container-toolkit/config.toml", 'image-requirements = "sometimes"\n', "settings"),
        ("/var/lib/amd-container-toolkit/gpu-tracker.json", "{", "tracker"),
    ],
)
def test_faults_of_settings_and_tracker_are_not_blamed_on_the_spec(machine, path, text, check):
    made = machine()
    generate(made)
    made.write(path, text)

    assert [name for name in made.bad() if name in {"cdi", "settings", "tracker"}] == [check]
