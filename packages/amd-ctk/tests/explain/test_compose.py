"""Services of Compose files."""

from __future__ import annotations

import pytest

from amd_ctk.explain.compose import read_service
from amd_ctk.explain.container import Container, ExplainError
from amd_ctk.explain.explanation import explain_container
from amd_ctk.explain.run_words import parse_run
from amdgpu_discovery.host import Host

SERVICE = """
services:
  web:
    image: rocm/pytorch
    runtime: amd
    environment:
      AMD_VISIBLE_DEVICES: ${GPUS:-0-2}
      UNSET:
    devices: ["/dev/kfd:/dev/kfd"]
    group_add: [video, 110]
    user: "1000"
    cap_add: [SYS_ADMIN]
"""
# No Compose is asked for another host.
SIMULATED = Host("/simulated")
RESERVED = "deploy: {resources: {reservations: {devices: [%s]}}}"


@pytest.fixture
def compose(tmp_path):
    def write(text):
        path = tmp_path / "compose.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_service_says_what_docker_run_says(compose):
    assert read_service(compose(SERVICE), "web", {}, SIMULATED) == Container(
        engine="docker",
        environment=("AMD_VISIBLE_DEVICES=0-2", "UNSET"),
        devices=("/dev/kfd:/dev/kfd:rwm",),
        runtime="amd",
        capabilities=("SYS_ADMIN",),
        user="1000",
        groups=("video", "110"),
        image="rocm/pytorch",
    )


@pytest.mark.parametrize(
    ("service", "gpus", "devices"),
    [
        ("gpus: all", ("all",), ()),
        ("gpus: [{driver: cdi, device_ids: [amd.com/gpu=0]}]", ("driver=cdi,device=amd.com/gpu=0",), ()),
        (RESERVED % "{capabilities: [gpu], count: 1}", ("1",), ()),
        (
            RESERVED % "{driver: cdi, device_ids: ['amd.com/gpu=0'], capabilities: [gpu]}",
            ("driver=cdi,device=amd.com/gpu=0",),
            (),
        ),
        (f"gpus: [{{count: 2}}]\n    {RESERVED % '{count: all, capabilities: [gpu]}'}", ("all", "2"), ()),
        ("devices: ['amd.com/gpu=1']", (), ("amd.com/gpu=1",)),
    ],
)
def test_every_way_to_reserve_a_gpu_is_read(compose, service, gpus, devices):
    container = read_service(compose(f"services:\n  web:\n    {service}\n"), "web", {}, SIMULATED)

    assert (container.gpus, container.devices) == (gpus, devices)


# Docker 28.5.2 with Compose 2.40.3 and amd-container-runtime in PATH starts four of these 24 services.
STARTED = {("", "gpu"), ("", "amd"), ("amd", "gpu"), ("amd", "amd")}


@pytest.mark.parametrize("driver", ["", "amd", "nvidia", "rocm", "AMD", "gpu"])
@pytest.mark.parametrize("capability", ["gpu", "amd", "compute", "utility"])
def test_the_driver_and_the_capabilities_are_those_of_docker_run(compose, sleeping_host, driver, capability):
    request = f"{{driver: '{driver}', count: 1, capabilities: [{capability}]}}"
    container = read_service(compose(f"services: {{web: {{image: i, {RESERVED % request}}}}}"), "web", {}, SIMULATED)

    refusals = explain_container(container, sleeping_host).plan.refusals

    assert (not refusals) == ((driver, capability) in STARTED)
    assert [error.message.partition("could not")[2] for error in refusals] in (
        [],
        [f' select device driver "{driver}"'],
    )


# Compose 2.26 and 2.40, with Docker 26.1 and 28.5: the schema refuses them, or no driver has no capabilities.
@pytest.mark.parametrize(
    "missing", ["{count: 1}", "{}", "{capabilities: [], count: 1}", "{driver: amd, capabilities: []}"]
)
def test_a_reserved_device_without_capabilities_is_refused(compose, sleeping_host, missing):
    container = read_service(compose(f"services: {{web: {{image: i, {RESERVED % missing}}}}}"), "web", {}, SIMULATED)

    assert "could not select device driver" in explain_container(container, sleeping_host).plan.refusals[0].message


@pytest.mark.parametrize("gpus", ["1", "x", "''", "[all]", "{count: 1}", "[{count: 1}, 2]"])
def test_gpus_are_all_or_a_list_of_requests(compose, gpus):
    with pytest.raises(ExplainError) as raised:
        read_service(compose(f"services: {{web: {{image: i, gpus: {gpus}}}}}"), "web", {}, SIMULATED)

    assert raised.value.message.startswith("Compose refuses gpus: ")


def test_the_environment_of_an_image_that_compose_builds_is_unknown(compose, sleeping_host):
    path = compose("services: {web: {build: ., devices: [/dev/kfd, /dev/dri]}}")

    explanation = explain_container(read_service(path, "web", {}, SIMULATED), sleeping_host)

    assert explanation.notes == ("the environment of the image that Compose builds is not known here",)


KFD_DENIED = "the device cgroup denies reading and writing /dev/kfd: use --device /dev/kfd instead of a volume"


# Docker 28.5.2: opening /dev/kfd in such a container ends with "Operation not permitted".
@pytest.mark.parametrize(
    "volumes",
    [
        "[/dev/kfd:/dev/kfd, /dev/dri:/dev/dri]",
        "[{type: bind, source: /dev/kfd, target: /dev/kfd}, {type: bind, source: /dev/dri, target: /dev/dri}]",
        "['/dev:/dev:rw']",
    ],
)
def test_nodes_under_volumes_are_closed_by_the_device_cgroup(compose, sleeping_host, volumes):
    path = compose(f"services: {{web: {{image: i, volumes: {volumes}}}}}")

    explanation = explain_container(read_service(path, "web", {}, SIMULATED), sleeping_host)

    assert (explanation.problems, explanation.lacks_gpus) == ((KFD_DENIED,), True)


@pytest.mark.parametrize(
    ("words", "problems", "used"),
    [
        ("-v /dev/kfd:/dev/kfd -v /dev/dri:/dev/dri", [KFD_DENIED], 0),
        ("--mount type=bind,src=/dev,dst=/dev", [KFD_DENIED], 0),
        ("-v /dev:/dev --device-cgroup-rule", [], 4),
        ("-v /dev:/dev --device /dev/kfd --device /dev/dri/renderD128", [], 1),
        ("-v /dev:/dev --privileged", [], 4),
        ("-v /dev/kfd:/dev/kfd --device /dev/dri", [KFD_DENIED], 0),
        ("-v /srv:/dev/dri --device /dev/kfd --device /dev/dri", [], 4),
    ],
)
def test_a_volume_is_judged_alike_in_docker_run(sleeping_host, words, problems, used):
    rule = ["c *:* rwm"] * words.endswith("rule")

    explanation = explain_container(parse_run(["docker", "run", *words.split(), *rule, "img"], {}), sleeping_host)

    assert (list(explanation.problems), len(explanation.usable)) == (problems, used)


def test_variables_come_from_files_and_from_the_caller(compose, tmp_path):
    (tmp_path / "gpus.env").write_text("AMD_VISIBLE_DEVICES=all\n")
    path = compose("services: {web: {env_file: gpus.env, environment: [HOST, 'AMD_VISIBLE_DEVICES=$N$$']}}")

    assert read_service(path, "web", {"HOST": "h", "N": "3"}, SIMULATED).environment == (
        "AMD_VISIBLE_DEVICES=3$",
        "HOST=h",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: {db: {}}", "has no service web"),
        ("- a list", "is not a Compose file"),
        ("services: [", "compose.yaml:"),
        ("services: {web: null}", "has no service web"),
    ],
)
def test_a_file_without_the_service_is_named(compose, text, message):
    with pytest.raises(ExplainError, match=message):
        read_service(compose(text), "web", {}, SIMULATED)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ExplainError, match="it does not exist"):
        read_service(str(tmp_path / "compose.yaml"), "web", {}, SIMULATED)


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("env_file", "why"), [("/dev/zero", "it is not a plain file"), ("large", "it is too large"), ("none", "exist")]
)
def test_a_file_of_variables_is_read_within_limits(compose, tmp_path, env_file, why):
    (tmp_path / "large").write_bytes(b"x" * (2**20 + 1))

    with pytest.raises(ExplainError, match=rf"the environment file \S*{env_file} cannot be read: .*{why}"):
        read_service(compose(f"services: {{web: {{env_file: {env_file}}}}}"), "web", {}, SIMULATED)


@pytest.mark.timeout(20)
def test_aliases_that_multiply_are_refused(compose):
    lines = "".join(f"x{i + 1}: &x{i + 1} [{', '.join([f'*x{i}'] * 9)}]\n" for i in range(30))

    with pytest.raises(ExplainError, match="its aliases expand to too much"):
        read_service(compose(f"x0: &x0 [1]\n{lines}services: {{web: {{devices: *x30}}}}\n"), "web", {}, SIMULATED)


@pytest.mark.parametrize(("variable", "environment"), [("${GPUS:?say it}", {"GPUS": ""}), ("${GPUS?say it}", {})])
def test_a_variable_that_is_required_is_named(compose, variable, environment):
    path = compose(f"services: {{web: {{image: '{variable}'}}}}")

    with pytest.raises(ExplainError, match="required variable GPUS is missing a value: say it"):
        read_service(path, "web", environment, SIMULATED)


def test_a_variable_that_is_required_and_set_has_its_value(compose):
    path = compose("services: {web: {image: '${GPUS:?say it}-${EMPTY?say it}'}}")

    assert read_service(path, "web", {"GPUS": "1", "EMPTY": ""}, SIMULATED).image == "1-"


@pytest.mark.timeout(5)
def test_a_variable_that_is_never_closed_costs_little(compose):
    path = compose(f"services: {{web: {{image: '{'${a-' * 100_000}'}}}}")

    with pytest.raises(ExplainError, match="is an invalid template"):
        read_service(path, "web", {}, SIMULATED)


def test_variables_have_their_defaults_in_the_file_env_beside_it(compose, tmp_path):
    path = compose("services: {web: {image: i, environment: ['AMD_VISIBLE_DEVICES=${GPUS}', 'A=$A', 'B=$B']}}")
    (tmp_path / ".env").write_text("# which\nGPUS=0-2\nA='one two'\nB=file\n")

    service = read_service(path, "web", {"B": "caller"}, SIMULATED)

    assert service.environment == ("AMD_VISIBLE_DEVICES=0-2", "A=one two", "B=caller")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: {web: {extends: {service: base}, image: i}}", "extends another service"),
        ("include: [other.yaml]\nservices: {db: {image: i}}", "may be in an included file"),
    ],
)
def test_parts_of_a_service_in_another_place_are_named_as_not_read(compose, text, words):
    path = compose(text)

    with pytest.raises(ExplainError) as raised:
        read_service(path, "web", {}, SIMULATED)

    assert raised.value.message == f"the service web of {path} {words}, which is not read here"
    assert raised.value.hint == "run 'docker compose config > whole.yaml', and explain whole.yaml"


@pytest.mark.parametrize("name", ["n", "on", "yes"])
def test_a_service_may_have_a_name_that_older_yaml_takes_for_true_or_false(compose, name):
    path = compose(f"services:\n  {name}:\n    image: i\n    runtime: amd\n")

    assert read_service(path, name, {}, SIMULATED).runtime == "amd"


@pytest.mark.parametrize(
    ("text", "environment", "value"),
    [
        ("${A:-${B:-x}}", {}, "x"),
        ("${A:-${B:-x}}", {"B": "b"}, "b"),
        ("${A:-${B:-x}}", {"A": "a"}, "a"),
        ("${A:-${B}-${C:-${D:-4}}}", {"B": "${C}"}, "${C}-4"),
        ("${A-x}", {"A": ""}, ""),
        ("${A:-x}", {"A": ""}, "x"),
        ("${A+x}", {"A": ""}, "x"),
        ("${A:+x}", {"A": ""}, ""),
        ("$$A", {"A": "a"}, "$A"),
    ],
)
def test_a_default_may_have_defaults_of_its_own(compose, text, environment, value):
    service = read_service(compose(f"services: {{web: {{image: '{text}'}}}}"), "web", environment, SIMULATED)

    assert service.image == value


def test_a_device_keeps_its_place_and_its_access(compose):
    devices = "['/dev/dri:/dev/gpus:r', {source: /dev/kfd, target: /dev/x, permissions: rw}, amd.com/gpu=0]"
    service = read_service(
        compose(f"services: {{web: {{devices: {devices}, device_cgroup_rules: ['c 1:3 r']}}}}"), "web", {}, SIMULATED
    )

    assert service.devices == ("/dev/dri:/dev/gpus:r", "/dev/kfd:/dev/x:rw", "amd.com/gpu=0")
    assert service.device_rules == ("c 1:3 r",)


def test_of_two_devices_for_one_place_the_last_counts(compose):
    service = read_service(compose("services: {web: {devices: [/dev/a:/dev/kfd, /dev/kfd]}}"), "web", {}, SIMULATED)

    assert service.devices == ("/dev/kfd:/dev/kfd:rwm",)


def test_the_long_form_of_a_device_has_the_access_that_it_names_and_no_other(compose):
    service = read_service(
        compose("services: {web: {devices: [{source: /dev/a, target: /dev/a}]}}"), "web", {}, SIMULATED
    )

    assert service.devices == ("/dev/a:/dev/a:",)


def test_a_device_without_a_target_is_refused_as_compose_does(compose):
    with pytest.raises(ExplainError, match="the device /dev/kfd has no target, which Compose requires"):
        read_service(compose("services: {web: {devices: [{source: /dev/kfd}]}}"), "web", {}, SIMULATED)


def test_a_file_of_variables_that_is_not_required_may_be_absent(compose):
    path = compose("services: {web: {env_file: [{path: none.env, required: false}], environment: [A=1]}}")

    assert read_service(path, "web", {}, SIMULATED).environment == ("A=1",)


@pytest.mark.parametrize(
    "devices",
    ['["/dev/kfd", "dev/dri"]', '["dev/kfd:/dev/kfd", "dev/dri:dev/dri:rwm"]'],
)
def test_a_relative_device_is_looked_for_from_the_root_as_dockerd_does(compose, sleeping_host, devices):
    """Docker 28.5.2 as a service, and runc, make the nodes below /dev/dri of the container."""
    path = compose(f"services: {{web: {{image: img, devices: {devices}}}}}")

    explanation = explain_container(read_service(path, "web", {}, sleeping_host), sleeping_host)

    assert len(explanation.usable) == 4
    assert (
        "dockerd looks for the device dev/dri in its own directory, / for a service: write /dev/dri"
        in explanation.notes
    )
