"""pip installs each distribution alone into a clean environment, and it works there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from install import former_state
from install.container import ITS_NODES, bundle_that_runs
from support.bare_runtime import BareRuntime
from support.installed import engine_program, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install]

CHECKOUT = Path(__file__).resolve().parents[2]
TRIALS = {
    "amdgpu-discovery": [
        "python",
        "-c",
        "import os; from amdgpu_discovery import Host, locate_gpus; locate_gpus(Host(os.environ['AMD_CTK_HOST_ROOT']))",
    ],
    "amdgpu-simulator": ["amdgpu-simulator", "list"],
    "amd-gpu-images": ["amd-gpu-images", "targets", "--help"],
    "amd-gpu-sharing": ["amd-gpu-sharing", "queue", "list"],
    "amd-device-spec": ["python", "-c", "import amd_device_spec.cdi.spec"],
    "amd-gpu-tracker": ["amd-gpu-tracker", "status"],
    "amd-container-runtime": ["python", "-c", "import amd_container_runtime.create"],
    "amd-ctk": ["amd-ctk", "gpu", "list"],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a directory with the wheels and source distributions of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, CHECKOUT / "packaging/wheels.py", directory], check=True, capture_output=True)
    return directory


@pytest.mark.parametrize("distribution", TRIALS)
def test_a_distribution_alone_works_and_leaves_nothing(tmp_path, amd_host, built, distribution):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    before = set(environment.rglob("*"))

    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", built, "--pre", distribution)
    run(environment, *TRIALS[distribution], AMD_CTK_HOST_ROOT=amd_host.path)

    installed = run(environment, "python", "-m", "pip", "list", "--format=freeze")
    names = [line.partition("==")[0] for line in installed.splitlines()]
    # Typer 0.29 imports it, and with it every command would take twice as long.
    assert "pydantic" not in names
    run(environment, "python", "-m", "pip", "-q", "uninstall", "-y", *(name for name in names if name != "pip"))
    assert {path for path in set(environment.rglob("*")) - before if path.is_file()} == set()


def test_lists_load_nothing_of_others_in_a_fresh_environment(tmp_path, amd_host, built):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", built, "--pre", "amd-ctk")
    run(environment, "amd-ctk", "gpu-tracker", "enable", AMD_CTK_HOST_ROOT=amd_host.path)
    variables = {"PYTHONPROFILEIMPORTTIME": "1", "AMD_CTK_HOST_ROOT": amd_host.path}

    for command in ("version", "gpu list", "gpu-tracker status", "queue list", "cdi list"):
        words = [environment / "bin/amd-ctk", *command.split()]
        answer = subprocess.run(words, env=variables, capture_output=True, text=True, check=True)

        names = [line.rpartition("|")[2].strip().partition(".")[0] for line in answer.stderr.splitlines()]
        # What comes before is Python's own start, and the program that pip wrote.
        others = {name for name in names[names.index("amd_ctk") :] if not name.startswith("amd")}
        assert others <= {"_json", "errno", "fcntl", "gc"}, command


def test_a_container_gets_its_gpus_through_the_runtime_that_pip_installed(tmp_path, amd_host, built, rootfs):
    require_root()
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", built, "--pre", "amd-container-runtime")
    program = environment / "bin/amd-container-runtime"
    runtime = BareRuntime(program, tmp_path, rootfs, amd_host.path, engine_program("runc"))

    assert runtime.run("0,2", "sh", "-c", "cd /dev/dri; echo *") == ITS_NODES


BOTH = ("amd-ctk", "amd-container-runtime")


def shell(environment, host=""):
    """Return a function that runs a script with the programs of a virtual environment."""

    def run_script(script, *, check=True):
        variables = {"PATH": f"{environment}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": f"{environment.parent}"}
        answer = subprocess.run(
            ["sh", "-c", script],
            env=variables | ({"AMD_CTK_HOST_ROOT": host} if host else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert not check or answer.returncode == 0, answer.stdout
        return answer.stdout

    return run_script


def install(environment, directory, *words):
    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", directory, "--pre", *words)


def test_gpus_that_the_original_made_exclusive_stay_so_whatever_comes_first(tmp_path, built):
    require_root()
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install(environment, built, *BOTH)

    cells = former_state.look(tmp_path / "cells", f"{tmp_path}/cells", shell(environment))

    assert cells == former_state.expected()


@pytest.fixture(scope="module")
def later(tmp_path_factory):
    """Return a directory with the wheels of a release to come: version 9.0 of this checkout."""
    checkout = tmp_path_factory.mktemp("later") / "checkout"
    parts = shutil.ignore_patterns(".nox", ".venv", "dist", "site", ".*_cache", "__pycache__", ".hypothesis")
    shutil.copytree(CHECKOUT, checkout, symlinks=True, ignore=parts)
    version = (checkout / "VERSION").read_text().strip()
    (checkout / "VERSION").write_text("9.0\n")
    for project in checkout.glob("packages/*/pyproject.toml"):
        project.write_text(project.read_text().replace(f"=={version}", "==9.0"))
    directory = tmp_path_factory.mktemp("dist-of-later")
    subprocess.run([sys.executable, checkout / "packaging/wheels.py", directory], check=True, capture_output=True)
    return directory


def test_an_upgrade_back_and_forth_keeps_a_running_container_its_exclusive_gpu(tmp_path, amd_host, built, later):
    require_root()
    environment, name = tmp_path / "venv", f"pip-{os.getpid()}"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    call = shell(environment, amd_host.path)
    install(environment, built, *BOTH)
    earlier = [word for word in run(environment, "python", "-m", "pip", "freeze").split() if word.startswith("amd")]
    call(bundle_that_runs("sleep 1000").replace("/root/bundle", f"{tmp_path}/bundle"))
    call("amd-gpu-tracker enable; amd-gpu-tracker 0 exclusive")
    start = f"amd-container-runtime run --detach --bundle {tmp_path}/bundle {name}"
    call(f"{start}-1 >/dev/null 2>&1")
    try:
        before = call("amd-gpu-tracker status")
        assert f"Exclusive           {name}-1" in before
        for directory, words in ((later, ["--upgrade", *BOTH]), (built, earlier), (later, ["--upgrade", *BOTH])):
            install(environment, directory, *words)

            assert call("amd-gpu-tracker status") == before
            assert "GPUs [0] are exclusive and already in use" in call(f"{start}-2", check=False)
    finally:
        call(f"amd-container-runtime delete --force {name}-1")
    call(f"{start}-2 >/dev/null 2>&1; amd-container-runtime delete --force {name}-2")


def test_there_is_a_wheel_and_a_source_distribution_of_each(built):
    kinds = dict.fromkeys(TRIALS, 0)
    for path in built.iterdir():
        kinds[path.name.split("-2.")[0].replace("_", "-")] += 1

    assert set(kinds.values()) == {2}


@pytest.mark.parametrize("distribution", TRIALS)
def test_a_source_distribution_makes_the_same_wheel(tmp_path, built, distribution):
    name = distribution.replace("-", "_")
    source = next(built.glob(f"{name}-*.tar.gz"))
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source]
    subprocess.run(words, check=True)

    assert files_of(next(tmp_path.glob("*.whl"))) == files_of(next(built.glob(f"{name}-*.whl")))


def test_sources_that_are_unpacked_in_another_checkout_name_no_commit_of_it(tmp_path):
    for path in ("VERSION", "packages/amd-ctk"):
        target = tmp_path / "unpacked" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (CHECKOUT / path).is_dir() else shutil.copy)(CHECKOUT / path, target)
    git = ["git", "-C", tmp_path, "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "foreign"], check=True)
    words = [sys.executable, "-m", "hatchling", "build", "-d", tmp_path / "dist"]

    subprocess.run(words, cwd=tmp_path / "unpacked/packages/amd-ctk", check=True, capture_output=True)

    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tf", sdist], capture_output=True, text=True, check=True).stdout
    assert "build.json" not in listed
    assert "amd_ctk/build.json" not in files_of(next((tmp_path / "dist").glob("*.whl")))


def test_the_distributions_say_the_same_of_themselves_and_their_readme_renders_on_an_index(built):
    known = {}
    for distribution in TRIALS:
        wheel = next(built.glob(f"{distribution.replace('-', '_')}-*.whl"))
        text = next(content for name, content in files_of(wheel).items() if name.endswith("/METADATA")).decode()
        fields, _, readme = text.partition("\n\n")
        # An index shows the page alone: a link to a file of the repository leads nowhere.
        assert re.findall(r"\]\((?!https:)[^)]*\)", readme) == []
        wanted = r"(?:Author|Project-URL|Classifier|License-Expression|Requires-Python|Description-Content-Type)"
        known[distribution] = sorted(re.findall(rf"^{wanted}: .*$", fields, re.MULTILINE))

    assert known["amd-ctk"] == [
        "Author: The authors of the container toolkit for AMD GPUs",
        "Classifier: Development Status :: 4 - Beta",
        "Classifier: Environment :: Console",
        "Classifier: Intended Audience :: System Administrators",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Programming Language :: Python :: 3",
        "Classifier: Programming Language :: Python :: 3 :: Only",
        "Classifier: Programming Language :: Python :: 3.10",
        "Classifier: Programming Language :: Python :: 3.11",
        "Classifier: Programming Language :: Python :: 3.12",
        "Classifier: Programming Language :: Python :: 3.13",
        "Classifier: Programming Language :: Python :: 3.14",
        "Classifier: Programming Language :: Python :: 3.15",
        "Classifier: Topic :: System :: Hardware",
        "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown",
        "License-Expression: Apache-2.0",
        "Project-URL: AMD's toolkit 1.x, https://github.com/ROCm/container-toolkit",
        "Requires-Python: >=3.10",
    ]
    # People who write software simulate servers.
    assert known.pop("amdgpu-simulator") == [
        field.replace(":: System Administrators", ":: Developers") for field in known["amd-ctk"]
    ]
    assert {tuple(fields) for fields in known.values()} == {tuple(known["amd-ctk"])}


def files_of(wheel):
    """Return the files of a wheel; the order of lines in RECORD, which is that of its making, means nothing."""
    with ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    return {
        name: b"".join(sorted(content.splitlines(keepends=True))) if name.endswith("/RECORD") else content
        for name, content in files.items()
    }


def run(environment, program, *words, **variables):
    answer = subprocess.run(
        [environment / "bin" / program, *words],
        env={"PATH": os.environ["PATH"], "HOME": f"{environment.parent}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout
