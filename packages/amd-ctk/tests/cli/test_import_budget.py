"""What a command loads: none pays for the libraries of another."""

from __future__ import annotations

import pytest

# Each takes as long to import as all else that a command does.
LIBRARIES = {"jsonschema", "ruamel", "tomlkit", "pydantic", "pyudev", "filelock", "rich"}


@pytest.mark.parametrize(
    ("words", "libraries"),
    [
        ("version", set()),
        ("gpu list", set()),
        ("gpu list --json", set()),
        ("gpu-tracker status", set()),
        ("status", set()),
        ("cdi generate", set()),
        ("cdi generate --format=yaml --output=-", {"ruamel"}),
        ("cdi validate", set()),
        ("cdi validate --form-only", {"jsonschema"}),
        ("config show", {"tomlkit"}),
        ("gpu-tracker enable", set()),
        ("explain -e AMD_VISIBLE_DEVICES=0", set()),
        ("doctor --only=driver", {"jsonschema", "tomlkit"}),
    ],
)
def test_a_command_loads_the_libraries_it_uses(host, amd_ctk, words, libraries):
    host("mi210-4")
    amd_ctk("cdi", "generate")

    answer = amd_ctk(*words.split(), PYTHONPROFILEIMPORTTIME="1")

    lines = [line for line in answer.stderr.splitlines() if line.startswith("import time:")]
    assert {line.rpartition("|")[2].strip().partition(".")[0] for line in lines} & LIBRARIES == libraries
    assert answer.returncode == 0


def test_a_command_imports_no_other_command(host, amd_ctk):
    host("mi210-4")

    answer = amd_ctk("gpu", "list", "--json", PYTHONPROFILEIMPORTTIME="1")

    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    # The command itself is imported by name, which is not shown.
    assert {name for name in imported if name.startswith("amd_ctk.cli.")} == {
        *("amd_ctk.cli.front", "amd_ctk.cli.root", "amd_ctk.cli.tree", "amd_ctk.cli.words"),
    }


@pytest.mark.parametrize(
    ("words", "most"),
    # With the packages around them.
    [
        ("status", 66),
        ("top", 65),
        ("explain -e AMD_VISIBLE_DEVICES=all", 127),
        ("cdi generate", 81),
        ("gpu list", 29),
        ("gpu-tracker status", 45),
        ("queue list", 63),
    ],
)
def test_a_command_loads_no_more_of_our_modules_than_it_did(host, amd_ctk, words, most):
    host("mi210-4")

    answer = amd_ctk(*words.split(), PYTHONPROFILEIMPORTTIME="1")

    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    ours = [name for name in imported if name.startswith(("amd_", "amdgpu_"))]
    assert len(ours) <= most, sorted(ours)


def test_help_imports_no_command(amd_ctk):
    answer = amd_ctk("--help", PYTHONPROFILEIMPORTTIME="1")

    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    assert {name for name in imported if name.startswith("amd_ctk.cli.")} == {
        *(
            "amd_ctk.cli.front",
            "amd_ctk.cli.root",
            "amd_ctk.cli.tree",
            "amd_ctk.cli.words",
        ),
    }


@pytest.mark.parametrize(
    ("words", "not_needed"),
    [
        # contextlib loads collections, functools and four more.
        ("status", {"contextlib", "amd_device_spec.start.choice_grant", "amdgpu_discovery.choices.grammar"}),
        ("gpu-tracker status", {"amd_device_spec.start.choice_grant", "amd_gpu_tracker.claims.accessibility"}),
        ("gpu-tracker status", {"amd_gpu_tracker.leases.container_names", "amd_gpu_tracker.claims.release"}),
        ("cdi list", {"amd_ctk.cdi.engine_devices", "amd_ctk.cdi.specs"}),
        ("cdi generate", {"amd_ctk.cdi.engine_devices", "amd_gpu_tracker.leases.status"}),
        ("run -- true", {"filelock", "asyncio", "ssl", "socket"}),
        # The first of them loads OpenSSL.
        ("doctor --only=driver", {"_hashlib", "tempfile", "socket", "calendar"}),
        ("doctor --only=driver", {"amd_ctk.doctor.repairs", "amd_ctk.explain.plan", "amd_ctk.explain.engine_spec"}),
    ],
)
def test_a_command_does_not_load_what_only_its_neighbours_use(host, amd_ctk, words, not_needed):
    host("mi210-4")
    amd_ctk("gpu-tracker", "enable")

    answer = amd_ctk(*words.split(), PYTHONPROFILEIMPORTTIME="1")

    assert answer.returncode == 0
    assert {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()} & not_needed == set()
