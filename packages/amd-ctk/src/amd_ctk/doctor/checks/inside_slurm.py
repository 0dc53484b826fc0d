"""Has a container in a job of Slurm the GPUs of its job?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.tried import name_of, permitted_nodes
from amd_device_spec.slurm.job_gpus import select_gpus_of_job
from amd_device_spec.slurm_job import NODE, SlurmError, parse_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "slurm"
WHY = "a container that another runtime starts in a job gets none of the job's GPUs, or those of others too"
PLACE = "how-to/slurm.md#run-containers"
CONSTRAIN = "set ConstrainDevices=yes in cgroup.conf"


def check(facts: Facts) -> Finding | None:
    """Compare the GPUs that Slurm gave the job with those that the container may open."""
    variables = facts.inside.variables if facts.inside else {}
    job = parse_job({name: value for name, value in variables.items() if value})
    may_open = {node.minor for node in permitted_nodes(facts) if node.path.startswith("/dev/dri/renderD")}
    # What is missing altogether is said by inside-nodes and inside-cgroup.
    if not (job or variables.get(NODE)) or not facts.slurm.files or not may_open:
        return None
    if job is None or not job.gpus:
        return note(f"{name_of(facts)} may open {len(may_open)} GPUs, and its Slurm job names none", fix=CONSTRAIN)
    try:
        given = {gpu.render_minor: gpu.number for gpu in select_gpus_of_job(job, facts.slurm.files, facts.gpus.gpus)}
    except SlurmError as error:
        return bad(error.message, fix="amd-ctk slurm status")
    lacking = [number for minor, number in given.items() if minor not in may_open]
    if lacking:
        words = f"Slurm gave the job GPU {min(lacking)}, and {name_of(facts)} may not open it"
        return bad(words, fix="sudo amd-ctk runtime configure --runtime=slurm, and start the job again")
    if may_open - given.keys():
        words = f"{name_of(facts)} may open {len(may_open)} GPUs, and its job has {len(given)}"
        return note(words, fix=CONSTRAIN)
    return ok(f"{name_of(facts)} has the GPUs of its job")
