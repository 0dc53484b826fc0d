"""amd-ctk cdi validate."""

from __future__ import annotations

import json
import os
import shutil

import pytest

VALID = "Validating CDI spec: /etc/cdi/amd.json\nCDI spec is valid\n"


@pytest.fixture
def spec(host, amd_ctk, tmp_path):
    """Return the generated spec of a host with one GPU."""
    host("one-gpu")
    amd_ctk("cdi", "generate", "--device-name-strategy=index")
    return tmp_path / "host/etc/cdi/amd.json"


def refusal(spec, *problems):
    lines = [f"{spec}:{problem}\n" for problem in problems]
    return f"Validating CDI spec: /etc/cdi/amd.json\n{''.join(lines)}CDI spec is invalid\nPlease regenerate CDI spec\n"


def test_a_generated_spec_is_valid(spec, amd_ctk):
    answer = amd_ctk("cdi", "validate")

    assert (answer.returncode, answer.stdout, answer.stderr) == (0, VALID, "")


def test_a_spec_is_validated_where_it_is_given(spec, amd_ctk, tmp_path):
    shutil.copy(spec, tmp_path / "host/copy.json")

    answer = amd_ctk("cdi", "validate", "--path=/copy.json")

    assert (answer.returncode, answer.stdout) == (
        0,
        "Validating CDI spec: /copy.json\nCDI spec is valid\n",
    )


def test_a_spec_of_some_gpus_is_valid_as_it_was_asked_for(host, amd_ctk, tmp_path):
    host()
    amd_ctk("cdi", "generate", "--gpus=1-2", "--vendor=example.com", "--output=/some.yaml")
    shutil.copy(tmp_path / "host/some.yaml", tmp_path / "host/copy.yaml")

    remembered = amd_ctk("cdi", "validate", "--path=/some.yaml")
    unknown = amd_ctk("cdi", "validate", "--path=/copy.yaml")

    assert (remembered.returncode, unknown.returncode) == (0, 1)
    assert f"{tmp_path}/host/copy.yaml:2:1: kind: not amd.com/gpu\n" in unknown.stdout


def test_each_problem_has_its_line(spec, amd_ctk):
    text = spec.read_text()
    spec.write_text(text.replace('"type": "c"', '"type": "x"', 1).replace('"kind"', '"knid"'))

    answer = amd_ctk("cdi", "validate")

    assert (answer.returncode, answer.stderr) == (1, "")
    assert answer.stdout == refusal(
        spec,
        "1:1: the field kind is missing",
        "3:3: knid: CDI has no such field",
        "11:13: devices[0].containerEdits.deviceNodes[0].type: none of b, c, u, p",
    )


def test_a_broken_file_says_where_it_breaks(spec, amd_ctk):
    spec.write_text('{\n  "cdiVersion": "0.5.0"\n  "kind": "amd.com/gpu"\n}\n')

    assert amd_ctk("cdi", "validate").stdout == refusal(spec, "3:3: expecting ',' delimiter")


def test_an_empty_file_is_no_spec(spec, amd_ctk):
    spec.write_text("")

    assert amd_ctk("cdi", "validate").stdout == refusal(spec, "1:1: not an object")


def test_a_spec_of_another_boot_is_stale(spec, amd_ctk):
    spec.write_text(spec.read_text().replace('"major": 235', '"major": 234', 1))

    answer = amd_ctk("cdi", "validate")

    assert answer.returncode == 1
    assert answer.stdout == refusal(
        spec, "32:13: devices[0].containerEdits.deviceNodes[2].major: 234, but that of /dev/kfd is 235"
    )
    assert amd_ctk("cdi", "validate", "--form-only").stdout == VALID


def test_a_host_that_was_partitioned_makes_the_spec_stale(spec, host, amd_ctk):
    text = spec.read_text()
    host("mi300x-8-cpx")
    spec.parent.mkdir(parents=True)
    spec.write_text(text)

    answer = amd_ctk("cdi", "validate")

    before, sentence, *problems, more, invalid, please = answer.stdout.splitlines()
    assert answer.returncode == 1
    assert before == "Validating CDI spec: /etc/cdi/amd.json"
    assert sentence == "the spec offers 1 GPU, but this machine has 63 GPUs"
    assert len(problems) == 10
    assert all(line.startswith(f"{spec}:") for line in problems)
    assert more.startswith("and ")
    assert more.endswith(" more problems")
    assert (invalid, please) == ("CDI spec is invalid", "Please regenerate CDI spec")


def test_a_device_outside_dev_dri_is_its_authors_business(spec, amd_ctk):
    tree = json.loads(spec.read_text())
    nodes = tree["devices"][0]["containerEdits"]["deviceNodes"]
    nodes += [{"path": "/dev/infiniband/uverbs0"}, {"path": "/dev/dri/renderD200"}]
    spec.write_text(json.dumps(tree))

    answer = amd_ctk("cdi", "validate")

    assert "uverbs0" not in answer.stdout
    assert answer.stdout.count("/dev/dri/renderD200 is not a node of GPU 0\n") == 1
    assert len(answer.stdout.splitlines()) == 4


def test_a_tracker_that_is_enabled_wants_its_hooks(spec, amd_ctk):
    without_hooks = spec.read_text()
    line = without_hooks.splitlines().index('  "containerEdits": {') + 1
    amd_ctk("gpu-tracker", "enable")
    with_hooks = spec.read_text()

    spec.write_text(without_hooks)
    missing = amd_ctk("cdi", "validate")
    amd_ctk("gpu-tracker", "disable")
    spec.write_text(with_hooks)
    idle = amd_ctk("cdi", "validate")

    assert (missing.returncode, idle.returncode) == (1, 1)
    assert missing.stdout == refusal(
        spec,
        f"{line}:3: containerEdits: the createRuntime hook of the toolkit is missing",
        f"{line}:3: containerEdits: the poststop hook of the toolkit is missing",
    )
    assert "containerEdits.hooks[0]: a hook of the GPU tracker, which is disabled\n" in idle.stdout


def test_a_spec_that_does_not_check_images_is_wrong_unless_the_settings_say_so(spec, amd_ctk):
    tree = json.loads(spec.read_text())
    del tree["containerEdits"]
    spec.write_text(json.dumps(tree))

    answer = amd_ctk("cdi", "validate")
    amd_ctk("config", "set", "image-requirements", "ignore")

    assert answer.stdout == refusal(spec, "1:1: containerEdits: the createRuntime hook of the toolkit is missing")
    assert amd_ctk("cdi", "validate").returncode == 0


def test_additions_of_a_user_are_valid(spec, amd_ctk):
    tree = json.loads(spec.read_text())
    tree["devices"][0]["containerEdits"]["mounts"] = [{"hostPath": "/opt/rocm", "containerPath": "/opt/rocm"}]
    spec.write_text(json.dumps(tree))

    assert amd_ctk("cdi", "validate").stdout == VALID


def test_a_file_that_is_not_there_is_named(host, amd_ctk, tmp_path):
    host()

    answer = amd_ctk("cdi", "validate", "--path", "/nope.json")

    assert (answer.returncode, answer.stdout) == (1, "Validating CDI spec: /nope.json\n")
    assert answer.stderr == (
        f"failed to validate CDI spec: opening CDI spec file {tmp_path}/host/nope.json: it does not exist"
        " ('sudo amd-ctk cdi generate' makes one)\n"
    )


def test_without_a_driver_only_the_form_can_be_validated(spec, host, amd_ctk):
    text = spec.read_text()
    host("no-driver")
    spec.parent.mkdir(parents=True)
    spec.write_text(text)

    answer = amd_ctk("cdi", "validate")

    assert (answer.returncode, answer.stdout) == (1, "Validating CDI spec: /etc/cdi/amd.json\n")
    assert answer.stderr.startswith("failed to validate CDI spec: amdgpu driver unavailable: ")
    assert amd_ctk("cdi", "validate", "--form-only").stdout == VALID


@pytest.mark.timeout(30)
def test_a_pipe_and_a_file_without_end_are_no_spec(host, amd_ctk, tmp_path):
    root = tmp_path / "host"
    host()
    os.mkfifo(root / "pipe")
    (root / "endless").symlink_to("/dev/zero")

    for name in ("pipe", "endless"):
        answer = amd_ctk("cdi", "validate", "--path", f"/{name}")

        assert answer.returncode == 1
        assert f"/{name}: it is not a plain file" in answer.stderr


def test_a_spec_of_all_gpus_that_fit_is_compared_with_these(host, amd_ctk, tmp_path):
    host("rx7900xtx-raphael")
    spec = tmp_path / "host/etc/cdi/amd.json"
    amd_ctk("cdi", "generate", "--gpus=all+discrete", "--device-name-strategy=index")
    valid = amd_ctk("cdi", "validate").stdout
    spec.write_text(spec.read_text().replace('"path": "/dev/dri/renderD', '"path": "/dev/dri/rendered', 1))

    answer = amd_ctk("cdi", "validate")

    assert (valid, answer.stderr) == (VALID, "")
    assert "devices[0].containerEdits.deviceNodes" in answer.stdout
    assert answer.stdout.endswith("CDI spec is invalid\nPlease regenerate CDI spec\n")


@pytest.mark.parametrize(("generated", "asked"), [("/var/run", "/run"), ("/run", "/var/run")])
def test_var_run_is_run(generated, asked, host, amd_ctk, tmp_path):
    host()
    amd_ctk("cdi", "generate", "--gpus=1-2", "--vendor=lab.example", f"--output={generated}/cdi/lab.json")

    validated = amd_ctk("cdi", "validate", f"--path={asked}/cdi/lab.json")
    removed = amd_ctk("cdi", "remove", f"--output={asked}/cdi/lab.json")

    assert (validated.returncode, removed.returncode) == (0, 0)
    assert not (tmp_path / "host/run/cdi/lab.json").exists()
    assert amd_ctk("cdi", "refresh").stdout == "No CDI spec has been generated, so there is nothing to refresh\n"
