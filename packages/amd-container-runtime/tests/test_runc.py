"""Command lines as Docker, containerd, Podman and people write them, and which program makes containers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_container_runtime import runc
from amd_container_runtime.runc import (
    COMMAND_VALUES,
    GLOBAL_VALUES,
    Call,
    NoLowLevelRuntime,
    find_low_level_runtime,
    maker_of,
    parse_call,
)

DOCKER = "--root /var/run/docker/runtime-runc/moby --log /b/log.json --log-format json"


def test_docker_create_is_read_whole():
    call = parse_call(f"{DOCKER} --systemd-cgroup create --bundle /b --pid-file /b/init.pid 4f5e".split())

    assert call == Call(
        command="create",
        container_id="4f5e",
        bundle="/b",
        config="config.json",
        log="/b/log.json",
        log_format="json",
        root="/var/run/docker/runtime-runc/moby",
        pid_file="/b/init.pid",
        systemd_cgroup=True,
        asks_for_help=False,
    )


def test_podman_create_has_no_root_and_joins_its_values():
    call = parse_call("--log-format=json --log=/run/oci-log create --bundle /userdata --pid-file /p 9f2c".split())

    assert call == Call(
        command="create", container_id="9f2c", bundle="/userdata", log="/run/oci-log", log_format="json", pid_file="/p"
    )


@pytest.mark.parametrize(
    "line",
    [
        "create --bundle /b c1",
        "create -bundle /b c1",
        "create --bundle=/b c1",
        "create -b /b c1",
        "create -b=/b c1",
        "create c1 --bundle /b",
        "create --no-pivot --bundle /b c1",
        "create --console-socket create --bundle /b c1",
        "create --bundle /b -- c1",
        "-- create --bundle /b c1",
        "--debug=true create --bundle /b c1",
        "--criu create create --bundle /b c1",
        "create -b/b c1",
    ],
)
def test_every_spelling_of_the_bundle_is_understood(line):
    call = parse_call(line.split())

    assert (call.command, call.bundle, call.container_id) == ("create", "/b", "c1")


def test_the_default_bundle_is_the_working_directory():
    assert parse_call(["create", "c1"]).bundle == "."


def test_a_bundle_called_create_is_no_second_create():
    call = parse_call(["create", "--bundle", "create", "c1"])

    assert (call.bundle, call.container_id) == ("create", "c1")


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("--log create state c1", "state"),
        ("exec c1 create --bundle /b", "exec"),
        ("kill create 9", "kill"),
        ("--root=/r delete --force create", "delete"),
        ("--version", ""),
        ("", ""),
        ("--log", ""),
    ],
)
def test_only_the_command_word_makes_a_create(line, command):
    call = parse_call(line.split())

    assert call.command == command
    assert not call.starts_container


@pytest.mark.parametrize("command", ["create", "run", "restore"])
def test_the_three_commands_that_start_containers(command):
    assert parse_call([command, "c1"]).starts_container


def test_crun_may_name_the_configuration_file():
    assert parse_call(["create", "-f", "other.json", "c1"]).config == "other.json"


def test_words_behind_two_dashes_are_operands():
    call = parse_call(["create", "--", "--bundle"])

    assert (call.container_id, call.bundle) == ("--bundle", ".")


def test_the_value_of_an_option_to_come_is_not_the_container():
    call = parse_call(["create", "--bundle", "/b", "--to-come", "value", "c1"])

    assert (call.container_id, call.bundle) == ("c1", "/b")


@pytest.mark.parametrize("line", ["--help", "-h", "-h create", "create --help", "create c1 -h", "run -help"])
def test_help_is_seen_in_front_of_a_command_and_behind_it(line):
    assert parse_call(line.split()).asks_for_help


@pytest.mark.parametrize(
    "line", ["state --help", "exec c1 ls --help", "create -- --help", "create --pid-file --help c1"]
)
def test_other_words_are_no_call_for_help(line):
    assert not parse_call(line.split()).asks_for_help


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("state c1", ("c1",)),
        ("kill --all c1 9", ("c1", "9")),
        ("exec --process /p --detach c1", ("c1",)),
        ("exec --cwd / -u 1 c1 /bin/sh", ("1", "c1")),
        ("create --bundle /b c1", ()),
        ("list", ()),
        ("", ()),
    ],
)
def test_words_that_may_name_the_container_of_a_later_call(line, names):
    assert parse_call(line.split()).names == names


@pytest.mark.parametrize(
    ("line", "asks"), [("--version", True), ("-v", True), ("--root /r --version", True), ("state --version", False)]
)
def test_only_a_call_without_a_command_asks_for_the_version(line, asks):
    assert parse_call(line.split()).asks_for_version is asks


FLAGS = st.sampled_from(["--debug", "-debug", "--systemd-cgroup", "--debug=false"])
WORD = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=8).filter(
    lambda word: not word.startswith("-")
)


def _options(names):
    name = st.sampled_from(sorted(names))
    apart = st.builds(lambda key, value: [f"--{key}", value], name, st.text(max_size=8))
    joined = st.builds(lambda key, value: [f"--{key}={value}"], name, st.text(max_size=8))
    return st.lists(apart | joined, max_size=4)


@given(
    _options(GLOBAL_VALUES), st.lists(FLAGS, max_size=2), WORD, _options(COMMAND_VALUES - {"b", "bundle"}), WORD, WORD
)
def test_any_mix_of_options_leaves_command_bundle_and_id_in_their_places(before, flags, command, after, bundle, name):
    words = [
        *(word for option in before for word in option),
        *flags,
        command,
        *(word for option in after for word in option),
        "--bundle",
        bundle,
        name,
    ]

    call = parse_call(words)

    assert call.command == command
    if call.starts_container:
        assert (call.bundle, call.container_id) == (bundle, name)


@given(st.lists(st.text(max_size=10), max_size=8))
def test_no_command_line_is_refused(words):
    parse_call(words)


@given(
    st.sampled_from(["create", "run", "restore"]),
    _options(COMMAND_VALUES - {"b", "bundle"}),
    WORD,
    WORD,
)
def test_a_starting_command_is_read_wherever_its_operand_stands(command, options, bundle, name):
    words = [command, name, *(word for option in options for word in option), f"--bundle={bundle}"]

    call = parse_call(words)

    assert (call.command, call.bundle, call.container_id) == (command, bundle, name)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Return a function that makes a directory with programs; no other directory of this machine is looked at."""
    monkeypatch.setattr(runc, "USUAL_DIRECTORIES", (str(tmp_path / "usual"),))

    def make(name, *programs):
        path = tmp_path / name
        path.mkdir()
        for program in programs:
            (path / program).write_text("#!/bin/sh\n")
            (path / program).chmod(0o755)
        return str(path)

    return make


def test_runc_is_preferred_wherever_it_is(directory):
    first = directory("first", "crun")
    usual = directory("usual", "runc", "crun")

    assert find_low_level_runtime("", first, own_path="/nowhere") == f"{usual}/runc"


def test_crun_serves_where_there_is_no_runc(directory):
    first = directory("first", "crun")

    assert find_low_level_runtime("", first, own_path="/nowhere") == f"{first}/crun"


@pytest.mark.parametrize("search_path", ["", ":", ".:relative"])
def test_without_a_useful_path_the_usual_directories_are_searched(directory, monkeypatch, tmp_path, search_path):
    directory("relative", "runc")
    usual = directory("usual", "runc")
    monkeypatch.chdir(tmp_path)

    assert find_low_level_runtime("", search_path, own_path="/nowhere") == f"{usual}/runc"


def test_only_the_runtime_that_the_administrator_names_is_used(directory):
    first = directory("first", "runc", "youki")
    last = directory("last", "runc")

    assert find_low_level_runtime("youki", first, own_path="/nowhere") == f"{first}/youki"
    assert find_low_level_runtime(f"{last}/runc", first, own_path="/nowhere") == f"{last}/runc"


def test_this_program_is_never_its_own_runc_under_any_name(directory, tmp_path):
    first = directory("first", "own")
    (tmp_path / "first/runc").symlink_to("own")
    usual = directory("usual", "runc")

    assert find_low_level_runtime("", first, own_path=f"{first}/own") == f"{usual}/runc"


@pytest.mark.parametrize("spoil", [lambda runc: runc.chmod(0o644), lambda runc: (runc.unlink(), runc.mkdir())])
def test_a_runtime_that_cannot_be_executed_is_passed_over(directory, tmp_path, spoil):
    first = directory("first", "runc")
    spoil(tmp_path / "first/runc")
    usual = directory("usual", "runc")

    assert find_low_level_runtime("", first, own_path="/nowhere") == f"{usual}/runc"


def test_a_machine_without_any_runtime_is_told_what_to_install(directory):
    with pytest.raises(NoLowLevelRuntime) as refusal:
        find_low_level_runtime("", directory("first"), own_path="/nowhere")

    assert str(refusal.value) == (
        "neither runc nor crun is installed, so the container cannot start (install runc or crun)"
    )
    assert refusal.value.exit_code == 7


def keep_state(directory, container_id, file):
    (directory / container_id).mkdir(parents=True, exist_ok=True)
    (directory / container_id / file).write_text("{}")


def test_the_maker_of_a_container_is_the_runtime_whose_state_file_is_there(tmp_path):
    keep_state(tmp_path, "c1", "state.json")
    keep_state(tmp_path, "c2", "status")

    assert maker_of(["c1"], str(tmp_path), {}) == "runc"
    assert maker_of(["c2"], str(tmp_path), {}) == "crun"
    assert maker_of(["--force", "no-container", "c2", "c1"], str(tmp_path), {}) == "crun"
    assert maker_of(["c3"], str(tmp_path), {}) == ""


def test_a_container_of_which_both_runtimes_keep_state_has_no_known_maker(tmp_path):
    keep_state(tmp_path, "c1", "state.json")
    keep_state(tmp_path, "c1", "status")
    keep_state(tmp_path, "c2", "status")

    assert maker_of(["c1", "c2"], str(tmp_path), {}) == ""


def test_without_a_root_the_state_is_looked_for_in_the_users_runtime_directory_too(tmp_path):
    keep_state(tmp_path / "crun", "of-a-user", "status")

    assert maker_of(["of-a-user"], "", {"XDG_RUNTIME_DIR": str(tmp_path)}) == "crun"
    assert maker_of(["of-a-user"], "", {}) == ""
