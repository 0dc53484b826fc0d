"""Which services are made of the lines of a file."""

from __future__ import annotations

import pytest

from amd_ctk.swarm.jobs import SwarmJob, Template, parse_jobs, service_command
from amd_ctk.swarm.resources import Resource
from amdgpu_discovery.command_line.parameters import ParametersError, read_parameters
from amdgpu_discovery.errors import ToolkitError


def test_each_line_is_a_job_and_its_words_are_those_of_a_shell():
    text = "--seed 1\n\n# a comment\n  --name 'two words' --seed=2\n"

    assert parse_jobs("sweep", text, "params.txt") == [
        SwarmJob(name="sweep-1", line=1, args=("--seed", "1")),
        SwarmJob(name="sweep-4", line=4, args=("--name", "two words", "--seed=2")),
    ]


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("sweep", "", "params.txt has no line with parameters"),
        ("sweep", "# nothing\n\n", "params.txt has no line with parameters"),
        ("sweep", "1\n--name 'two\n", "line 2 of params.txt cannot be split into words: no closing quotation"),
        ("sweep", "1\n2\0\n", "line 2 of params.txt has a NUL byte"),
        ("sweep", "1\n" * 1001, "params.txt has 1001 lines with parameters, 1000 at most"),
        ("my sweep", "1\n", "my sweep-1 is not a name for a service"),
        ("sweep--", "1\n", "sweep---1 is not a name for a service"),
        ("", "1\n", "-1 is not a name for a service"),
        ("s" * 62, "1\n", f"{'s' * 62}-1 is not a name for a service"),
        ("schön", "1\n", "schön-1 is not a name for a service"),
    ],
)
def test_a_text_that_is_no_list_of_jobs_is_refused(name, text, sentence):
    with pytest.raises(ToolkitError) as refused:
        parse_jobs(name, text, "params.txt")

    assert refused.value.message == sentence


def test_a_file_is_read_up_to_its_bound(tmp_path):
    path = tmp_path / "params.txt"
    path.write_bytes(b"1\n" * (1 << 19))
    assert len(read_parameters(str(path))) == 1 << 20

    path.write_bytes(b"1\n" * (1 << 19) + b"1")

    with pytest.raises(ParametersError) as refused:
        read_parameters(str(path))
    assert refused.value.message == f"{path} has more than 1048576 bytes"
    with pytest.raises(ParametersError) as refused:
        read_parameters("/dev/zero")
    assert refused.value.message == "/dev/zero has more than 1048576 bytes"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda _: None, "cannot be read: it does not exist"),
        (lambda path: path.mkdir(), "cannot be read: it is a directory"),
        (lambda path: path.write_bytes(b"\xff\n"), "is not text in UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, make, sentence):
    path = tmp_path / "params.txt"
    make(path)

    with pytest.raises(ParametersError) as refused:
        read_parameters(str(path))

    assert refused.value.message == f"{path} {sentence}"


def test_the_service_of_a_job_runs_once_and_may_be_pruned():
    template = Template(
        resources=(Resource(kind="VRAM", value="4000"),),
        constraints=("node.labels.amd.gpu.gfx==gfx90a",),
        image="rocm/pytorch",
        command=("python3", "train.py"),
    )

    assert service_command(SwarmJob(name="sweep-3", line=3, args=("--seed", "3")), template) == [
        *("docker", "service", "create", "--name=sweep-3", "--detach", "--restart-condition=none"),
        *("--label=com.amd.container-toolkit.one-shot=true", "--generic-resource=VRAM=4000"),
        "--constraint=node.labels.amd.gpu.gfx==gfx90a",
        *("rocm/pytorch", "python3", "train.py", "--seed", "3"),
    ]
