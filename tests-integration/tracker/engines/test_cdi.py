"""CDI devices of engines of three Debian releases and experimental are tracked, with the toolkit from debs."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from support.cdi_engines import ContainerdInBox, DockerInBox, DockerWithRunc, PodmanInBox
from support.debian_root import EXPERIMENTAL, of
from support.docker import EngineError
from support.tracked_box import CLAIMS, REASON_ELSEWHERE, REFUSES

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

PodmanWithRunc = partial(PodmanInBox, runtime="runc")
# Name, in the table of docs/reference/engines.md where it has a column there: release of Debian, how it is driven.
ENGINES = {
    "Docker 28": ("forky", DockerInBox),
    "Docker 26": ("trixie", DockerInBox),
    "Podman 5.8": ("forky", PodmanInBox),
    "Podman 5.4": ("trixie", PodmanInBox),
    "Podman 4.3": ("bookworm", PodmanInBox),
    "containerd 2.1 (ctr)": ("forky", ContainerdInBox),
    "Podman 5.8 with runc": ("forky", PodmanWithRunc),
    "Podman 5.4 with runc": ("trixie", PodmanWithRunc),
    "Podman 4.3 with runc": ("bookworm", PodmanWithRunc),
    "Docker, experimental": (EXPERIMENTAL, DockerWithRunc),
    "Podman, experimental": (EXPERIMENTAL, PodmanInBox),
    "Podman with runc, experimental": (EXPERIMENTAL, PodmanWithRunc),
}
# crun says that a hook failed, not what it said.
WORDLESS = ("Podman 5.8", "Podman 5.4", "Podman 4.3", "Podman, experimental")
RACES = 10


@pytest.fixture(scope="module")
def engines(box):
    """Return a function that gives a running engine."""
    made = {}

    def find(name):
        if name not in made:
            suite, kind = ENGINES[name]
            made[name] = kind(box(suite))
        return made[name]

    return find


class Tracked:
    """An engine whose containers are gone at the end of a test, and the tracker of its machine."""

    def __init__(self, name, engine):
        self.name = name
        self.engine = engine
        self.box = engine.box
        self._started = []
        self._refused_before = len(self._all_refusals())

    def start(self, gpu, *more):
        container = self.engine.start(f"amd.com/gpu={gpu}", options=devices(more))
        self._started.append(container)
        return container

    def run(self, gpu, *more):
        return self.engine.run(f"amd.com/gpu={gpu}", "true", options=devices(more))

    def refusals(self):
        """Return what was refused since the test began."""
        return self._all_refusals()[self._refused_before :]

    def _all_refusals(self):
        return [refusal["message"] for refusal in json.loads(self.box.tracker("refused", "--json"))]

    def remove(self, container):
        self._started.remove(container)
        self.engine.remove(container)

    def remove_all(self):
        while self._started:
            self.engine.remove(self._started.pop())


@pytest.fixture
def engine(request, engines):
    """Return an engine on a machine with an enabled tracker; GPU 0 is exclusive, and none is in use."""
    tracked = Tracked(request.param, engines(request.param))
    tracked.box.tracker("enable")
    tracked.box.tracker("reset")
    tracked.box.tracker("0", "exclusive")
    yield tracked
    tracked.remove_all()


on_every_engine = pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=of(suite)) for name, (suite, _) in ENGINES.items()], indirect=True
)


def devices(gpus):
    return tuple(f"--device=amd.com/gpu={gpu}" for gpu in gpus)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.05)


@on_every_engine
def test_enabling_adopts_what_runs(engine):
    tracker = engine.box.tracker
    tracker("disable")
    container = engine.start(0, 2)

    tracker("enable")

    adopted = [(container, ["adopted"])]
    assert engine.box.users() == {0: adopted, 1: [], 2: adopted, 3: []}
    tracker("0", "exclusive")
    assert engine.run(0).returncode != 0
    tracker("reset")
    assert engine.box.users() == {0: adopted, 1: [], 2: adopted, 3: []}
    engine.remove(container)
    assert engine.box.users() == {0: [], 1: [], 2: [], 3: []}


@on_every_engine
def test_a_cdi_container_claims_shows_and_gives_back(engine, observed):
    container = engine.start(0, 2)

    by_cdi = [(container, ["cdi"])]
    seen = engine.box.users() == {0: by_cdi, 1: [], 2: by_cdi, 3: []}
    if " with " not in engine.name:
        observed(engine.name, engine.engine.version(), CLAIMS, "yes" if seen else "no")
    assert seen
    engine.remove(container)
    assert engine.box.users() == {0: [], 1: [], 2: [], 3: []}
    assert engine.box.leases() == []


@on_every_engine
def test_an_exclusive_gpu_in_use_is_refused_in_the_words_of_the_guide(engine, observed):
    first = engine.start(0)

    refused = engine.run(1, 0)

    words = "GPUs [1] allocated\nGPUs [0] are exclusive and already in use\nReleased GPUs [1] used by container "
    holder = f"GPU 0 is in use by container {first}"
    told = refused.stderr.replace("\\n", "\n")
    answer = "yes" if words in told and holder in told else REASON_ELSEWHERE
    if " with " not in engine.name:
        observed(engine.name, engine.engine.version(), REFUSES, answer)
    assert refused.returncode != 0
    assert answer == (REASON_ELSEWHERE if engine.name in WORDLESS else "yes")
    (recorded,) = engine.refusals()
    assert recorded.startswith(words)
    # With the name, where the engine tells it.
    assert re.search(rf"\n{holder}( \([a-z_]+\))?$", recorded)
    assert engine.box.users() == {0: [(first, ["cdi"])], 1: [], 2: [], 3: []}


@on_every_engine
def test_an_image_for_another_gpu_is_refused_by_the_hook(engine):
    refused = engine.engine.run("amd.com/gpu=1", "true", options=("--env=AMD_REQUIRE_GFX=gfx=gfx942",))
    anyway = engine.engine.run(
        "amd.com/gpu=1", "true", options=("--env=AMD_REQUIRE_GFX=gfx=gfx942", "--env=AMD_DISABLE_REQUIRE=true")
    )

    sentence = "AMD_REQUIRE_GFX=gfx=gfx942: GPU 1 is gfx90a (AMD_DISABLE_REQUIRE=true starts it anyway)"
    assert refused.returncode != 0
    assert (sentence in refused.stderr) is (engine.name not in WORDLESS)
    assert engine.refusals() == [sentence]
    assert anyway.returncode == 0
    wait_for(lambda: engine.box.leases() == [])


@on_every_engine
def test_a_container_that_ends_by_itself_gives_back(engine):
    assert engine.run(0).returncode == 0

    wait_for(lambda: engine.box.leases() == [])
    assert engine.run(0).returncode == 0


@on_every_engine
def test_a_restart_claims_again_and_may_be_too_late(engine):
    first = engine.start(0)
    engine.engine.stop(first)
    assert engine.box.users()[0] == []
    assert engine.engine.start_again(first).returncode == 0
    assert engine.box.users()[0] == [(first, ["cdi"])]
    engine.engine.stop(first)
    second = engine.start(0)

    assert engine.engine.start_again(first).returncode != 0

    assert engine.box.users()[0] == [(second, ["cdi"])]


@on_every_engine
def test_a_privileged_container_claims_what_it_asked_for(engine):
    engine.start(0)

    # Roots of some virtual machines lack capabilities that these want; runtimes say so after they ran the hooks.
    for gpu in (1, 0):
        engine.engine.run(f"amd.com/gpu={gpu}", "true", options=("--privileged",))

    (refusal,) = engine.refusals()
    assert refusal.startswith("GPUs [0] are exclusive and already in use\n")


@on_every_engine
def test_a_spec_has_hooks_while_the_tracker_is_enabled(engine):
    assert list(engine.box.hooks()) == ["createRuntime", "poststop"]

    engine.box.tracker("disable")
    # What images require is checked all the same.
    assert list(engine.box.hooks()) == ["createRuntime"]
    untracked = [engine.start(0), engine.start(0)]
    assert engine.box.leases() == []
    engine.box.tracker("enable")
    assert list(engine.box.hooks()) == ["createRuntime", "poststop"]

    # Docker and containerd read a spec again when the kernel tells them that it changed, which is a little later.
    wait_for(lambda: engine.box.users()[1] != [] or engine.start(1) is None)
    assert sorted(engine.box.users()[0]) == sorted((container, ["adopted"]) for container in untracked)


@on_every_engine
def test_containers_race_for_an_exclusive_gpu_and_one_wins(engine):
    def try_to_start():
        try:
            return engine.start(0)
        except EngineError as refusal:
            return refusal

    with ThreadPoolExecutor(2) as racers:
        for _ in range(RACES):
            results = [racer.result() for racer in [racers.submit(try_to_start) for _ in range(2)]]
            winners = [result for result in results if isinstance(result, str)]
            assert len(winners) == 1, results
            assert engine.box.users()[0] == [(winners[0], ["cdi"])]
            engine.remove_all()
            wait_for(lambda: engine.box.leases() == [])
