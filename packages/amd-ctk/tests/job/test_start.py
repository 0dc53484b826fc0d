"""A command is looked for before anybody waits for GPUs, and an engine in it is told of them."""

from __future__ import annotations

import pytest

from amd_ctk.job.start import default_name, find_gpu_warning, in_unit, through_sudo, with_token
from amd_gpu_tracker.watch.show.jobs import describe_grant
from amdgpu_discovery.command_line.process import CannotRun, CommandNotFound, require_program


@pytest.mark.parametrize(
    ("word", "kind", "message"),
    [
        ("missing-program", CommandNotFound, "missing-program cannot be run: it does not exist"),
        ("/missing/program", CommandNotFound, "/missing/program cannot be run: it does not exist"),
        ("/etc", CannotRun, "/etc cannot be run: access is refused"),
        ("/etc/passwd", CannotRun, "/etc/passwd cannot be run: access is refused"),
        ("/etc/passwd/x", CannotRun, "/etc/passwd/x cannot be run: a part of its path is not a directory"),
        ("", CommandNotFound, "'' cannot be run: it does not exist"),
    ],
)
def test_a_program_that_cannot_run_is_refused(word, kind, message):
    with pytest.raises(CannotRun) as refused:
        require_program(word)

    assert (type(refused.value), refused.value.message) == (kind, message)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Return two directories in which programs are looked for, behind one that is none."""
    directories = [tmp_path / "first", tmp_path / "second"]
    for directory in directories:
        directory.mkdir()
    monkeypatch.setenv("PATH", f"/etc/passwd:{directories[0]}:{directories[1]}")
    return directories


def test_a_program_is_found_where_the_shell_would_find_it(path):
    (path[0] / "train").mkdir()
    (path[1] / "train").symlink_to("/bin/true")

    require_program("train")
    require_program("/bin/true")


def test_a_file_that_may_not_be_run_is_what_was_meant(path):
    (path[0] / "train").write_text("")

    with pytest.raises(CannotRun) as refused:
        require_program("train")

    assert refused.value.message == "train cannot be run: access is refused"


def test_a_program_that_is_nowhere_does_not_exist(path):
    with pytest.raises(CommandNotFound) as refused:
        require_program("train")

    assert refused.value.message == "train cannot be run: it does not exist"


TOKEN = "-e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION"


@pytest.mark.parametrize(
    ("words", "passed_on"),
    [
        ("docker run --rm image", f"docker run {TOKEN} --rm image"),
        ("docker create image", f"docker create {TOKEN} image"),
        ("docker container run image", f"docker container run {TOKEN} image"),
        ("/usr/bin/podman run image run", f"/usr/bin/podman run {TOKEN} image run"),
        ("docker -H unix:///run/d.sock -D run image", f"docker -H unix:///run/d.sock -D run {TOKEN} image"),
        ("docker --context run run image", f"docker --context run run {TOKEN} image"),
        ("docker --context=lab run image", f"docker --context=lab run {TOKEN} image"),
        ("podman --root /a --storage-opt run run image", f"podman --root /a --storage-opt run run {TOKEN} image"),
        ("docker -Dl debug run image", f"docker -Dl debug run {TOKEN} image"),
        ("podman --log-level debug create image", f"podman --log-level debug create {TOKEN} image"),
        ("env X=1 docker run image", f"env X=1 docker run {TOKEN} image"),
        ("sudo -E docker run image", f"sudo -E docker run {TOKEN} image"),
        ("sudo docker run image", "sudo docker run image"),
        ("docker compose run web", "docker compose run web"),
        ("docker exec web run", "docker exec web run"),
        ("docker", "docker"),
        ("docker --host", "docker --host"),
        ("python3 run create", "python3 run create"),
        ("sh -c docker", "sh -c docker"),
    ],
)
def test_engines_get_options_that_pass_the_reservation_on(words, passed_on):
    assert with_token(words.split()) == passed_on.split()


KEPT = "--preserve-env=AMD_VISIBLE_DEVICES,AMD_CTK_RESERVATION"


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("sudo docker run image", f"sudo {KEPT} docker run image"),
        ("/usr/bin/sudo -n -u root podman create image", f"/usr/bin/sudo {KEPT} -n -u root podman create image"),
        ("sudo --preserve-env=HOME docker run image", f"sudo {KEPT} --preserve-env=HOME docker run image"),
        ("env X=1 sudo Y=2 docker run image", f"env X=1 sudo {KEPT} Y=2 docker run image"),
        ("sudo -E docker run image", "sudo -E docker run image"),
        (f"sudo {KEPT} docker run image", f"sudo {KEPT} docker run image"),
        ("sudo docker ps", "sudo docker ps"),
        ("sudo python3 train.py", "sudo python3 train.py"),
        ("docker run image", "docker run image"),
        ("sudo -i docker run image", "sudo -i docker run image"),
        ("sudo", "sudo"),
    ],
)
def test_sudo_keeps_the_variables_of_the_job_for_an_engine(words, kept):
    assert through_sudo(words.split()) == kept.split()
    assert through_sudo(kept.split()) == kept.split()


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (["env", "-i", "docker", "run", "image"], "docker run"),
        (["unshare", "-n", "/usr/bin/podman", "--root", "/a", "create", "image"], "podman create"),
        (["sudo", "-i", "docker", "run", "image"], "sudo -E docker run"),
        (["sh", "-c", "sudo docker run image"], "sudo -E docker run"),
        (["sh", "-c", "cd /a && exec docker run image"], "docker run"),
        (["time", "docker", "exec", "web", "docker", "run", "image"], "docker run"),
    ],
)
def test_a_warning_names_an_engine_behind_another_word(words, engine):
    assert find_gpu_warning(words) == (
        f"'{engine.removeprefix('sudo -E ')}' is not the first word of the command, so its container is not given the"
        f" GPUs (write '{engine} --runtime=amd {TOKEN}')"
    )


@pytest.mark.parametrize(
    "words",
    [
        "docker run image sh -c docker run image",
        f"env X=1 docker run {TOKEN} image",
        "docker compose ps",
        "docker compose -f gpus.yaml exec web make run",
        "docker-compose logs run",
        "docker compose run -e AMD_VISIBLE_DEVICES -e AMD_CTK_RESERVATION web",
        "nerdctl exec web run",
        "ctr images ls",
        "buildah build .",
        "apptainer run image.sif",
        "grep docker run.log",
        "docker",
        "",
    ],
)
def test_other_commands_are_not_warned_of(words):
    assert find_gpu_warning(words.split(" ")) == ""


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        ("nerdctl -n k8s.io run image", "nerdctl"),
        ("sudo ctr run image web", "ctr"),
        ("buildah run web", "buildah"),
        ("podman-remote run image", "podman-remote"),
    ],
)
def test_a_warning_names_an_engine_whose_options_are_not_read(words, engine):
    assert find_gpu_warning(words.split()) == (
        f"{engine} is not told about the GPUs, so its container has none (pass on AMD_VISIBLE_DEVICES and"
        " AMD_CTK_RESERVATION, with the AMD runtime)"
    )


@pytest.mark.parametrize(
    "words",
    ["docker compose up -d", "sudo docker compose --file=gpus.yaml run web", "podman-compose up", "docker-compose up"],
)
def test_a_compose_file_that_does_not_pass_the_gpus_on_is_named(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpus.yaml").write_text("services: {web: {environment: [AMD_VISIBLE_DEVICES]}}")
    assert find_gpu_warning(words.split()) == (
        "the Compose file does not pass the GPUs on (list AMD_VISIBLE_DEVICES and AMD_CTK_RESERVATION under"
        " 'environment:')"
    )

    for name in ("compose.yaml", "gpus.yaml"):
        (tmp_path / name).write_text("services: {web: {environment: [AMD_VISIBLE_DEVICES, AMD_CTK_RESERVATION]}}")
    assert find_gpu_warning(words.split()) == ""


@pytest.mark.parametrize("name", ["compose.override.yml", "chosen.yaml"])
def test_files_of_compose_that_no_word_names_may_pass_the_gpus_on(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMPOSE_FILE", "compose.yaml:chosen.yaml")
    (tmp_path / "compose.yaml").write_text("services: {web: {}}")
    (tmp_path / name).write_text("services: {web: {environment: [AMD_VISIBLE_DEVICES, AMD_CTK_RESERVATION]}}")

    assert find_gpu_warning(["docker", "compose", "-p", "job", "up"]) == ""


def test_many_words_are_looked_through_at_once():
    assert find_gpu_warning(["rm", *["docker run.log"] * 100_000]) == ""


def test_a_unit_has_the_properties_that_close_other_gpus():
    words = in_unit(["sh", "-c", "exit 3"], ["DevicePolicy=closed", "DeviceAllow=/dev/kfd rw"])

    assert " ".join(words) == (
        "systemd-run --scope --quiet --collect -p DevicePolicy=closed -p DeviceAllow=/dev/kfd rw -- sh -c exit 3"
    )


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/usr/bin/python3.11", "python3-11-7"),
        ("--", "job-7"),
        ("ä\n", "job-7"),
        ("x" * 99, f"{'x' * 40}-7"),
        ("", "job-7"),
    ],
)
def test_a_job_is_called_after_its_program(program, name):
    assert default_name([program], {}, 7) == name


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"AMD_CTK_JOB_NAME": "nightly", "JUPYTERHUB_USER": "alice", "SLURM_JOB_NAME": "train"}, "nightly-7"),
        ({"JUPYTERHUB_USER": "alice", "SLURM_JOB_NAME": "train"}, "jupyter-alice-7"),
        ({"SLURM_JOB_NAME": "train"}, "train-7"),
        ({"AMD_CTK_JOB_NAME": "", "SLURM_JOB_NAME": "My job!"}, "My-job-7"),
        ({"JUPYTERHUB_USER": "\u00e9va@lab.example"}, "jupyter--va-lab-example-7"),
        ({"AMD_CTK_JOB_NAME": "x" * 1000}, "x" * 40 + "-7"),
        ({"AMD_CTK_JOB_NAME": "!"}, "job-7"),
    ],
)
def test_a_job_is_called_as_what_started_it_says(environment, name):
    assert default_name(["/usr/bin/jupyterhub-singleuser"], environment, 7) == name


@pytest.mark.parametrize(
    ("numbers", "seconds", "said"),
    [
        ((2, 3), 252.9, "GPUs 2 and 3 after 4 min 12 s"),
        ((0,), 0.2, "GPU 0 after 0 s"),
        ((0, 1, 7), 3600 * 26 + 61, "GPUs 0, 1 and 7 after 26 h 1 min"),
        ((5,), None, "GPU 5"),
    ],
)
def test_a_job_reads_which_gpus_it_got_and_for_how_long(numbers, seconds, said):
    assert describe_grant(numbers, seconds) == said
