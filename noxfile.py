"""The sessions of this repository: a change must pass those of plain `nox`; `nox -l` lists all.

Arguments after `--` go to the tool of a session, usually pytest.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

# uv makes an environment in a second. Without uv, virtualenv needs ten.
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.error_on_missing_interpreters = True

COMPANIONS = ("amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator")
# In the order of imports: each needs only distributions that precede it.
NEEDS = {
    "amdgpu-discovery": [],
    "amdgpu-simulator": ["amdgpu-discovery"],
    "amd-device-spec": ["amdgpu-discovery"],
    "amd-gpu-images": ["amdgpu-discovery", "amd-device-spec"],
    "amd-gpu-tracker": ["amdgpu-discovery"],
    "amd-gpu-sharing": ["amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"],
    "amd-container-runtime": ["amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"],
    "amd-ctk": ["amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker", *COMPANIONS],
}
EXTRAS = {"amdgpu-discovery": "[cli,udev]", "amd-device-spec": "[validate]"}
# The distributions whose wheels this run of nox has already built.
BUILT: set[str] = set()

# pytest 9 reads [tool.pytest.ini_options] more strictly than 8; both work here.
TEST_TOOLS = ("pytest>=8.2", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6.100")
ON_EVERY_CORE = ("--numprocesses=auto",)
# Unit tests spend a third of their time waiting for processes that they started.
ONE_MORE_THAN_CORES = (f"--numprocesses={(os.cpu_count() or 1) + 1}",)
# One engine serves the tests of a file; two engines at once keep two cores busy.
TWO_ENGINES = ("--numprocesses=2", "--dist=loadfile")
# An exception ends a test that hangs, so that its fixtures stop the engine.
STOP_ENGINES = ("-o", "timeout_method=signal")
# A file system in memory; containers often have only 64 MB.
MEMORY = Path("/dev/shm")
ROOM = 4 * 1024**3
# Where the session fresh-container leaves the names of tests for the session privileged.
SKIPPED_IN_A_CONTAINER = Path(".nox/skipped-in-a-container")
# A kubelet speaks gRPC with containerd, and so do the tests that imitate one.
GRPC = "grpcio>=1.60"
# Seconds for an interrupted pytest to stop engines; nox's own limit is less than one.
LONG_ENOUGH = 60
# Rules change between releases; a new rule must not block an unrelated change.
LINTER = "ruff==0.17.5"
# Contains the forge's own schemas of workflows and forms.
FORGE_TOOL = "check-jsonschema>=0.33"
FORGE_FILES = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.github-actions": "packages/*/action/action.yml",
    "vendor.dependabot": ".github/dependabot.yml",
}
# Pinned, because the page of commands depends on Typer's internals.
SITE_TOOLS = (
    *("mkdocs==1.6.1", "mkdocs-material==9.8.1"),
    *("mkdocstrings[python]==1.0.8", "mkdocstrings-python==2.0.11", "typer==0.28.0"),
)
BROWSER_TOOLS = ("playwright>=1.60",)
# mkdocs-material would print a notice about the future of mkdocs.
SITE_ENVIRONMENT = {"NO_MKDOCS_2_WARNING": "1"}
# Knows which version of Python introduced what.
FLOOR_TOOL = "vermin==1.9.2"
SBOM_TOOLS = ("cyclonedx-python-lib>=11.12",)
TYPE_CHECKERS = ("mypy==2.4.1", "types-jsonschema", "nox")

TYPED = (
    "noxfile.py",
    "checks",
    "docs",
    "tests-integration/conftest.py",
    "tests-integration/support",
    "tests-integration/demo.py",
    "tests-integration/demo_bundle.py",
)


@nox.session(reuse_venv=True)
def lint(session: nox.Session) -> None:
    """Check style, imports and names, and that no code inspects a message. Example: nox -s lint -- --fix"""
    session.install(LINTER, FORGE_TOOL)
    session.run("ruff", "check", *session.posargs, ".")
    session.run("ruff", "format", *([] if "--fix" in session.posargs else ["--check"]), ".")
    session.run("python", "checks/import_circles.py", *(f"packages/{name}/src" for name in NEEDS))
    check_forge(session)
    session.run("python", "checks/messages.py", *(f"packages/{name}/src" for name in NEEDS))
    session.run("python", "checks/rooms.py", *(f"packages/{name}/src" for name in NEEDS))
    session.run("python", "checks/scope.py", *(f"packages/{name}/src" for name in NEEDS))
    session.run("python", "checks/bounds.py", *(f"packages/{name}/src" for name in NEEDS))
    session.run("python", "checks/one_thing.py", *(f"packages/{name}/src" for name in NEEDS))
    # Only these two know leases: checks/rooms.py keeps amd-ctk out.
    session.run("python", "checks/lease_questions.py", "packages/amd-gpu-tracker/src", "packages/amd-gpu-sharing/src")


@nox.session(reuse_venv=True)
def types(session: nox.Session) -> None:
    """Check types, strictly. Example: nox -s types"""
    install_editable(session, *TYPE_CHECKERS, *TEST_TOOLS)
    session.run("mypy", "--exclude", "/test_", *(f"packages/{name}/src" for name in NEEDS), *TYPED)


@nox.session(reuse_venv=True)
def tests(session: nox.Session) -> None:
    """Run the unit tests of all eight distributions. Example: nox -s tests -- -k selection"""
    install_editable(session, *TEST_TOOLS)
    # One distribution after another: hundreds of tests fork, and a fork takes longer the more memory its process has.
    runs = [session.posargs] if session.posargs else [[f"packages/{name}"] for name in NEEDS]
    failed = [" ".join(words) for words in runs if not passes(session, words)]
    if failed:
        session.error(f"tests failed: {', '.join(failed)}")


@nox.session
@nox.parametrize("distribution", list(NEEDS), ids=list(NEEDS))
def alone(session: nox.Session, distribution: str) -> None:
    """Run the tests of a distribution without those above it. Example: nox -s 'alone(amd-ctk)'"""
    # Tests of all use simulated hosts.
    install_wheels(session, *dict.fromkeys((distribution, *NEEDS[distribution], "amdgpu-simulator")))
    session.install(*TEST_TOOLS)
    run_pytest(session, *ONE_MORE_THAN_CORES, f"packages/{distribution}/tests", *session.posargs, env=in_memory())


@nox.session
def integration(session: nox.Session) -> None:
    """Run every program on every simulated host; needs neither root nor engines. Example: nox -s integration -- -x"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    # The contents and the appearance of the documentation have their own sessions.
    chosen = ("--ignore=tests-integration/docs", "--ignore=tests-integration/browser", "-m", "not e2e")
    run_pytest(session, *ON_EVERY_CORE, "tests-integration", *chosen, *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Make containers with real Docker, runc, crun and Podman, as root. Example: nox -s e2e -- -k podman"""
    install_wheels(session, *NEEDS)
    # The first two build the debs for a system that boots.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    others = ("engines", "install", "swarm", "slurm", "clusters", "images", "fresh", "site", "kernel", "power", "story")
    chosen = ("--ignore=tests-integration/browser", "-m", " and not ".join(("e2e", *others)))
    run_pytest(session, *TWO_ENGINES, *STOP_ENGINES, "tests-integration", *chosen, *session.posargs)


@nox.session
def swarm(session: nox.Session) -> None:
    """Run tasks in real swarms of one, two and three nodes; write their table. Example: nox -s swarm -- -k two_nodes"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    page = {} if session.posargs else {"AMD_SWARM_PAGE": "docs/maintain/test-results.md"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/swarm", *session.posargs, env=page)


@nox.session
def slurm(session: nox.Session) -> None:
    """Run jobs in real clusters of three releases of Slurm; write their tables. Example: nox -s slurm -- -k trixie"""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed with Slurm.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    pages = {"AMD_SLURM_PAGE": "docs/maintain/test-results.md", "AMD_MAKESPAN_PAGE": "docs/maintain/queue.md"}
    pages = {} if session.posargs else pages
    run_pytest(session, *STOP_ENGINES, "tests-integration/slurm", *session.posargs, env=pages)


@nox.session
def clusters(session: nox.Session) -> None:
    """Run the commands of the page about Ray, JupyterHub and HTCondor. Example: nox -s clusters -- -k ray"""
    install_wheels(session, *NEEDS)
    # pip also installs packages from PyPI in the root file system.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    run_pytest(session, *STOP_ENGINES, "tests-integration/clusters", *session.posargs)


@nox.session
def explain(session: nox.Session) -> None:
    """Compare 10,000 random requests with their resulting config.json, for a quarter of an hour."""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    words = ["tests-integration/programs/test_explain_is_true.py", "--timeout=0", *session.posargs]
    run_pytest(session, *words, env={"AMD_EXPLAIN_CASES": "10000"})


@nox.session
def words(session: nox.Session) -> None:
    """Compare right and wrong options with eight engines and Composes. Example: nox -s words -- -k docker-28"""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed with those engines.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    files = ("test_odd_words.py", "test_image_lines.py")
    run_pytest(session, *STOP_ENGINES, *(f"tests-integration/cdi/{file}" for file in files), *session.posargs)


@nox.session
def launcher(session: nox.Session) -> None:
    """Give 50,000 odd config.json to the launcher, and to runc and crun of three Debians. Example: nox -s launcher"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    words = ["tests-integration/e2e/test_launcher_is_right.py", "--timeout=0", *session.posargs]
    # This machine's runtimes are those of Debian 12.
    many = {"AMD_LAUNCHER_CASES": "50000", "AMD_LAUNCHER_RELEASES": "trixie forky"}
    run_pytest(session, *STOP_ENGINES, *words, env=many)


@nox.session
def choices(session: nox.Session) -> None:
    """Request free GPUs at once, wait in a queue, kill waiting jobs at each system call. Example: nox -s choices"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    waiting = "packages/amd-gpu-tracker/tests/waiting"
    many = {"TRACKER_QUEUE_STEPS": "10000", "TRACKER_KILL_EVERY": "1"}
    whole = [f"{waiting}/test_any_queue.py", f"{waiting}/test_kill_at_each_call.py"]
    run_pytest(session, *ON_EVERY_CORE, "--timeout=0", *whole, *session.posargs, env=many)
    # These tests measure, so they run alone.
    many = {"AMD_CHOICE_CONTAINERS": "200", "AMD_CHOICE_ROUNDS": "50"}
    page = {} if session.posargs else {"AMD_CHOICE_PAGE": "docs/maintain/queue.md"}
    run_pytest(session, "tests-integration/tracker/test_choices_at_once.py", *session.posargs, env=many | page)
    people = {"AMD_PEOPLE_ROUNDS": "50", "AMD_PEOPLE_REQUESTS": "200", "AMD_PEOPLE_WAITERS": "1000"}
    people["AMD_PEOPLE_IDLE_SECONDS"] = "10"
    run_pytest(session, "tests-integration/tracker/test_people_at_once.py", *session.posargs, env=people | page)
    floods = {"AMD_FLOOD_REQUESTS": "50"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/tracker/test_floods.py", "-s", *session.posargs, env=floods)


@nox.session
def engines(session: nox.Session) -> None:
    """Test CDI and tracking with engines of three Debian releases; write a table. Example: nox -s engines -- -k 28"""
    run_engines(session, "engines and not experimental")


@nox.session
def experimental(session: nox.Session) -> None:
    """Test the newest engines, of Debian experimental; write their columns. Example: nox -s experimental -- -k runc"""
    run_engines(session, "experimental")


def run_engines(session: nox.Session, which: str) -> None:
    """Run tests of engines. Those that ran get new columns in the table."""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed with those engines.
    session.install("hatchling>=1.22", "pip", GRPC, *TEST_TOOLS)
    # With arguments, only some engines run, which would make an incomplete table.
    page = {} if session.posargs else {"AMD_ENGINES_PAGE": "docs/reference/engines.md"}
    asking = ("tests-integration/cdi", "tests-integration/tracker")
    run_pytest(session, *STOP_ENGINES, *asking, "-m", which, *session.posargs, env=page)


@nox.session
def kernel(session: nox.Session) -> None:
    """Boot kernels of three Debians, and one with dmem; write their table. Example: nox -s kernel -- -k trixie"""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed there.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    page = {} if session.posargs else {"AMD_KERNELS_PAGE": "docs/maintain/test-results.md"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/kernel", *session.posargs, env=page)


@nox.session
def power(session: nox.Session) -> None:
    """Cut the power of a virtual machine 200 times, with 20 boots; takes hours. Example: nox -s power -- -k reboot"""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed there.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    cuts = {} if session.posargs else {"AMD_POWER_CUTS": "200"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/power", *session.posargs, env=cuts)


@nox.session
def day(session: nox.Session) -> None:
    """Run 20 days of random operations on two engines and jobs; AMD_DAY_SEED repeats one. Example: nox -s day"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    days = {"AMD_DAYS": "20", "AMD_DAY_OPERATIONS": "100"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/day", *session.posargs, env=days)


@nox.session
def hardware(session: nox.Session) -> None:
    """Prove on a machine with AMD GPUs what containers get; write amd-gpu-proof.json. Example: nox -s hardware"""
    install_wheels(session, *NEEDS)
    session.run("amd-ctk", "doctor", "--prove", *session.posargs)


@nox.session(reuse_venv=True)
def fuzz(session: nox.Session) -> None:
    """Mutate inputs of parsers, and run the parsers. Example: nox -s fuzz -- --rounds 100000 --parser cdi"""
    install_editable(session, *TEST_TOOLS)
    session.run("python", "tests-integration/fuzz/campaign.py", *session.posargs)


@nox.session
def images(session: nox.Session) -> None:
    """Read targets of Debian's ROCm in images of real tools; write their table. Example: nox -s images -- -k rand"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    page = {} if session.posargs else {"AMD_IMAGES_PAGE": "docs/maintain/test-results.md"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/images", *session.posargs, env=page)


@nox.session
def install(session: nox.Session) -> None:
    """Install and remove debs, rpms and wheels in whole systems, as root. Example: nox -s install -- -k trixie"""
    install_wheels(session, *NEEDS)
    session.install("hatchling>=1.22", "pip", *SBOM_TOOLS, *TEST_TOOLS)
    # With arguments, only some tests run, which would make an incomplete table.
    page = {} if session.posargs else {"AMD_PACKAGES_PAGE": "docs/maintain/test-results.md"}
    run_pytest(session, *STOP_ENGINES, "tests-integration/install", *session.posargs, env=page)


@nox.session
def story(session: nox.Session) -> None:
    """Simulate weeks of a machine with packages from apt, on Debian 12 and 13. Example: nox -s story -- -k trixie"""
    install_wheels(session, *NEEDS)
    # The first two build the debs that are installed there.
    session.install("hatchling>=1.22", "pip", *TEST_TOOLS)
    run_pytest(session, *STOP_ENGINES, "tests-integration/story", *session.posargs)


@nox.session
def fresh(session: nox.Session) -> None:
    """Run ./demo and ./check on fresh Debian 12 and 13, and in containers there. Example: nox -s fresh -- -k trixie"""
    run_fresh(session, "tests-integration/fresh")


@nox.session(name="fresh-container")
def fresh_container(session: nox.Session) -> None:
    """Run ./demo and ./check in a Debian 13 container of Docker, as CI does. Example: nox -s fresh-container"""
    run_fresh(session, "tests-integration/fresh/test_in_a_container.py", "-k", "trixie and docker")


@nox.session
def privileged(session: nox.Session) -> None:
    """Run by name the tests that fresh-container had to skip in its container. Example: nox -s privileged"""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    run_pytest(session, *ON_EVERY_CORE, f"@{SKIPPED_IN_A_CONTAINER}", *session.posargs)


def run_fresh(session: nox.Session, *words: str) -> None:
    """Run the tests that create their own machines, and install there what they check."""
    install_wheels(session, *NEEDS)
    session.install(*TEST_TOOLS)
    skipped = {"AMD_SKIPPED_TESTS": str(SKIPPED_IN_A_CONTAINER.resolve())}
    run_pytest(session, *STOP_ENGINES, *words, *session.posargs, env=skipped)


@nox.session(python=["3.10", "3.13"])
def bundled(session: nox.Session) -> None:
    """Run the unit tests with the third-party wheels that debs and rpms carry. Example: nox -s bundled-3.10"""
    session.install("--require-hashes", "--no-deps", "-r", "packaging/bundle.lock")
    session.install("hatchling>=1.22", "editables", *TEST_TOOLS)
    session.install(
        "--no-deps", "--no-build-isolation", *(word for name in NEEDS for word in ("-e", f"packages/{name}"))
    )
    run_pytest(session, *(session.posargs or ["packages"]))


@nox.session
def floor(session: nox.Session) -> None:
    """Check that Python 3.10 suffices: run the tests with it, or else analyse the code. Example: nox -s floor"""
    if shutil.which("python3.10"):
        session.notify("bundled-3.10")
        return
    session.warn("there is no python3.10 here: the code is read for what 3.10 lacks, and nothing is run")
    session.install(FLOOR_TOOL)
    # Settings are read with tomllib only if it exists.
    words = ("--target=3.10-", "--violations", "--eval-annotations", "--no-tips", "--exclude", "tomllib")
    session.run("vermin", *words, *(f"packages/{name}/src" for name in NEEDS))


@nox.session
def build(session: nox.Session) -> None:
    """Build wheels and source distributions of all eight into dist/. Example: nox -s build"""
    install_builder(session)
    session.run("python", "packaging/wheels.py", "dist")


@nox.session
def deb(session: nox.Session) -> None:
    """Build the debs into dist/ and check them with lintian. Example: nox -s deb"""
    install_builder(session)
    session.run("python", "packaging/debian.py", "dist")
    words = ("--fail-on=warning", *map(str, sorted(Path("dist").glob("*.deb"))))
    session.run("lintian", *words, external=True)


@nox.session(name="node-image")
def node_image(session: nox.Session) -> None:
    """Build the image that installs the toolkit onto a host into dist/. Example: nox -s node-image"""
    install_builder(session)
    session.run("python", "packaging/node_image.py", "dist")


@nox.session
def rpm(session: nox.Session) -> None:
    """Build the rpms into dist/ and check them with rpmlint. Example: nox -s rpm"""
    install_builder(session)
    session.run("python", "packaging/redhat.py", "dist")
    words = ("--config", "packaging/rpmlint.toml", *map(str, sorted(Path("dist").glob("*.rpm"))))
    session.run("rpmlint", *words, external=True)


@nox.session
def release(session: nox.Session) -> None:
    """Build, check and sign everything, and make repositories of it. Example: nox -s release -- KEY"""
    install_builder(session)
    session.install(*SBOM_TOOLS)
    session.run("python", "packaging/release.py", "dist", *session.posargs)


@nox.session(venv_backend="none")
def findings(session: nox.Session) -> None:
    """Run what surprises about other programs, and print what still holds. Example: nox -s findings -- toil-amd-smi"""
    session.run("python3", "checks/findings.py", *session.posargs)


@nox.session
def audit(session: nox.Session) -> None:
    """Compare the bundled wheels with a downloaded file of OSV. Example: nox -s audit -- all.zip"""
    install_builder(session)
    session.run("python", "packaging/audit.py", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure how packages slow down container starts, on an idle machine. Example: nox -s bench -- --rounds 100"""
    install_editable(session, "hatchling>=1.22", "pip")
    session.run("python", "benchmarks/container_start.py", *session.posargs)


@nox.session(reuse_venv=True)
def load(session: nox.Session) -> None:
    """Start containers for an hour while engines are killed, as root. Example: nox -s load -- --minutes 10"""
    install_editable(session, "hatchling>=1.22", "pip", *TEST_TOOLS)
    session.run("python", "benchmarks/load.py", *session.posargs)


@nox.session(reuse_venv=True)
def docs(session: nox.Session) -> None:
    """Build the documentation, and run its examples that need no engine. Example: nox -s docs -- -k numbering"""
    install_editable(session, *SITE_TOOLS, *TEST_TOOLS)
    session.run("python", "docs/generate.py", "--check")
    session.run("mkdocs", "build", "--strict", "--quiet", env=SITE_ENVIRONMENT)
    run_pytest(session, "tests-integration/docs", "-m", "not e2e", *session.posargs)


@nox.session(reuse_venv=True)
def preview(session: nox.Session) -> None:
    """Serve the documentation at http://localhost:8000, with every change. Example: nox -s preview"""
    install_editable(session, *SITE_TOOLS, *TEST_TOOLS)
    session.run("mkdocs", "serve", *session.posargs, env=SITE_ENVIRONMENT)


@nox.session(reuse_venv=True)
def pictures(session: nox.Session) -> None:
    """Make the diagrams and the terminal pictures of the documentation. Example: nox -s pictures -- --check"""
    install_editable(session)
    session.run("python", "docs/pictures.py", *session.posargs)


@nox.session(reuse_venv=True)
def site(session: nox.Session) -> None:
    """Check the documentation with Chromium, on a phone and on a screen. Example: nox -s site -- -k phone"""
    install_editable(session, *SITE_TOOLS, *BROWSER_TOOLS, *TEST_TOOLS)
    run_pytest(session, "tests-integration/browser", *session.posargs, env=SITE_ENVIRONMENT)


@nox.session(reuse_venv=True)
def demo(session: nox.Session) -> None:
    """Show a container under --runtime=amd and what it sees, as root. Example: nox -s demo -- 0-2"""
    install_editable(session)
    session.run("python", "tests-integration/demo.py", *session.posargs)


def check_forge(session: nox.Session) -> None:
    """Check the forge's files; actionlint, if installed, checks more."""
    for schema, files in FORGE_FILES.items():
        session.run("check-jsonschema", "--quiet", "--builtin-schema", schema, *map(str, sorted(Path().glob(files))))
    if shutil.which("actionlint"):
        session.run("actionlint", external=True)
    else:
        session.log("actionlint is not installed: workflows are compared with their schema only")


def run_pytest(session: nox.Session, *words: str, env: dict[str, str] | None = None) -> None:
    """Run pytest. If it is interrupted, it still stops its engines. If no test ran, the session fails."""
    try:
        session.run("pytest", *words, *report_words(session), env=env, interrupt_timeout=LONG_ENOUGH)
    finally:
        missing = session.run(".ci/missing", session.name, external=True, silent=True, log=False)
        if missing:
            session.warn(f"tests lack programs: apt-get install --no-install-recommends {' '.join(missing.split())}")


def passes(session: nox.Session, words: list[str]) -> bool:
    """Run unit tests and return whether they passed, so that the next distribution is tested in any case."""
    try:
        run_pytest(session, *ONE_MORE_THAN_CORES, *words, env=in_memory())
    except nox.command.CommandFailed:
        return False
    return True


def in_memory() -> dict[str, str]:
    """Return the environment that makes pytest keep its files in memory, if there is room for a suite.

    Simulated hosts consist of many small files; on a disk they take half of a suite's time.
    """
    has_room = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM
    return {"TMPDIR": str(MEMORY)} if has_room else {}


def report_words(session: nox.Session) -> tuple[str, ...]:
    """Return pytest's options for reporting to ./check: one file per run, with the files of the tests."""
    directory = os.environ.get("AMD_CHECK_REPORTS")
    if not directory:
        return ()
    runs = len(list(Path(directory).glob("*.xml")))
    return ("-o", "junit_family=xunit1", f"--junitxml={directory}/{runs:02}-{session.name}.xml")


def install_editable(session: nox.Session, *tools: str) -> None:
    """Install all distributions from the checkout, editable and with every extra, and tools; once for all runs."""
    words = [word for name in NEEDS for word in ("-e", f"packages/{name}{EXTRAS.get(name, '')}")]
    projects = [Path(f"packages/{name}/pyproject.toml").read_text(encoding="utf-8") for name in NEEDS]
    wanted = "\n".join([*words, *tools, Path("VERSION").read_text(encoding="utf-8"), *projects])
    installed = Path(session.virtualenv.location, "installed")
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        session.install(*words, *tools)
        installed.write_text(wanted, encoding="utf-8")


def install_builder(session: nox.Session) -> None:
    """Install the build tools from fixed files, so that every build of a commit uses the same ones."""
    session.install("--require-hashes", "--no-deps", "-r", "packaging/build.lock")


def install_wheels(session: nox.Session, *distributions: str) -> None:
    """Install distributions from wheels like users, with their extras. A run of nox builds each wheel once."""
    session.install("hatchling>=1.22")
    directory = session.cache_dir.resolve() / "wheels"
    for name in (name for name in distributions if name not in BUILT):
        with session.chdir(f"packages/{name}"):
            words = ("--clean", "-t", "wheel", "-d", f"{directory / name}")
            # With --install-only nox leaves out what `run` runs; with --no-install the wheels from before stay.
            session.run_install("python", "-m", "hatchling", "build", *words, silent=True)
        BUILT.add(name)
    wheels = [next((directory / name).glob("*.whl")).as_uri() for name in distributions]
    session.install(
        *(f"{name}{EXTRAS.get(name, '')} @ {wheel}" for name, wheel in zip(distributions, wheels, strict=True))
    )
