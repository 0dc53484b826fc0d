"""The tables of docs/reference/requests.md say what really happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_discovery.choices.selection import select_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host

PAGE = Path(__file__).parents[2] / "docs/reference/requests.md"
TABLE = re.compile(
    r"^\| (?P<kind>request|choice) on `(?P<profile>[\w-]+)` \| GPUs \|\n\|---\|---\|\n(?P<rows>(?:\|.*\|\n)+)", re.M
)


def rows(kind: str = "request") -> list[tuple[str, str, str]]:
    return [
        (table["profile"], request.strip().strip("`"), answer.strip())
        for table in TABLE.finditer(PAGE.read_text(encoding="utf-8"))
        if table["kind"] == kind
        for _, request, answer, _ in (row.split("|") for row in table["rows"].splitlines())
    ]


@pytest.fixture(scope="module")
def gpus_by_profile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[GpuLocation]]:
    directory = tmp_path_factory.mktemp("hosts")
    return {profile: locate_gpus(build_host(directory / profile, profile)) for profile in {row[0] for row in rows()}}


@pytest.mark.parametrize(("profile", "request_", "answer"), rows())
def test_a_request_means_what_the_page_says(
    profile: str, request_: str, answer: str, gpus_by_profile: dict[str, list[GpuLocation]]
) -> None:
    try:
        said = " ".join(str(gpu.number) for gpu in select_gpus(gpus_by_profile[profile], request_)) or "none"
    except RequestError as refusal:
        said = str(refusal)

    assert said == answer


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    tracker = Tracker(build_host(tmp_path_factory.mktemp("host") / "mi210-8", "mi210-8"))
    tracker.enable()
    return tracker


@pytest.mark.parametrize(("profile", "choice", "answer"), rows("choice"))
def test_a_choice_means_what_the_page_says(profile: str, choice: str, answer: str, tracker: Tracker) -> None:
    assert profile == "mi210-8"
    try:
        said = " ".join(map(str, tracker.reserve(choice, name="notebook").numbers))
    except RequestError as refusal:
        said = str(refusal)
    else:
        tracker.release("notebook")

    assert said == answer


def test_all_tables_are_found() -> None:
    assert {profile for profile, _, _ in rows()} == {"mi210-4", "mi300x-8-cpx"}
    assert len(rows("choice")) > 15
