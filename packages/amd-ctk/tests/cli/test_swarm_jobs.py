"""amd-ctk swarm submit and prune: services that run once, with a docker command that answers what a test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.answering_docker import DEFAULT_IS_AMD, Node

LIST = "service ls --quiet --filter label=com.amd.container-toolkit.one-shot=true"


def service(identity: str, *, mode: dict | None = None, condition: str = "none") -> dict:
    spec = {"Name": f"job-{identity}", "Mode": mode or {"Replicated": {"Replicas": 1}}}
    return {"ID": identity, "Spec": {**spec, "TaskTemplate": {"RestartPolicy": {"Condition": condition}}}}


@pytest.fixture
def swarm_of(node: Node):
    """Return a function that gives the swarm labelled services and the states of their tasks."""

    def make(*services: tuple[dict, list[str]]) -> None:
        identities = [spec["ID"] for spec, _ in services]
        node.answer(LIST, "\n".join(identities))
        node.answer(f"service inspect {' '.join(identities)}", [spec for spec, _ in services])
        tasks = [f"{spec['ID']}.1 {state} 3 seconds ago\n" for spec, states in services for state in states]
        options = "--no-trunc --no-resolve --format {{.Name}} {{.CurrentState}}"
        node.answer(f"service ps {options} {' '.join(identities)}", "".join(tasks))
        for spec, _ in services:
            node.answer(f"service rm {spec['ID']}", spec["ID"])

    return make


def test_services_that_are_done_are_removed(node: Node, swarm_of) -> None:
    swarm_of((service("a"), ["Complete"]), (service("b"), ["Failed"]), (service("c"), ["Running"]))

    answer = node("prune")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "Removed service job-a (complete)\nRemoved service job-b (failed)\n"
    assert [call for call in node.calls if call.startswith("service rm")] == ["service rm a", "service rm b"]
    # A thousand services would take twenty seconds if each were asked for by itself.
    assert len([call for call in node.calls if call.startswith("service ps")]) == 1


@pytest.mark.parametrize(
    ("mode", "condition", "states"),
    [
        pytest.param(None, "none", [], id="no task yet"),
        pytest.param(None, "none", ["Pending"], id="waits for a GPU"),
        pytest.param(None, "any", ["Complete"], id="is started again"),
        pytest.param(None, "on-failure", ["Failed"], id="is tried again"),
        pytest.param({"Replicated": {"Replicas": 2}}, "none", ["Complete"], id="one of two"),
        pytest.param(
            {"ReplicatedJob": {"TotalCompletions": 2}}, "on-failure", ["Complete", "Failed"], id="job at work"
        ),
    ],
)
def test_services_that_are_not_done_stay(node: Node, swarm_of, mode, condition: str, states: list[str]) -> None:
    swarm_of((service("a", mode=mode, condition=condition), states))

    assert node("prune").stdout == "No one-shot service is finished\n"


@pytest.mark.parametrize(
    ("mode", "condition", "states"),
    [
        ({"ReplicatedJob": {"TotalCompletions": 2}}, "any", ["Complete", "Failed", "Complete"]),
        ({"GlobalJob": {}}, "on-failure", ["Complete", "Complete"]),
        ({"Global": {}}, "none", ["Complete", "Rejected"]),
        ({"Replicated": {"Replicas": 2}}, "on-failure", ["Complete", "Complete"]),
    ],
)
def test_every_mode_of_service_comes_to_an_end(node: Node, swarm_of, mode, condition: str, states: list[str]) -> None:
    swarm_of((service("a", mode=mode, condition=condition), states))

    assert node("prune").stdout.startswith("Removed service job-a (")


def test_failed_services_can_be_kept(node: Node, swarm_of) -> None:
    swarm_of((service("a"), ["Complete"]), (service("b"), ["Failed"]))

    assert node("prune", "--keep-failed").stdout == "Removed service job-a (complete)\n"


def test_a_dry_run_removes_no_service(node: Node, swarm_of) -> None:
    swarm_of((service("a"), ["Complete"]))

    assert node("prune", "--dry-run").stdout == "Would remove service job-a (complete)\n"
    assert not [call for call in node.calls if call.startswith("service rm")]


def test_without_labelled_services_there_is_nothing_to_do(node: Node) -> None:
    node.answer(LIST, "")

    assert node("prune").stdout == "No one-shot service is finished\n"


def test_docker_says_itself_what_is_wrong(node: Node) -> None:
    assert node("prune").stderr == f"docker service failed: no answer for {LIST}\n"
    (node.directory / "docker").unlink()
    assert node("prune").stderr == "docker is not installed (run this on a node of the swarm)\n"


SERVICES = "service ls --format {{.Name}}"
CREATE = (
    "service create --name={} --detach --restart-condition=none --label=com.amd.container-toolkit.one-shot=true"
    " --generic-resource=VRAM=4000 rocm/pytorch python3 train.py --seed {}"
)
SUBMIT = ("submit", "sweep", "--vram=4000")
PROGRAM = ("rocm/pytorch", "--", "python3", "train.py", "--seed")


@pytest.fixture
def parameters(tmp_path: Path) -> Path:
    """Return a file with three lines of parameters."""
    path = tmp_path / "params.txt"
    path.write_text("1\n2\n3\n")
    return path


def test_a_job_is_submitted_for_each_line(node: Node, parameters: Path) -> None:
    node.answer(SERVICES, "other\n")
    for seed in "123":
        node.answer(CREATE.format(f"sweep-{seed}", seed), "id\n")

    answer = node(*SUBMIT, f"--each={parameters}", *PROGRAM)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == "Submitted sweep-1: 1\nSubmitted sweep-2: 2\nSubmitted sweep-3: 3\n"
    assert node.calls == [SERVICES, *(CREATE.format(f"sweep-{seed}", seed) for seed in "123")]


def test_a_dry_run_submits_nothing(node: Node, parameters: Path) -> None:
    answer = node(*SUBMIT, f"--each={parameters}", "--from-line=3", "--dry-run", *PROGRAM)

    assert answer.stdout == f"docker {CREATE.format('sweep-3', '3')}\n"
    assert node.calls == []


def test_words_of_the_file_are_no_commands_for_a_terminal(node: Node, parameters: Path) -> None:
    parameters.write_text("a\x1b[2Jb\n")
    node.answer(SERVICES, "")
    node.answer(CREATE.format("sweep-1", "a\x1b[2Jb"), "id\n")

    submitted = node(*SUBMIT, f"--each={parameters}", *PROGRAM)
    planned = node(*SUBMIT, f"--each={parameters}", "--dry-run", *PROGRAM)

    assert submitted.stdout == "Submitted sweep-1: 'a?[2Jb'\n"
    assert planned.stdout == f"docker {CREATE.format('sweep-1', repr('a?[2Jb'))}\n"


def test_where_docker_fails_it_is_said_what_was_submitted_and_how_to_go_on(node: Node, parameters: Path) -> None:
    node.answer(SERVICES, "")
    node.answer(CREATE.format("sweep-1", "1"), "id\n")
    node.answer(CREATE.format("sweep-2", "2"), "id\n")

    answer = node(*SUBMIT, f"--each={parameters}", *PROGRAM)

    assert (answer.returncode, answer.stdout) == (1, "Submitted sweep-1: 1\nSubmitted sweep-2: 2\n")
    assert answer.stderr == (
        f"line 3 of {parameters}: docker service failed: no answer for {CREATE.format('sweep-3', '3')}; sweep-1 to"
        " sweep-2 were submitted (submit the rest with --from-line=3)\n"
    )

    node.answer(CREATE.format("sweep-3", "3"), "id\n")
    assert node(*SUBMIT, f"--each={parameters}", "--from-line=3", *PROGRAM).stdout == "Submitted sweep-3: 3\n"


@pytest.mark.parametrize("words", [[], ["--vram=1", "--gpus=1"]])
def test_a_job_reserves_memory_or_gpus(node: Node, parameters: Path, words: list[str]) -> None:
    answer = node("submit", "sweep", *words, f"--each={parameters}", *PROGRAM)

    assert (answer.returncode, node.calls) == (1, [])
    assert answer.stderr == "a job reserves either memory or whole GPUs (use --vram=MIB or --gpus=N)\n"


def test_a_file_that_ends_before_the_first_line_to_submit_is_refused(node: Node, parameters: Path) -> None:
    answer = node(*SUBMIT, f"--each={parameters}", "--from-line=4000", "--dry-run", *PROGRAM)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert f"{parameters} has no line with parameters from line 4000 on (the last one is 3)\n" in answer.stderr


@pytest.mark.parametrize("option", ["--vram", "--gpus"])
def test_an_amount_that_docker_cannot_count_is_refused(node: Node, parameters: Path, option: str) -> None:
    words = ("submit", "s", f"{option}={2**63}", f"--each={parameters}", "--dry-run", *PROGRAM)

    answer = node(*words)

    assert (answer.returncode, answer.stdout) == (1, "")
    refusal = "9223372036854775808 is more than Docker accepts (the largest amount is 9223372036854775807)\n"
    assert refusal in answer.stderr


def test_jobs_whose_names_are_taken_are_not_submitted(node: Node, parameters: Path) -> None:
    node.answer(SERVICES, "sweep-2\n")

    answer = node(*SUBMIT, f"--each={parameters}", *PROGRAM)

    assert (answer.returncode, answer.stdout, node.calls) == (1, "", [SERVICES])
    assert answer.stderr == (
        "a service sweep-2 exists already, so nothing was submitted (choose another name, or run 'amd-ctk swarm"
        " prune' if it is finished)\n"
    )


def test_jobs_reserve_by_the_kinds_of_this_node(node: Node, parameters: Path) -> None:
    node.configure(**DEFAULT_IS_AMD)
    node("setup", "--kind=MI", "--vram=GPU_MB")

    memory = node(*SUBMIT, f"--each={parameters}", "--from-line=3", "--dry-run", *PROGRAM).stdout
    whole = node("submit", "s", "--gpus=2", f"--each={parameters}", "--from-line=3", "--dry-run", *PROGRAM).stdout

    assert "--generic-resource=GPU_MB=4000 " in memory
    assert "--generic-resource=MI=2 " in whole
