"""The shell launcher: who gets a call, runc or python, and that both are told it word for word.

The same command lines go through the parser in python, and the two have to agree.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amd_container_runtime.arguments import COMMAND_VALUES, GLOBAL_VALUES, parse

# Of the sources: an editable installation has a copy of some earlier day.
SCRIPT = os.path.join(os.path.dirname(__file__), "../src/scripts/amd-container-runtime")
SAYS_WHO = "#!/bin/sh\nprintf '%s\\0' {name} \"$@\"\n"
GPU_CONFIG = '{"process":{"env":["AMD_VISIBLE_DEVICES=0"]}}'
PLAIN_CONFIG = '{"process":{"env":["PATH=/bin"]}}'

SHELLS = [shell for shell in ("/bin/dash", "/bin/bash", "/bin/busybox") if os.path.exists(shell)]


# What a caller's environment may hold against a shell script.
HOSTILE = {
    "IFS": "/c",
    "ENV": "/nowhere",
    "BASH_ENV": "/nowhere",
    "CDPATH": "/",
    "GREP_OPTIONS": "--version",
    "command": "state",
    "bundle": "/nowhere",
    "value_of": "bundle",
    "options": "no",
    "low_level": "/bin/false",
    **{f"BASH_FUNC_{name}%%": "() { echo stolen; exit 0; }" for name in ("test", "read", "runc", "grep", "printf")},
}


class Launcher:
    """An installation as pip makes it, with programs that only say who they are and what they were told."""

    def __init__(self, root):
        self.root = root
        self.bin = root / "venv/bin"
        self.bin.mkdir(parents=True)
        shutil.copy(SCRIPT, self.bin)
        self.path = self.bin / "amd-container-runtime"
        self.entry = root / "venv/lib/python3.11/site-packages/amd_container_runtime/shim.py"
        self.entry.parent.mkdir(parents=True)
        self.entry.touch()
        self.programs = root / "programs"
        self.programs.mkdir()
        for program, name in ((self.bin / "python3.11", "python"), (self.programs / "runc", "runc")):
            self.add_program(program, name)
        self.host = root / "host"
        (self.host / "etc/amd-container-toolkit").mkdir(parents=True)
        self.bundle = root / "bundle"
        self.bundle.mkdir()
        self.environment = {"PATH": f"{self.programs}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": str(self.host)}

    def add_program(self, path, name):
        path.write_text(SAYS_WHO.format(name=name))
        path.chmod(0o755)

    def config(self, text):
        (self.bundle / "config.json").write_text(text)

    def settings(self, text):
        (self.host / "etc/amd-container-toolkit/config.toml").write_text(text)

    def run(self, *words, shell=None, **environment):
        """Return who got the call and what it was told."""
        answer = subprocess.run(
            [*([shell, *(["sh"] if shell.endswith("busybox") else [])] if shell else []), str(self.path), *words],
            cwd=self.bundle,
            env={**self.environment, **environment},
            capture_output=True,
            check=True,
        )
        assert answer.stderr == b""
        # Not as text, in which a carriage return becomes a newline.
        who, *told = answer.stdout.decode("utf-8").split("\0")[:-1]
        if who == "python":
            library = str(self.entry).removesuffix("/amd_container_runtime/shim.py")
            assert (told[:4], told[5:7]) == (["-I", "-S", "-B", "-c"], [library, str(self.path)])
            return who, told[7:]
        return who, told


@pytest.fixture
def launcher(tmp_path):
    return Launcher(tmp_path)


LINES = [
    ("state c1", "runc"),
    ("start c1", "runc"),
    ("kill c1 9", "runc"),
    ("delete --force c1", "runc"),
    ("--root /r --log /l --log-format json --systemd-cgroup delete create", "runc"),
    ("--root=/r --log=/l state c1", "runc"),
    ("--log create state c1", "runc"),
    ("-log create state c1", "runc"),
    ("--criu run kill c1 9", "runc"),
    ("exec c1 create --bundle /b", "runc"),
    ("exec --process /tmp/p --detach --pid-file /p c1", "runc"),
    ("update --resources=- c1", "runc"),
    ("ps --format json c1", "runc"),
    ("features", "runc"),
    ("-- state create", "runc"),
    ("--debug=true events create", "runc"),
    ("--log= list", "runc"),
    ("create c1", "python"),
    ("create --bundle . c1", "python"),
    ("create --bundle=. c1", "python"),
    ("create -b . c1", "python"),
    ("create -b=. c1", "python"),
    ("create -bundle . c1", "python"),
    ("create -b. c1", "python"),
    ("create c1 --bundle .", "python"),
    ("create --console-socket --bundle --bundle . c1", "python"),
    ("create --pid-file /p --no-pivot --preserve-fds 2 --bundle . c1", "python"),
    ("create --config other.json c1", "python"),
    ("create -f other.json c1", "python"),
    ("create --config=other.json c1", "python"),
    ("create --an-option-to-come c1", "python"),
    ("create -- c1", "python"),
    ("--log create create c1", "python"),
    ("--root /r --log /l --log-format json create --bundle . --pid-file ./p c1", "python"),
    ("--systemd-cgroup run -d --bundle . c1", "python"),
    ("create --help", "python"),
    ("restore -file-locks --image-path create --bundle . c1", "python"),
    ("-- create c1", "python"),
    ("--help", "python"),
    ("-h", "python"),
    ("--version", "python"),
    ("", "python"),
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("line", "who"), LINES)
def test_a_call_goes_where_it_belongs_word_for_word(launcher, shell, line, who):
    launcher.config(GPU_CONFIG)
    (launcher.bundle / "other.json").write_text(GPU_CONFIG)

    assert launcher.run(*line.split(), shell=shell) == (who, line.split())


@pytest.mark.parametrize(("line", "who"), LINES)
def test_the_parser_in_python_reads_the_same(line, who):
    call = parse(line.split())

    # A call without a command is python's too, which adds a word to runc's help.
    assert (call.starts_container or not call.command) == (who == "python")


@pytest.mark.parametrize(
    "line",
    ["create --bundle . c1", "create c1", "create --bundle=. c1", "run -d -b . c1", "--log /l create --bundle . c1"],
)
def test_a_container_that_wants_no_gpu_does_not_pay_for_python(launcher, line):
    launcher.config(PLAIN_CONFIG)

    assert launcher.run(*line.split()) == ("runc", line.split())


@pytest.mark.parametrize(
    "config",
    [
        '{"process":{"env":["AMD_VISIBLE_DEVICES="]}}',
        '{"process":{"env":["DOCKER_RESOURCE_GPU=0x1"]}}',
        '{"process":{"env":["\\u0041MD_VISIBLE_DEVICES=0"]}}',
        '{"linux":{"devices":[{"path":"/dev/dri/renderD128"}]}}',
        '{"linux":{"devices":[{"path":"/dev/gpu","type":"c","major":226,"minor":128}]}}',
        '{\n "path": "/dev/gpu",\n "major": 226\n}',
        '{"linux":{"resources":{"devices":[{"allow":true,"type":"c","major":-1,"minor":-1,"access":"rwm"}]}}}',
        '{"annotations":{"com.amd.container-toolkit.edits":"{}"}}',
        *(f'{{"major"{space}226}}' for space in (":", ": ", " :", " : ", ":  ", "\t:", ":\t", ": \t", ":\t ", ": \t ")),
    ],
)
def test_whatever_might_concern_gpus_starts_python(launcher, config):
    launcher.config(config)

    assert launcher.run("create", "c1")[0] == "python"


def test_a_bundle_that_cannot_be_read_is_pythons_to_complain_about(launcher):
    assert launcher.run("create", "--bundle", "/nowhere", "c1")[0] == "python"


@pytest.mark.parametrize(
    "line", ["create --config other.json c1", "create -b./ c1", "create --what c1", "create -bundle . c1"]
)
def test_an_unusual_command_line_is_pythons_even_without_gpus(launcher, line):
    launcher.config(PLAIN_CONFIG)

    assert launcher.run(*line.split())[0] == "python"


def test_the_configured_runtime_is_used(launcher):
    launcher.add_program(launcher.root / "other runc", "other")
    launcher.settings(f'# comment\nunknown-gpus = "ignore"\nlow-level-runtime = "{launcher.root}/other runc"\n')

    assert launcher.run("state", "c1") == ("other", ["state", "c1"])


def test_a_configured_name_is_looked_for_on_the_path(launcher):
    launcher.add_program(launcher.programs / "crun", "crun")
    launcher.settings('low-level-runtime = "crun"\nswarm-resources = ["AMD_GPU", "GPU"]\n')

    assert launcher.run("state", "c1") == ("crun", ["state", "c1"])


@pytest.mark.parametrize(
    "settings_text",
    [
        "low-level-runtime = 'crun'\n",
        'low-level-runtime="crun"\n',
        'low-level-runtime = "c\\u0072un"\n',
        '[table]\nlog-level = "info"\n',
        'swarm-resources = [\n  "AMD_GPU",\n]\n',
        'log-file = """\nlow-level-runtime = "x"\n"""\n',
    ],
)
def test_settings_in_another_form_are_pythons(launcher, settings_text):
    launcher.settings(settings_text)

    assert launcher.run("state", "c1")[0] == "python"


def test_a_configured_runtime_that_is_gone_is_pythons_to_complain_about(launcher):
    launcher.settings('low-level-runtime = "/nowhere/runc"\n')

    assert launcher.run("state", "c1")[0] == "python"


def test_crun_serves_only_where_there_is_no_runc_anywhere(launcher):
    first = launcher.root / "first"
    first.mkdir()
    launcher.add_program(first / "crun", "crun")

    assert launcher.run("state", "c1", PATH=f"{first}:{launcher.programs}")[0] == "runc"


def test_the_launcher_is_never_its_own_runc(launcher):
    first = launcher.root / "first"
    first.mkdir()
    (first / "runc").symlink_to(launcher.path)

    assert launcher.run("state", "c1", PATH=f"{first}:{launcher.programs}")[0] == "runc"


def test_a_launcher_behind_a_link_finds_its_python(launcher):
    link = launcher.root / "link"
    link.symlink_to(launcher.path)
    launcher.config(GPU_CONFIG)

    answer = subprocess.run(
        [link, "create", "c1"],
        cwd=launcher.bundle,
        env=launcher.environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.startswith("python\0-I\0-S\0")


@pytest.fixture
def library(launcher):
    """Return the library of a system package, with a python that says what it was told."""
    library = launcher.root / "venv/lib/amd-container-toolkit"
    (library / "python/amd_container_runtime").mkdir(parents=True)
    (library / "python/amd_container_runtime/shim.py").touch()
    launcher.add_program(library / "python3", "python-of-the-package")
    launcher.config(GPU_CONFIG)
    return library


@pytest.mark.parametrize("shell", SHELLS)
def test_the_library_of_a_system_package_comes_before_all_others(launcher, library, shell):
    who, told = launcher.run("create", "c1", shell=shell, **HOSTILE)

    program = told.pop(4)
    assert who == "python-of-the-package"
    assert told == ["-I", "-S", "-B", "-c", str(library / "python"), str(launcher.path), "create", "c1"]
    compile(program, "the launcher's", "exec")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_directory_of_programs_that_is_a_link_leads_to_the_library_beside_its_target(launcher, shell):
    """As /usr/sbin is a link to bin on some systems; the lib beside the link is another."""
    (launcher.root / "other/lib").mkdir(parents=True)
    (launcher.root / "other/bin").symlink_to(launcher.bin)
    launcher.path = launcher.root / "other/bin/amd-container-runtime"
    launcher.entry = f"{launcher.root}/other/bin/../lib/python3.11/site-packages/amd_container_runtime/shim.py"
    launcher.config(GPU_CONFIG)

    who, told = launcher.run("create", "c1", shell=shell)

    assert (who, told) == ("python", ["create", "c1"])


@pytest.mark.parametrize("shell", SHELLS)
def test_a_hostile_environment_changes_nothing(launcher, shell):
    launcher.config(GPU_CONFIG)
    hostile = {**HOSTILE, "PATH": f":.:bundle:{launcher.programs}"}
    launcher.add_program(launcher.bundle / "runc", "the bundle's")

    assert launcher.run("state", "*", "a b", "", "$HOME", shell=shell, **hostile) == (
        "runc",
        ["state", "*", "a b", "", "$HOME"],
    )
    assert launcher.run("create", "--bundle", ".", "c1", shell=shell, **hostile)[0] == "python"


WORDS = st.one_of(
    st.sampled_from(["create", "run", "restore", "state", "exec", "--", "-", "", "c1", "--debug", "--systemd-cgroup"]),
    st.sampled_from(sorted(GLOBAL_VALUES)).flatmap(
        lambda name: st.sampled_from([f"--{name}", f"-{name}", f"--{name}=v"])
    ),
    st.sampled_from(sorted(COMMAND_VALUES)).flatmap(
        lambda name: st.sampled_from([f"--{name}", f"-{name}", f"--{name}=v"])
    ),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6),
)


@example(words=["create", "\r", "é"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(WORDS, max_size=7))
def test_launcher_and_parser_agree_on_any_command_line(launcher, words):
    launcher.config(GPU_CONFIG)
    call = parse(words)

    who, told = launcher.run(*words)

    assert told == words
    assert who == ("python" if call.starts_container or not call.command else "runc")
