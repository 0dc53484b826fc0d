"""Which paths of amd-container-runtime an engine is given."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from amd_ctk.configuration import runtime_program
from amd_ctk.configuration.runtime_program import NoRuntimeProgram, check_runtime_path, find_runtime_program


def test_a_path_that_leads_to_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")

    for path in (tmp_path, tmp_path / "nowhere", tmp_path / "text"):
        with pytest.raises(NoRuntimeProgram) as refused:
            check_runtime_path(str(path), must_exist=True)
        assert str(refused.value) == (
            f"the runtime path {path} is not a program (install it first, or the engine cannot start containers)"
        )


@pytest.mark.parametrize("by_link", [False, True])
def test_a_program_that_others_may_replace_is_refused(tmp_path: Path, by_link: bool) -> None:
    program = tmp_path / "opt/amd-container-runtime"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    program.parent.chmod(0o777)
    path = tmp_path / "link" if by_link else program
    if by_link:
        path.symlink_to(program)

    with pytest.raises(NoRuntimeProgram) as refused:
        check_runtime_path(str(path), must_exist=True)

    assert str(refused.value) == (
        f"the runtime path {path} can be replaced by users other than root, who may write to {program.parent}"
        f" (make it writable by root only; 'ls -ld {program.parent}' shows its owner and mode)"
    )
    program.parent.chmod(0o755)
    assert check_runtime_path(str(path), must_exist=True) == str(path)


def test_the_program_of_a_virtual_environment_is_beside_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/amd-container-runtime"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")

    assert find_runtime_program("/lib/python/amd_ctk/__main__.py", "/nowhere") == str(program)


def test_a_link_to_the_program_of_the_packages_is_not_what_an_engine_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "usr/lib/amd-container-runtime"
    program = tmp_path / "usr/bin/amd-container-runtime"
    link = tmp_path / "usr/local/bin/amd-container-runtime"
    for directory in (installed.parent, program.parent, link.parent):
        directory.mkdir(parents=True)
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    # Packages have a link of their own in /usr/bin.
    program.symlink_to(installed)
    link.symlink_to(program)
    monkeypatch.setattr(runtime_program, "PROGRAM_OF_PACKAGES", str(program))

    assert find_runtime_program(f"{link.parent}/amd-ctk", "/nowhere") == str(program)


def test_a_program_and_a_path_of_a_simulated_host_are_taken() -> None:
    assert check_runtime_path("/bin/sh", must_exist=True) == "/bin/sh"
    assert check_runtime_path("/nowhere", must_exist=False) == "/nowhere"


@pytest.mark.parametrize(
    ("mark", "hint"),
    [
        ("pyvenv.cfg", "install it, or name it with --runtime-path=/opt/bin/amd-container-runtime"),
        ("pipx_metadata.json", "install it with 'pipx inject --include-apps amd-ctk amd-container-runtime'"),
        (
            "uv-receipt.toml",
            "install it with 'uv tool install --with-executables-from amd-container-runtime amd-ctk'",
        ),
    ],
)
def test_the_hint_is_a_command_of_what_installed_amd_ctk(tmp_path, monkeypatch, mark, hint):
    (tmp_path / mark).touch()
    monkeypatch.setattr(sys, "prefix", f"{tmp_path}")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    monkeypatch.setattr(runtime_program, "USUAL_DIRECTORIES", ())

    with pytest.raises(NoRuntimeProgram) as refusal:
        find_runtime_program(f"{tmp_path}/bin/amd-ctk", "")

    assert str(refusal.value) == f"amd-container-runtime is not installed ({hint})"
