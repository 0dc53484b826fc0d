"""`uvx` and `pipx run` start doctor and explain from built wheels on a machine where nothing is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.amd_host("mi210-4")]

CHECKOUT = Path(__file__).resolve().parents[2]
# A command may take half as long on a machine at rest; this one may be busy with other tests.
SECONDS = 10.0
# A user without any right.
NOBODY = 65534
REPORT = """\
driver  ok           amdgpu 6.10.5 is loaded
kfd     ok           KFD lists 4 GPUs
nodes   ok           9 nodes with the driver's numbers; /dev/dri/renderD128 is 0660
3 checks: 3 ok, 0 bad, 0 notes, 0 not checked
"""


class Runner:
    """A program that runs others from wheels; `words` go in front of amd-ctk."""

    def __init__(self, directory: Path, words: list[str | Path]) -> None:
        self.directory = directory
        self._words = words

    def __call__(self, *words: str, host: Path) -> subprocess.CompletedProcess[str]:
        """Run amd-ctk, without root where there is a choice."""
        return subprocess.run(
            [*map(str, self._words), *words],
            env={
                # Not the cache of the tests: a user's is in the home.
                **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))},
                "UV_CACHE_DIR": f"{self.directory}/home/.cache/uv",
                "PATH": f"{self.directory}/bin:/usr/bin:/bin",
                "HOME": f"{self.directory}/home",
                # That of the tests may lie where only root may look.
                "UV_PYTHON": "/usr/bin/python3",
                "AMD_CTK_HOST_ROOT": host,
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, CHECKOUT / "packaging/wheels.py", directory], check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module", params=["uvx", "pipx"])
def runner(request, tmp_path_factory, wheels):
    directory = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    package = "uv" if request.param == "uvx" else "pipx"
    subprocess.run([directory / "bin/python", "-m", "pip", "install", "-q", package], check=True)
    (wheel,) = wheels.glob("amd_ctk-*.whl")
    words = {
        "uvx": ["uvx", "--find-links", wheels, "--prerelease=allow", "--from", wheel, "amd-ctk"],
        "pipx": ["pipx", "run", f"--pip-args=--find-links {wheels} --pre", "--spec", wheel, "amd-ctk"],
    }[request.param]
    return Runner(directory, [directory / "bin" / words[0], *words[1:]])


def test_doctor_runs_with_nothing_installed(runner, amd_host):
    answer = runner("doctor", "--only=driver,kfd,nodes", host=amd_host.path)

    assert (answer.returncode, answer.stdout) == (0, REPORT), answer.stderr


def test_explain_runs_with_nothing_installed(runner, amd_host):
    answer = runner("explain", "-e", "AMD_VISIBLE_DEVICES=1", host=amd_host.path)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("AMD_VISIBLE_DEVICES=1  GPU 1\n")


def test_every_check_is_done_in_time(runner, amd_host):
    runner("version", host=amd_host.path)
    begin = time.monotonic()

    answer = runner("doctor", host=amd_host.path)

    assert time.monotonic() - begin < SECONDS
    assert "Traceback" not in answer.stderr
    assert " 0 bad," in answer.stdout


@pytest.mark.parametrize("words", ["doctor", "doctor --container=1", "doctor --fix", "explain --container web"])
def test_without_root_there_is_never_a_trace(runner, wheels, amd_host, words):
    """The programs that the runner has made are those that a user has made."""
    if os.geteuid() != 0:
        pytest.skip("this is no test for users, who run the others as themselves")
    runner("version", host=amd_host.path)
    for directory in (runner.directory, *runner.directory.parents[:2], amd_host.path.parent):
        directory.chmod(0o755)
    limited = ["setpriv", "--reuid", f"{NOBODY}", "--regid", f"{NOBODY}", "--clear-groups", "--"]
    (program,) = list(runner.directory.rglob("home/**/bin/amd-ctk"))[:1]

    answer = subprocess.run(
        [*limited, program, *words.split()],
        env={"PATH": "/usr/bin:/bin", "AMD_CTK_HOST_ROOT": amd_host.path},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "Traceback" not in answer.stderr
    assert answer.returncode in (0, 1, 2)


@pytest.mark.parametrize("tool", ["uv", "pipx"])
def test_a_tool_environment_has_the_runtime_where_amd_ctk_finds_it(tmp_path, wheels, amd_host, tool):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([environment / "bin/python", "-m", "pip", "install", "-q", tool], check=True)
    pip_options = f"--pip-args=--find-links {wheels} --pre"
    added = ["inject", pip_options, "--include-apps", "amd-ctk", "amd-container-runtime"]
    options = ["--find-links", wheels, "--prerelease=allow", "--with-executables-from", "amd-container-runtime"]
    calls = {"uv": [["tool", "install", *options, "amd-ctk"]], "pipx": [["install", pip_options, "amd-ctk"], added]}
    homes = {"PIPX_HOME": tmp_path / "t", "PIPX_BIN_DIR": tmp_path / "b", "UV_TOOL_DIR": tmp_path / "t"}
    variables = {**os.environ, **homes, "UV_TOOL_BIN_DIR": tmp_path / "b"}

    for words in calls[tool]:
        subprocess.run([environment / "bin" / tool, *words], env=variables, check=True, capture_output=True)

    shown = subprocess.run(
        [tmp_path / "b/amd-ctk", "runtime", "configure", "--dry-run"],
        env={"PATH": "/usr/bin:/bin", "AMD_CTK_HOST_ROOT": amd_host.path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f'"path": "{tmp_path}/b/amd-container-runtime"' in shown.stdout

    remove = {"uv": ["tool", "uninstall", "amd-ctk"], "pipx": ["uninstall", "amd-ctk"]}[tool]
    subprocess.run([environment / "bin" / tool, *remove], env=variables, check=True, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == []
