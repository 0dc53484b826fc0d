"""Command lines as Docker, containerd, Podman and people write them, and what is read from each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_container_runtime.arguments import COMMAND_VALUES, GLOBAL_VALUES, Call, parse

DOCKER = "--root /var/run/docker/runtime-runc/moby --log /b/log.json --log-format json"


def test_docker_create_is_read_whole():
    call = parse(f"{DOCKER} --systemd-cgroup create --bundle /b --pid-file /b/init.pid 4f5e".split())

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
    call = parse("--log-format=json --log=/run/oci-log create --bundle /userdata --pid-file /p 9f2c".split())

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
    call = parse(line.split())

    assert (call.command, call.bundle, call.container_id) == ("create", "/b", "c1")


def test_the_default_bundle_is_the_working_directory():
    assert parse(["create", "c1"]).bundle == "."


def test_a_bundle_called_create_is_no_second_create():
    call = parse(["create", "--bundle", "create", "c1"])

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
    call = parse(line.split())

    assert call.command == command
    assert not call.starts_container


@pytest.mark.parametrize("command", ["create", "run", "restore"])
def test_the_three_commands_that_start_containers(command):
    assert parse([command, "c1"]).starts_container


def test_crun_may_name_the_configuration_file():
    assert parse(["create", "-f", "other.json", "c1"]).config == "other.json"


def test_words_behind_two_dashes_are_operands():
    call = parse(["create", "--", "--bundle"])

    assert (call.container_id, call.bundle) == ("--bundle", ".")


def test_the_value_of_an_option_to_come_is_not_the_container():
    call = parse(["create", "--bundle", "/b", "--to-come", "value", "c1"])

    assert (call.container_id, call.bundle) == ("c1", "/b")


@pytest.mark.parametrize("line", ["--help", "-h", "-h create", "create --help", "create c1 -h", "run -help"])
def test_help_is_seen_in_front_of_a_command_and_behind_it(line):
    assert parse(line.split()).asks_for_help


@pytest.mark.parametrize(
    "line", ["state --help", "exec c1 ls --help", "create -- --help", "create --pid-file --help c1"]
)
def test_other_words_are_no_call_for_help(line):
    assert not parse(line.split()).asks_for_help


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
    assert parse(line.split()).names == names


@pytest.mark.parametrize(
    ("line", "asks"), [("--version", True), ("-v", True), ("--root /r --version", True), ("state --version", False)]
)
def test_only_a_call_without_a_command_asks_for_the_version(line, asks):
    assert parse(line.split()).asks_for_version is asks


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

    call = parse(words)

    assert call.command == command
    if call.starts_container:
        assert (call.bundle, call.container_id) == (bundle, name)


@given(st.lists(st.text(max_size=10), max_size=8))
def test_no_command_line_is_refused(words):
    parse(words)


@given(
    st.sampled_from(["create", "run", "restore"]),
    _options(COMMAND_VALUES - {"b", "bundle"}),
    WORD,
    WORD,
)
def test_a_starting_command_is_read_wherever_its_operand_stands(command, options, bundle, name):
    words = [command, name, *(word for option in options for word in option), f"--bundle={bundle}"]

    call = parse(words)

    assert (call.command, call.bundle, call.container_id) == (command, bundle, name)
