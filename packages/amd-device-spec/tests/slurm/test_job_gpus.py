"""What containers get in jobs of Slurm."""

from __future__ import annotations

import random

import pytest

from amd_device_spec.request import requested_gpus
from amd_device_spec.settings import Settings
from amd_device_spec.slurm.job_gpus import grant_in_job, remove_filters, rules_in_job
from amd_device_spec.slurm_job import parse_job
from amd_device_spec.start.plan import decide_grant, grant_on_host
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import RequestError, ToolkitError
from amdgpu_discovery.gpu import GpuLocation, PciAddress
from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host

# GPUs 0 to 3 of the profile are renderD130, 131, 129 and 128.
IN_OUR_ORDER = "".join(f"NodeName=n1 Name=gpu Type=mi210 File=/dev/dri/renderD{m}\n" for m in (130, 131, 129, 128))
BY_MINOR = "Name=gpu File=/dev/dri/renderD[128-131]\n"
JOB = ("SLURM_JOB_ID=7", "SLURMD_NODENAME=n1")
SECOND_HALF = (*JOB, "SLURM_JOB_GPUS=0,1,2,3", "SLURM_STEP_GPUS=2,3")


@pytest.fixture
def host(tmp_path):
    return build_host(tmp_path / "host", "mi210-4", bare=True)


@pytest.fixture
def grant(host, tmp_path):
    """Return a function that gives the numbers of the GPUs that an environment gets."""

    def grant(*environment, gres=IN_OUR_ORDER, settings=None):
        if gres is not None:
            (tmp_path / "host/etc/slurm").mkdir(parents=True, exist_ok=True)
            (tmp_path / "host/etc/slurm/gres.conf").write_text(gres)
        settings = settings or Settings()
        request = requested_gpus({"process": {"env": list(environment)}}, settings)
        return [gpu.number for gpu in grant_on_host(request, host, settings)[0].gpus]

    return grant


def refusal(grant, *environment, **options):
    with pytest.raises(ToolkitError) as refused:
        grant(*environment, **options)
    return str(refused.value)


def test_a_container_that_asks_for_nothing_has_all_of_its_step(grant):
    assert grant(*SECOND_HALF) == [2, 3]


def test_the_step_comes_before_the_job(grant):
    assert grant(*JOB, "SLURM_JOB_GPUS=0,1") == [0, 1]
    assert grant(*JOB, "SLURM_JOB_GPUS=0,1", "SLURM_STEP_GPUS=1") == [1]


def test_positions_are_those_of_gres_conf(grant):
    assert grant(*SECOND_HALF, gres=BY_MINOR) == [0, 1]


def test_all_means_all_of_the_job(grant):
    assert grant(*SECOND_HALF, "AMD_VISIBLE_DEVICES=all") == [2, 3]


def test_a_request_may_narrow(grant):
    assert grant(*SECOND_HALF, "AMD_VISIBLE_DEVICES=3") == [3]
    assert grant(*SECOND_HALF, "AMD_VISIBLE_DEVICES=0x12FE4F7FDAF06B9") == [3]
    assert grant(*SECOND_HALF, "AMD_VISIBLE_DEVICES=none") == []


def test_a_gpu_of_another_job_is_refused(grant):
    assert refusal(grant, *SECOND_HALF, "AMD_VISIBLE_DEVICES=0") == (
        "AMD_VISIBLE_DEVICES=0: GPU 0 is not among the GPUs this process may use (2, 3) (Slurm gave this job 2, 3)"
    )
    assert refusal(grant, *SECOND_HALF, "AMD_VISIBLE_DEVICES=0000:26:00.0") == (
        "AMD_VISIBLE_DEVICES=0000:26:00.0: no GPU is at PCI address 0000:26:00.0, this process may use 0000:43:00.0,"
        " 0000:63:00.0 ('amd-ctk gpu list' shows them)"
    )


def test_a_gpu_that_does_not_exist_is_refused_as_everywhere(grant):
    assert refusal(grant, *SECOND_HALF, "AMD_VISIBLE_DEVICES=9") == (
        "AMD_VISIBLE_DEVICES=9: GPU 9 does not exist, this host has GPUs 0-3 ('amd-ctk gpu list' shows them)"
    )


def test_swarms_resources_are_no_way_around(grant):
    assert "no GPU has the unique id 0xEA35F57CC80DEB35" in refusal(
        grant, *SECOND_HALF, "DOCKER_RESOURCE_GPU=0xEA35F57CC80DEB35"
    )


def test_a_job_without_gpus_has_none(grant):
    assert grant(*JOB, "AMD_VISIBLE_DEVICES=none") == []
    assert refusal(grant, *JOB, "AMD_VISIBLE_DEVICES=0") == (
        "AMD_VISIBLE_DEVICES=0: this Slurm job has no GPU that this process may use"
        " (ask for GPUs, as with 'srun --gres=gpu:1')"
    )
    assert grant(*JOB, "AMD_VISIBLE_DEVICES=0", settings=Settings(unknown_gpus="ignore")) == []


def numbers_of(host, environment, request="auto:1"):
    variables = dict(entry.split("=", 1) for entry in environment)
    return rules_in_job(ChoiceRules(groups={}), request, host, variables).numbers


def test_a_program_of_a_job_has_the_gpus_of_the_job(grant, host):
    grant(*SECOND_HALF)

    assert numbers_of(host, SECOND_HALF) == (2, 3)
    assert numbers_of(host, (*JOB, "SLURM_JOB_GPUS=0,1,2,3")) is None
    assert numbers_of(host, ("SLURM_CONF=/etc/slurm.conf",)) is None


def test_a_program_of_a_job_without_gpus_has_none(grant, host):
    grant(*SECOND_HALF)

    assert numbers_of(host, JOB, "none") is None
    with pytest.raises(RequestError) as refused:
        numbers_of(host, JOB)
    assert str(refused.value) == (
        "auto:1: this Slurm job has no GPU that this process may use (ask for GPUs, as with 'srun --gres=gpu:1')"
    )


def test_where_slurm_hands_out_no_gpus_the_request_counts(grant):
    assert grant(*JOB, "AMD_VISIBLE_DEVICES=0", gres="Name=nic File=/dev/nic0\n") == [0]


@pytest.mark.parametrize(
    ("gpus", "gres", "message"),
    [
        ("0,4", IN_OUR_ORDER, "SLURM_STEP_GPUS=0,4: gres.conf has no GPU 4 here"),
        ("0", None, "SLURM_STEP_GPUS=0: gres.conf has no GPU 0 here"),
        (
            "0",
            "Name=gpu File=/dev/dri/renderD140\n",
            "gres.conf names /dev/dri/renderD140, which is not a GPU of this host",
        ),
    ],
)
def test_an_answer_of_slurm_that_names_no_gpu_is_refused(grant, gpus, gres, message):
    assert refusal(grant, *JOB, f"SLURM_STEP_GPUS={gpus}", gres=gres) == (
        f"{message} (write gres.conf as 'amd-ctk slurm gres' prints it)"
    )


@pytest.mark.parametrize("value", ["x", "0,", "-1", "0" * 2000, "0-3"])
def test_an_answer_that_slurm_does_not_write_is_refused(grant, value):
    assert "is not a list of numbers" in refusal(grant, *JOB, f"SLURM_STEP_GPUS={value}")


def test_a_name_that_no_node_has_is_refused(grant):
    assert refusal(grant, "SLURM_JOB_ID=7", "SLURM_JOB_GPUS=0", f"SLURMD_NODENAME={'1' * 5000}") == (
        f"SLURMD_NODENAME={'1' * 60}... is not the name of a node"
    )


def location(number, total):
    return GpuLocation(
        number=number,
        pci_address=PciAddress(domain=0, bus=number, device=0, function=0),
        render_minor=128 + number,
        card_minor=None,
        kfd_node=number,
        kfd_unique_id=0xABCD00 + number,
        pci_unique_id=0xABCD00 + number,
        partition_rank=0,
        partition_total=1,
        host_total=total,
    )


def test_no_request_escapes_from_its_job(tmp_path):
    """10,000 made-up jobs and requests against the rules in three lines."""
    chance = random.Random(20)
    minors = chance.sample(range(128, 144), 16)
    (tmp_path / "etc/slurm").mkdir(parents=True)
    (tmp_path / "etc/slurm/gres.conf").write_text("".join(f"Name=gpu File=/dev/dri/renderD{m}\n" for m in minors))
    outcomes = {"granted": 0, "refused": 0}
    for _ in range(10_000):
        usable = {number for number in range(16) if chance.random() < 0.7}
        positions = chance.sample(range(16), chance.randint(0, 5))
        asked = chance.sample(range(18), chance.randint(0, 3))
        environment = ["SLURM_JOB_ID=1", f"SLURM_STEP_GPUS={','.join(map(str, positions))}"]
        words = {"all": ["all"], "numbers": map(str, asked), "ids": (f"0x{0xABCD00 + number:x}" for number in asked)}
        form = chance.choice(["unset", *words])
        if form != "unset":
            environment.append(f"AMD_VISIBLE_DEVICES={','.join(words[form])}")
        request = requested_gpus({"process": {"env": environment}}, Settings())

        allowed = {minors[position] - 128 for position in positions} & usable
        wanted = allowed if form in ("unset", "all") else set(asked)
        expected = sorted(wanted) if wanted <= allowed and (allowed or form != "all") else None

        assert got(request, [location(number, 16) for number in sorted(usable)], Host(tmp_path)) == expected
        outcomes["refused" if expected is None else "granted"] += 1

    assert min(outcomes.values()) > 3000


def got(request, gpus, host):
    if request is None or request.asks_for_nothing:
        return []
    try:
        decide = lambda allowed: decide_grant(request, allowed, Settings())  # noqa: E731
        granted = grant_in_job(request, request.job, gpus, host, Settings(), decide=decide)
        return [gpu.number for gpu in granted.gpus]
    except RequestError:
        return None


JOB_OF_FILTERS = parse_job({"SLURM_STEP_GPUS": "2,3"})


def left(*environment, job=JOB_OF_FILTERS, settings=None):
    spec = {"process": {"env": list(environment)}}
    assert remove_filters(spec, job, settings or Settings()) is (len(spec["process"]["env"]) < len(environment))
    return spec["process"]["env"]


@pytest.mark.parametrize(
    "name", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES"]
)
@pytest.mark.parametrize("value", ["2,3", "0,1"])
def test_filters_that_slurm_writes_are_removed(name, value):
    assert left("PATH=/bin", f"{name}={value}", "A=2,3") == ["PATH=/bin", "A=2,3"]


@pytest.mark.parametrize("value", ["0", "1", "3", "", "GPU-08da82c12ef81b5d", "2,3,4"])
def test_filters_that_the_user_writes_stay(value):
    assert left(f"ROCR_VISIBLE_DEVICES={value}") == [f"ROCR_VISIBLE_DEVICES={value}"]


def test_a_setting_keeps_them():
    keeping = Settings(slurm_filters="keep")

    assert left("ROCR_VISIBLE_DEVICES=2,3", settings=keeping) == ["ROCR_VISIBLE_DEVICES=2,3"]


def test_a_job_without_gpus_has_nothing_to_take_out():
    assert left("ROCR_VISIBLE_DEVICES=0", job=parse_job({"SLURM_JOB_ID": "7"})) == ["ROCR_VISIBLE_DEVICES=0"]
