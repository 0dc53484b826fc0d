"""Which engine a command leads to, by the files of the `docker` command; the expectations are what Docker 28.2 does."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from amd_ctk.engines.engine_address import find_context, is_elsewhere, read_context


@pytest.fixture
def home(tmp_path):
    """Return the home directory of a user who has chosen the context `far`, and also has `near`."""
    settings = tmp_path / ".docker"
    for name, address in (("far", "tcp://gpu-box:2375"), ("near", "unix:///run/near.sock")):
        directory = settings / "contexts/meta" / sha256(name.encode()).hexdigest()
        directory.mkdir(parents=True)
        (directory / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": address}}}))
    (settings / "config.json").write_text('{"currentContext": "far"}')
    return tmp_path


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ("", {}),
        ("-Dcfar", {"DOCKER_CONTEXT": "near"}),
        ("--context near --context far", {}),
        ("-c gone", {}),
        ("", {"DOCKER_HOST": "", "DOCKER_CONTEXT": ""}),
        ("--config {home}/.docker", {"DOCKER_CONFIG": "/nowhere"}),
        ("-H tcp://far", {"DOCKER_CONTEXT": "near"}),
        ("--context=default", {"DOCKER_HOST": "tcp://far"}),
    ],
)
def test_docker_goes_to_another_machine(home, words, environment):
    assert is_elsewhere("docker", words.format(home=home).split(), {"HOME": str(home), **environment})


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        ("-c=near", {"DOCKER_HOST": "tcp://far"}),
        ("--context=default", {}),
        ("-Hunix:///run/docker.sock", {}),
        ("--host=", {"DOCKER_HOST": "tcp://far"}),
        ("", {"DOCKER_HOST": "unix:///run/docker.sock"}),
        ("", {"DOCKER_CONTEXT": "near"}),
        ("", {"DOCKER_CONTEXT": "default"}),
        ("", {"DOCKER_CONFIG": "/nowhere"}),
        ("--config=/nowhere", {}),
        # Behind sudo, which keeps no variable.
        ("", {"HOME": ""}),
    ],
)
def test_docker_stays_on_this_machine(home, words, environment):
    assert not is_elsewhere("docker", words.split(), {"HOME": str(home), **environment})


@pytest.mark.parametrize("content", ["", "[", "[]", '{"currentContext": 5}', "[" * 100_000, "x" * 2_000_000])
def test_a_file_that_docker_cannot_read_chooses_nothing(home, content):
    (home / ".docker/config.json").write_text(content)

    assert find_context((), {"HOME": str(home)}) == ""


def test_a_context_has_an_address_or_is_not_known(home):
    environment = {"HOME": str(home)}

    assert read_context("near", (), environment).text == "unix:///run/near.sock"
    for unknown in ("../near", "\udcff", "\ud800"):
        assert read_context(unknown, (), environment) is None
