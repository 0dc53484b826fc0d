"""The shell launcher: who gets a call, runc or python, and that both are told it word for word.

The same command lines go through the parser in python, and the two have to agree.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from amd_container_runtime.runc import (
    COMMAND_VALUES,
    GLOBAL_VALUES,
    USUAL_DIRECTORIES,
    find_low_level_runtime,
    maker_of,
    parse_call,
)

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
    "root": "/nowhere",
    "by_crun": "crun",
    **{
        f"BASH_FUNC_{name}%%": "() { echo stolen; exit 0; }"
        for name in ("test", "read", "runc", "grep", "printf", "become")
    },
}


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
    call = parse_call(line.split())

    # A call without a command is python's too, which adds a word to runc's help.
    assert (call.starts_container or not call.command) == (who == "python")


@pytest.mark.parametrize(
    "line",
    ["create --bundle . c1", "create c1", "create --bundle=. c1", "run -d -b . c1", "--log /l create --bundle . c1"],
)
def test_a_container_that_wants_no_gpu_does_not_pay_for_python(launcher, line):
    launcher.config(PLAIN_CONFIG)

    assert launcher.run(*line.split()) == ("runc", line.split())


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

    assert answer.stdout.startswith("python\0")


@pytest.fixture
def library(launcher):
    """Return the library that is written into the launcher of a package, whose python says what it was told."""
    library = launcher.root / "toolkit"
    library.mkdir()
    launcher.add_program(library / "python3", "python-of-the-package")
    text = launcher.path.read_text().replace("@LIBRARY@", f"{library}/python").replace("@PYTHON@", f"{library}/python3")
    launcher.path.write_text(text)
    launcher.config(GPU_CONFIG)
    return library


@pytest.mark.parametrize("shell", SHELLS)
def test_the_library_that_packages_wrote_into_the_launcher_comes_before_all_others(launcher, library, shell):
    who, told = launcher.run("create", "c1", shell=shell, **HOSTILE)

    program = told[told.index("-c") + 1]
    assert who == "python-of-the-package"
    assert {"-I", "-S", "-B", str(library / "python")} < set(told)
    assert told[-3:] == [str(launcher.path), "create", "c1"]
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


def make_container(root, maker):
    """Leave what a runtime keeps of a container c1 below its root."""
    directory = root / "c1"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / {"runc": "state.json", "crun": "status"}[maker]).touch()


@pytest.fixture
def both(launcher):
    """Return a launcher where runc and crun are installed."""
    launcher.add_program(launcher.programs / "crun", "crun")
    return launcher


MADE_BY_CRUN = [
    "state c1",
    "start c1",
    "kill c1 9",
    "kill --all c1 KILL",
    "delete --force c1",
    "exec --process /tmp/p --detach --pid-file /p c1",
    "exec --tty --user 1000 c1 ls c2",
    "update --resources=- c1",
    "ps --format json c1",
    "pause c1",
    "checkpoint --image-path /i c1",
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", MADE_BY_CRUN)
def test_every_later_call_goes_to_the_runtime_that_made_the_container(both, shell, line):
    root = both.root / "a root"
    make_container(root, "crun")

    for option in (["--root", str(root)], [f"--root={root}"], ["-root", str(root)], ["--log=/l", "--root", str(root)]):
        words = [*option, *line.split()]
        assert both.run(*words, shell=shell) == ("crun", words)


@pytest.mark.parametrize(
    ("configured", "makers", "who"),
    [
        ("", [], "runc"),
        ("", ["runc"], "runc"),
        ("", ["crun"], "crun"),
        # Nothing says which of the two; the one that is chosen for new containers.
        ("", ["runc", "crun"], "runc"),
        ("runc", ["crun"], "crun"),
        ("{programs}/runc", ["crun"], "crun"),
        ("crun", ["runc"], "runc"),
        ("crun", ["runc", "crun"], "crun"),
        ("{programs}/crun", ["crun"], "crun"),
        ("{programs}/other/crun", ["crun"], "other/crun"),
        ("{programs}/other/crun", ["runc"], "runc"),
        # Anything may be behind another name.
        ("wrapper", ["crun"], "wrapper"),
        ("wrapper", ["runc"], "wrapper"),
    ],
)
@pytest.mark.parametrize("where", ["root", "runtime directory"])
def test_launcher_and_python_find_the_maker_alike(both, configured, makers, who, where):
    (both.programs / "other").mkdir()
    for name in ("wrapper", "other/crun"):
        both.add_program(both.programs / name, name)
    configured = configured.format(programs=both.programs)
    both.settings(f'low-level-runtime = "{configured}"\n' if configured else "")
    for maker in makers:
        make_container(both.root / ("root" if where == "root" else maker), maker)
    options = ["--root", str(both.root / "root")] if where == "root" else []
    user = {} if options else {"XDG_RUNTIME_DIR": str(both.root)}
    words = [*options, "kill", "c1", "9"]

    assert both.run(*words, **user) == (who, words)
    call = parse_call(words)
    program = find_low_level_runtime(
        configured, str(both.programs), own_path=str(both.path), maker=maker_of(call.names, call.root, user)
    )
    assert program == f"{both.programs}/{who}"


def test_a_container_of_crun_is_runcs_where_there_is_no_crun(launcher):
    make_container(launcher.root / "root", "crun")
    nothing_else = {"PATH": str(launcher.programs)}
    if any(os.path.exists(f"{directory}/crun") for directory in USUAL_DIRECTORIES):
        pytest.skip("this machine has crun in a usual directory")

    assert launcher.run("--root", str(launcher.root / "root"), "state", "c1", **nothing_else)[0] == "runc"


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
def test_the_launcher_and_the_parser_read_any_command_line_alike(launcher, words):
    launcher.config(GPU_CONFIG)
    call = parse_call(words)

    who, told = launcher.run(*words)

    assert told == words
    assert who == ("python" if call.starts_container or not call.command else "runc")
