"""Our entries of a list that others write too."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_ctk.configuration.ledger import Changes
from amd_ctk.documents.json_document import JsonDocument
from amd_ctk.swarm.node_settings import PATH, advertise, read_resources, withdraw
from amd_ctk.swarm.resources import Resource, read_node_name
from amdgpu_discovery.host import Host

GPUS = [Resource(kind="AMD_GPU", value="0x1"), Resource(kind="AMD_GPU", value="0x2")]
FOREIGN = st.lists(st.sampled_from(["SSD=1", "SSD=a", "FPGA=0x1", "LICENCE=7"]), unique=True)


def document(entries: list[str], indent: int | None = 2) -> JsonDocument:
    return JsonDocument(json.dumps({"debug": True, PATH[0]: entries, "hosts": ["fd://"]}, indent=indent))


@given(FOREIGN, st.sampled_from([None, 1, 4]))
def test_resources_that_others_offer_come_back_as_they_were(entries: list[str], indent: int | None) -> None:
    before = document(entries, indent)

    offering, changes = advertise(before, GPUS, [], Changes())
    after, nothing = withdraw(offering, changes)

    assert offering.get(PATH) == [*entries, "AMD_GPU=0x1", "AMD_GPU=0x2"]
    assert json.loads(after.text) == json.loads(before.text)
    assert nothing == Changes()


@given(FOREIGN, FOREIGN)
def test_a_second_time_own_resources_are_replaced_and_others_kept(first: list[str], more: list[str]) -> None:
    offering, changes = advertise(document(first), GPUS, [], Changes())
    added = [entry for entry in more if entry not in first]
    edited = offering.set(PATH, [*offering.get(PATH), *added])

    again, changes = advertise(edited, [Resource(kind="GPU", value="0x1")], [], changes)

    assert again.get(PATH) == [*first, *added, "GPU=0x1"]
    assert withdraw(again, changes)[0].get(PATH) == [*first, *added]


def test_a_document_without_resources_offers_none() -> None:
    assert read_resources(JsonDocument("{}")) == []


@pytest.mark.parametrize(("entry", "amount"), [("VRAM=8000", 8000), ("A=0x10", None), ("A=", None), ("A", None)])
def test_only_integers_are_amounts(entry: str, amount: int | None) -> None:
    assert read_resources(document([entry]))[0].amount == amount


def test_a_node_is_called_as_the_kernel_says_where_a_file_says_something_else(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "gpu-7.example", "6.12.0", "#1", "x86_64")))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/hostname").write_text("simulated\n")

    assert read_node_name(Host("/")) == "gpu-7.example"
    assert read_node_name(Host(f"{tmp_path}")) == "simulated"
