"""What engines of three Debian releases and experimental make of our CDI specs; docs/reference/engines.md has it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from support import cdi_engines, cdi_questions
from support.box import Box, add_user, nodes_of
from support.cdi_engines import put_image
from support.cdi_questions import put_specs
from support.debian_root import EXPERIMENTAL, debian_root, of
from support.docker import IMAGE
from support.installed import require_root
from support.oci_archive import pack_oci

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

DOCKER = {**cdi_questions.COMMON_QUESTIONS, **cdi_questions.ROOTFUL_QUESTIONS, **cdi_questions.DOCKER_QUESTIONS}
ROOTFUL = {**cdi_questions.COMMON_QUESTIONS, **cdi_questions.ROOTFUL_QUESTIONS}
ROOTLESS = {**cdi_questions.COMMON_QUESTIONS, **cdi_questions.ROOTLESS_QUESTIONS}

# Name in the table: release of Debian, how it is driven, what it is asked.
ENGINES = {
    "Docker 28": ("forky", cdi_engines.DockerInBox, DOCKER),
    "Docker 26": ("trixie", cdi_engines.DockerInBox, DOCKER),
    "Podman 5.8": ("forky", cdi_engines.PodmanInBox, ROOTFUL),
    "Podman 5.4": ("trixie", cdi_engines.PodmanInBox, ROOTFUL),
    "Podman 4.3": ("bookworm", cdi_engines.PodmanInBox, ROOTFUL),
    "Podman 5.8, rootless": ("forky", cdi_engines.RootlessPodmanInBox, ROOTLESS),
    "Podman 5.4, rootless": ("trixie", cdi_engines.RootlessPodmanInBox, ROOTLESS),
    "Podman 4.3, rootless": ("bookworm", cdi_engines.RootlessPodmanInBox, ROOTLESS),
    "containerd 2.1 (ctr)": ("forky", cdi_engines.ContainerdInBox, ROOTFUL),
    "Docker, experimental": (EXPERIMENTAL, cdi_engines.DockerWithRunc, DOCKER),
    "Podman, experimental": (EXPERIMENTAL, cdi_engines.PodmanInBox, ROOTFUL),
    "Podman, experimental, rootless": (EXPERIMENTAL, cdi_engines.RootlessPodmanInBox, ROOTLESS),
}
GROUPS = "`--additional-gids` (CDI 0.7.0)"
ANNOTATIONS = "`--annotations` (CDI 0.6.0)"
CLOSED_NODES = "host nodes 0660 `root:render`: opens"
# What is not "yes".
EXPECTED = {
    # They set the groups of a container's user after those of its devices.
    ("Docker 28", GROUPS): "read, groups lost",
    ("Docker 26", GROUPS): "read, groups lost",
    ("Docker, experimental", GROUPS): "read, groups lost",
    # Docker asks CDI for --gpus from 29.3 on.
    ("Docker 28", "`--gpus all` through CDI"): "no",
    ("Docker 26", "`--gpus all` through CDI"): "no",
    ("Docker, experimental", "`--gpus all` through CDI"): "no",
    # Its latest version of CDI is 0.5.0.
    ("Podman 4.3", ANNOTATIONS): "no",
    ("Podman 4.3", GROUPS): "no",
    ("Podman 4.3, rootless", ANNOTATIONS): "no",
    ("Podman 4.3, rootless", GROUPS): "no",
    # Nothing inside a user namespace is in the host's render group.
    ("Podman 5.8, rootless", CLOSED_NODES): "refused-by-mode",
    ("Podman 5.4, rootless", CLOSED_NODES): "refused-by-mode",
    ("Podman 4.3, rootless", CLOSED_NODES): "refused-by-mode",
    ("Podman, experimental, rootless", CLOSED_NODES): "refused-by-mode",
}


@pytest.fixture(scope="module")
def box(tmp_path_factory, generate, image_archive):
    """Return a function that gives a running box over a release of Debian, with specs, image and user."""
    require_root()
    boxes = {}

    def make(suite):
        directory = tmp_path_factory.mktemp(suite)
        # Podman 6 knows no other cgroups.
        newer = suite == EXPERIMENTAL
        made = stack.enter_context(Box(str(debian_root(suite)), directory, nodes_of(generate()), cgroup2=newer))
        put_image(made, image_archive, pack_oci(image_archive, directory / "oci.tar", IMAGE))
        add_user(made)
        put_specs(made, generate)
        return made

    def find(suite):
        if suite not in boxes:
            boxes[suite] = make(suite)
        return boxes[suite]

    with ExitStack() as stack:
        yield find


@pytest.fixture(scope="module")
def engine(box):
    """Return a function that gives a running engine."""
    engines = {}

    def find(name):
        if name not in engines:
            suite, kind, _ = ENGINES[name]
            engines[name] = kind(box(suite))
        return engines[name]

    return find


@pytest.mark.parametrize(
    ("name", "question"),
    [
        pytest.param(name, question, marks=of(suite))
        for name, (suite, _, asked) in ENGINES.items()
        for question in asked
    ],
)
def test_an_engine_answers_as_the_reference_says(engine, observed, name, question):
    _, _, questions = ENGINES[name]

    answer = questions[question](engine(name))

    observed(name, engine(name).version(), question, answer)
    assert answer == EXPECTED.get((name, question), "yes")


def test_a_udev_that_can_verify_rules_finds_nothing_wrong_with_the_rule(box):
    rules = Path(__file__).parents[2] / "packaging/udev/60-amd-cdi-refresh.rules"
    box("forky").write("/usr/lib/udev/rules.d/60-amd-cdi-refresh.rules", rules.read_bytes())

    verified = box("forky")("udevadm", "verify", "/usr/lib/udev/rules.d/60-amd-cdi-refresh.rules", check=False)

    assert verified.returncode == 0, verified.stdout + verified.stderr
