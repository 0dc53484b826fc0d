"""What doctor --fix would do on this machine, which is planned and not done here."""

from __future__ import annotations

from amd_ctk.cdi.generate_options import GenerateOptions, save_generate_options
from amd_ctk.cdi.specs import FoundGpus, write_spec
from amd_ctk.doctor.repairs import find_repairs
from amd_ctk.doctor.run import run_checks
from amd_device_spec.cdi.spec import CdiOptions
from amdgpu_discovery.host import Host


def test_a_node_that_all_gpus_lack_is_shown_once(machine):
    spoilt = machine("mi210-4")
    spoilt.remove("/dev/kfd")
    facts = spoilt.facts()

    # A simulated host has no udev.
    (repair,) = find_repairs(Host(), facts, run_checks(facts, only=("nodes",)))

    assert (repair.check, repair.words) == ("nodes", "have udev make missing nodes")
    assert repair.difference == "+/dev/kfd is missing although the driver has this device"


def test_a_spec_that_may_not_be_written_keeps_no_other_from_being_refreshed(machine):
    spoilt = machine("mi210-4")
    for output in ("/etc/cdi/amd.json", "/run/cdi/amd.json"):
        wanted = GenerateOptions(output=output, language="json", options=CdiOptions())
        save_generate_options(spoilt.host, wanted)
        write_spec(FoundGpus(spoilt.host), wanted)
        content = spoilt.host.read(output).decode()
        spoilt.write(output, content.replace("renderD128", "renderD199") if output.startswith("/run") else "{")
    facts = spoilt.facts()

    repairs = find_repairs(spoilt.host, facts, run_checks(facts, only=("cdi",)))

    assert [repair.words for repair in repairs] == ["refresh /run/cdi/amd.json"]
