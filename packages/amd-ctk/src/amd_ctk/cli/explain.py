"""amd-ctk explain: what a container would get, and why."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from amd_ctk.cli import offers
from amd_ctk.explain.container import Container
from amd_ctk.explain.explanation import Explanation
from amd_ctk.wrapped import print_wrapped
from amdgpu_discovery.command_line.context import PrintJson, host_of
from amdgpu_discovery.command_line.plain_help import examples
from amdgpu_discovery.host import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.engines.engine_words import Prefixed

# Words of `docker run` look like options of amd-ctk.
SETTINGS = {"allow_interspersed_args": False}
# Options of `amd-ctk run` that start many jobs with one command line.
EACH_OPTIONS = ("each", "output", "at_once", "from_line")
COMPOSES = ("docker-compose", "podman-compose")
# What explains other commands of engines.
INSTEAD = {
    "compose": "name the file and a service: amd-ctk explain compose.yaml SERVICE",
    "exec": "name a running container: amd-ctk explain --container NAME",
    "kube": "name the file and a container: amd-ctk explain pod.yaml CONTAINER",
    "service": "Docker Swarm gives services no devices, only generic resources: amd-ctk swarm status",
}
INSTEAD |= {"play": INSTEAD["kube"], "stack": INSTEAD["service"], "start": INSTEAD["exec"]}


@examples(
    "amd-ctk explain -e AMD_VISIBLE_DEVICES=0-2",
    "amd-ctk explain -- docker run --runtime=amd -e AMD_VISIBLE_DEVICES=all IMAGE",
    "amd-ctk explain -- amd-ctk run --gpus=free:1 --wait -- python3 train.py",
    "amd-ctk explain compose.yaml training",
    "amd-ctk explain pod.yaml main",
    "amd-ctk explain --container web",
)
def explain(
    context: typer.Context,
    args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND | FILE NAME]",
            help="A docker run, podman run or amd-ctk run with its arguments; a Compose file and a service; or a pod's"
            " file and a container.",
        ),
    ] = None,
    *,
    env: Annotated[
        list[str] | None, typer.Option("--env", "-e", metavar="VAR=VALUE", help="Variable of the container.")
    ] = None,
    device: Annotated[
        list[str] | None, typer.Option(metavar="DEVICE", help="Device, as for the engine's --device.")
    ] = None,
    privileged: Annotated[bool, typer.Option("--privileged", help="The container is privileged.")] = False,
    user: Annotated[str, typer.Option("--user", "-u", metavar="USER", help="User of the container.")] = "",
    container: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Explain this running container, by name or id.", autocompletion=offers.containers
        ),
    ] = "",
    bundle: Annotated[
        str, typer.Option(metavar="DIRECTORY", help="Explain the container of the OCI bundle in this directory.")
    ] = "",
    as_json: PrintJson = False,
) -> None:
    """Show which GPUs a container would get, and why.

    It starts and changes nothing. Give variables and devices, a whole `docker run` or `podman run` after --, a service
    of a Compose file, a container of a pod for `podman kube play`, a running container, or a bundle. Exits with the
    code of the refusal if the container would not start, with 1 if it would start without a GPU that it asks for, and
    with 2 if an engine did not say in time what its image asks for. An `amd-ctk run` after -- shows whether its command
    would start now, and what it waits for.
    """
    if job := _find_job(args or []):
        chosen = {"--env": env, "--device": device, "--privileged": privileged, "--user": user}
        chosen |= {"--container": container, "--bundle": bundle}
        if option := next((option for option, value in chosen.items() if value), ""):
            raise typer.BadParameter(f"{option} describes a container; leave it out to explain 'amd-ctk run'")
        _explain_job(host_of(context), job, as_json=as_json)
        return
    from amd_ctk.explain.container import Container, ExplainError
    from amd_ctk.explain.text import format_explanation, format_json

    described = Container(environment=tuple(env or ()), devices=tuple(device or ()), privileged=privileged, user=user)
    explanation = _explain(host_of(context), args or [], described, container=container, bundle=bundle)
    if as_json:
        print(format_json(explanation))
    else:
        print_wrapped(format_explanation(explanation))
    if explanation.plan.refusals:
        raise typer.Exit(explanation.plan.refusals[0].exit_code)
    if explanation.unknown:
        raise typer.Exit(ExplainError.exit_code)
    if explanation.lacks_gpus:
        raise typer.Exit(1)


def _find_job(args: Sequence[str]) -> Prefixed | None:
    """Return the `amd-ctk run` of a command line, perhaps after `sudo` or `env`; None if it is another command."""
    if not args:
        return None
    from amd_ctk.engines.engine_words import without_prefixes

    command = without_prefixes(args)
    program, *rest = command.argv
    return command if os.path.basename(program) == "amd-ctk" and rest[:1] == ["run"] else None


def _explain_job(host: Host, job: Prefixed, *, as_json: bool) -> None:
    from amd_ctk.cli.tree import Commands
    from amd_ctk.engines.engine_words import environment_of
    from amd_ctk.job.explain import JobExplanation, explain_job, format_job, format_job_as_json
    from amd_ctk.job.run import plan_job
    from amdgpu_discovery.command_line.process import CannotRun

    if job.is_sudo and os.geteuid():
        raise typer.BadParameter(
            "with sudo it is a job of root; explain it as root: sudo amd-ctk explain -- amd-ctk run"
        )
    options = Commands()["run"].make_context("amd-ctk run", [*job.argv[2:]]).params
    if options.pop("detach"):
        # Then it is the directory of the log, which changes nothing else.
        options["output"] = ""
    if any(options.pop(name) for name in EACH_OPTIONS):
        raise typer.BadParameter("--each is many jobs; give the words of one")
    try:
        planned = plan_job(options.pop("command"), **options)
        explanation = explain_job(host, planned, environment_of(job, os.environ))
    except CannotRun as error:
        if not as_json:
            raise
        explanation = JobExplanation(refusal=error)
    print(format_job_as_json(explanation) if as_json else format_job(explanation))
    if explanation.refusal:
        raise typer.Exit(explanation.refusal.exit_code)


def _explain(host: Host, args: list[str], described: Container, *, container: str, bundle: str) -> Explanation:
    from amd_ctk.explain.explanation import explain_container, explain_spec
    from amd_ctk.explain.running import add_image, read_bundle, read_running

    if container:
        running, spec = read_running(host, container)
        return explain_spec(spec, host, container_id=running.container_id, root=running.root)
    if bundle:
        return explain_spec(read_bundle(bundle), host)
    return explain_container(add_image(_read_args(host, args) if args else described), host)


def _read_args(host: Host, args: list[str]) -> Container:
    """Return the container of an engine's command, a Compose file or a pod; each reader is loaded only if needed."""
    from amd_ctk.engines.engine_words import PODMAN, engine_of, environment_of, is_assignment, without_prefixes
    from amd_ctk.explain.container import Container
    from amd_ctk.explain.engine_view import find_version
    from amd_ctk.explain.run_words import is_engine_command, parse_run

    # A shell reads NAME=VALUE in front of a command as env does.
    command = without_prefixes(["env", *args] if is_assignment(args[0]) else args)
    is_of_engine = is_engine_command(command.argv)
    verb = (*command.argv[1:], "")[0]
    if os.path.basename(command.argv[0]) in COMPOSES or (is_of_engine and verb in INSTEAD):
        raise typer.BadParameter(INSTEAD.get(verb, INSTEAD["compose"]))
    if is_of_engine:
        version = find_version(Container(engine=PODMAN), host) if engine_of(command.argv[0]) == PODMAN else ()
        environment = environment_of(command, os.environ)
        return parse_run(command.argv, environment, is_sudo=command.is_sudo, version=version)
    if len(args) != 2:
        raise typer.BadParameter(
            "expected docker run ARGS..., podman run ARGS..., amd-ctk run ARGS..., COMPOSE.yaml SERVICE,"
            " or POD.yaml CONTAINER"
        )
    from amd_ctk.explain.kube import is_kube_file, read_pod

    path, name = args
    if is_kube_file(path):
        return read_pod(path, name, host)
    from amd_ctk.explain.compose import read_service

    return read_service(path, name, os.environ, host)
