"""Does sudo find amd-ctk? It looks in its secure_path, as the last file that has one says."""

from __future__ import annotations

import pytest

from amd_ctk.doctor.facts.toolkit import read_toolkit

USUAL = 'Defaults\tsecure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"\n'
PROGRAM = "/opt/venv/bin/amd-ctk"
# Of Enterprise Linux, where pip as root installs programs into /usr/local/bin.
WITHOUT_LOCAL = "Defaults    secure_path = /sbin:/bin:/usr/sbin:/usr/bin\n"


@pytest.fixture
def sudo(machine, monkeypatch):
    """Return a function that gives the state and the command of the check, for a program and files of sudo."""
    made = machine()

    def examine(program, **files):
        monkeypatch.setattr("sys.argv", [program])
        for name, text in files.items():
            made.write("/etc/sudoers" if name == "sudoers" else f"/etc/sudoers.d/{name}", text)
        results = made.examine(only=["sudo"])
        return [(result.finding.state, result.finding.fix) for result in results]

    return examine


def test_a_program_that_packages_installed_is_found(sudo):
    assert sudo("/usr/bin/amd-ctk", sudoers=USUAL) == [("ok", "")]


def test_a_program_that_sudo_does_not_find_is_bad(sudo):
    assert sudo("/usr/local/bin/amd-ctk", sudoers=WITHOUT_LOCAL) == [("bad", "sudo /usr/local/bin/amd-ctk ...")]


def test_only_its_check_calls_that_bad(machine, monkeypatch):
    spoilt = machine()
    spoilt.write("/etc/sudoers", WITHOUT_LOCAL)
    monkeypatch.setattr("sys.argv", ["/usr/local/bin/amd-ctk"])

    assert spoilt.bad() == ["sudo"]


def test_a_program_of_a_virtual_environment_is_called_by_its_path(sudo, tmp_path):
    (tmp_path / "pyvenv.cfg").touch()
    program = f"{tmp_path}/bin/amd-ctk"

    assert sudo(program, sudoers=USUAL) == [("note", f"sudo {program} ...")]


@pytest.mark.parametrize(
    "later",
    [
        'Defaults secure_path = "/usr/bin:/opt/venv/bin"\n',
        "# of the administrator\nDefaults secure_path=/opt/venv/bin\n",
    ],
)
def test_the_last_file_counts(sudo, later):
    assert sudo(PROGRAM, sudoers=USUAL, local=later) == [("ok", "")]


@pytest.mark.parametrize("text", ["", "# Defaults secure_path=/usr/bin\n", "root ALL=(ALL:ALL) ALL\n"])
def test_where_sudo_keeps_the_path_of_its_caller_there_is_nothing_to_say(sudo, text):
    assert sudo(PROGRAM, sudoers=text) == []


def test_a_module_that_is_run_has_no_directory(sudo):
    assert sudo("/opt/lib/amd_ctk/__main__.py", sudoers=USUAL) == []


def test_directories_are_read_as_sudo_has_them(machine):
    made = machine()
    made.write("/etc/sudoers", USUAL)

    directories = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    assert read_toolkit(made.host).secure_path == directories
