"""Finds the state of every GPU, from discovery, health, the tracker's policy and reservations, and current use."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.state import UNHELD_FILE, State, open_state
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.status import GpuUse, LostGpu, read_status_with_leases
from amd_gpu_tracker.leases.use import GpuProcess, find_gpu_processes, format_use, read_gpu_uses, sees_all_processes
from amd_gpu_tracker.watch.show.listing import cut_id
from amd_gpu_tracker.watch.states.state import LOST, GpuState, decide_state
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.files import exists
from amdgpu_discovery.health.limits import NO_LIMITS, HealthLimits
from amdgpu_discovery.health.reading import Health, read_health
from amdgpu_discovery.tables.models import model_of
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.drains import Drain
    from amd_gpu_tracker.leases.limits import LeaseLimits
    from amd_gpu_tracker.leases.pod_device import PodDevice
    from amd_gpu_tracker.leases.status import ContainerUse
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host


def find_states(
    host: Host,
    *,
    processes: Processes | None = None,
    with_errors: bool = True,
    with_all_processes: bool = True,
    earlier: Iterable[GpuState] = (),
    limits: HealthLimits = NO_LIMITS,
    note: Callable[[Mapping[str, Health]], object] | None = None,
    pods: Mapping[str, PodDevice] = {},
) -> tuple[GpuState, ...]:
    """Return the state of each GPU, including lost ones, in the order in which GPUs are tracked; nothing is changed.

    `processes` finds out which processes are running, by default on this machine. `with_errors` also reads error
    counters, which accesses the hardware: a screen that looks every second sets it only for its first page, and passes
    its `earlier` findings. Without `with_all_processes`, the open files of those that do not compute are read only for
    a GPU that is in use by none that does: a host may have thousands. `limits` define when a GPU is suspect or sick.
    If GPUs are tracked, `note` is called with their health by their keys, without those that were not asked; notes
    about sick ones are read after that. `pods` are those to which kubelet has given GPUs, by the key of the GPU. Errors
    as `locate_gpus`; StateError if the tracker's files cannot be understood.
    """
    known = {gpu.pci_address: gpu.health for gpu in earlier}
    return _States(
        open_state(host, os.environ),
        processes or Processes(),
        lambda addresses: read_health(host, addresses, with_errors=with_errors, earlier=known, limits=limits),
        note,
        pods,
        with_all_processes=with_all_processes,
    ).find()


class _States:
    """The facts to join."""

    def __init__(
        self,
        state: State,
        processes: Processes,
        read: Callable[[list[str]], dict[str, Health]],
        note: Callable[[Mapping[str, Health]], object] | None,
        pods: Mapping[str, PodDevice],
        *,
        with_all_processes: bool,
    ) -> None:
        self._pods = pods
        host = state.host
        self._gpus = find_gpus(host)
        status, leases = read_status_with_leases(state, processes)
        self._tracked = {use.number: use for use in status.gpus}
        self._lost = status.lost
        addresses = [str(gpu.pci_address) for gpu in self._gpus]
        self._health = read(addresses)
        if note and status.enabled:
            note({gpu.key: health for gpu in self._gpus if (health := self._health[str(gpu.pci_address)]).is_known})
        self._withheld = _read_withheld(state)
        self._uses = read_gpu_uses(host, self._gpus, self._health)
        self._processes = find_gpu_processes(host, self._gpus) if with_all_processes else self._find_processes(host)
        self._leaked = self._find_leaked(state, processes.now())
        self._names: Mapping[str, str] = {}
        self._pod_titles: Mapping[str, str] = {}
        self._people: Mapping[int, str] = {}
        self._limits: LeaseLimits | None = None
        if containers := [use for tracked in status.tracked for use in tracked.containers]:
            self._find_names(host, containers)
            if any(use.containers and not self._processes.get(use.number) for use in status.gpus):
                # Imported here for the same reason.
                from amd_gpu_tracker.leases.limits import LeaseLimits

                self._limits = LeaseLimits(host, leases, processes)
        self._is_this_machine = host.is_this_machine

    def find(self) -> tuple[GpuState, ...]:
        states = [*map(self._state_of, self._gpus), *map(self._state_of_lost, self._lost)]
        return tuple(sorted(states, key=lambda each: each.tracked_number))

    def _state_of(self, gpu: Gpu) -> GpuState:
        tracked = self._tracked.get(gpu.number) or _untracked(gpu)
        use = self._uses[gpu.number]
        processes = self._processes[gpu.number]
        withheld = self._withheld.get(gpu.key, {})
        health = self._health.get(str(gpu.pci_address), Health())
        containers = tracked.containers
        number = gpu.number if tracked.tracked_number is None else tracked.tracked_number
        state, reason = decide_state(
            health,
            withheld,
            is_reserved=bool(containers) or tracked.has_unreadable or gpu.key in self._pods,
            is_used=use.is_used,
            use=format_use(use, processes, has_leaked=gpu.key in self._leaked),
        )
        person, what = self._holder(tracked, processes)
        limit_bytes, charged_bytes = self._find_limit(gpu, processes, containers)
        noted = withheld.get(state) or next(iter(withheld.values()), None)
        since = containers[0].since if containers else None
        return GpuState(
            **{**tracked.as_dict(), "tracked_number": number},
            model=model_of(gpu),
            state=state,
            reason=reason,
            since=noted.since if noted else since,
            processes=processes,
            person=person,
            what=what,
            vram_used=use.vram_used,
            vram_total=gpu.vram_bytes or use.totals.vram_total,
            limit_bytes=limit_bytes,
            charged_bytes=charged_bytes,
            busy_percent=use.totals.busy_percent,
            health=health,
            has_leaked=state == GpuState.IN_USE and gpu.key in self._leaked,
            pod=self._pods[gpu.key].title if gpu.key in self._pods else "",
            host_total=gpu.host_total,
        )

    def _find_limit(
        self, gpu: Gpu, processes: Sequence[GpuProcess], containers: Sequence[ContainerUse]
    ) -> tuple[int | None, int | None]:
        """Return the limit of the process with most memory, or of the container or job that has a GPU without one."""
        if processes or not containers or self._limits is None:
            return next(((each.limit_bytes, each.charged_bytes) for each in processes), (None, None))
        first = containers[0]
        # The container of a job has the limit, and the job may be the first.
        alike = (use for use in containers if use == first or (use.job and use.job == first.job))
        limits = (self._limits.find((use.container_id, use.user), gpu) for use in alike if use.person == first.person)
        return next((limit for limit in limits if limit[0] is not None), (None, None))

    def _find_names(self, host: Host, containers: Sequence[ContainerUse]) -> None:
        # Imported here, because they take a twentieth of the time of a list in which nobody has a GPU.
        from amd_gpu_tracker.leases.container_names import find_container_names, find_pod_titles
        from amdgpu_discovery.usage.people import read_user_names

        self._names = find_container_names(containers)
        self._pod_titles = find_pod_titles(containers)
        self._people = read_user_names(host)

    def _find_processes(self, host: Host) -> dict[int, tuple[GpuProcess, ...]]:
        """Return who computes on GPUs, or all who use them if one of them is in use by none that KFD lists."""
        if not any(use.is_computing or use.is_used for use in self._uses.values()):
            return {gpu.number: () for gpu in self._gpus}
        is_explained = all(use.is_computing or not use.is_used for use in self._uses.values())
        return find_gpu_processes(host, self._gpus, only_computing=is_explained)

    def _find_leaked(self, state: State, now: float) -> frozenset[str]:
        unheld = {
            gpu.key: self._uses[gpu.number].is_only_memory and not (self._processes[gpu.number] or gpu.is_apu)
            for gpu in self._gpus
        }
        if not (any(unheld.values()) or exists(f"{State(state.host).run_directory}/{UNHELD_FILE}")):
            return frozenset()
        # Imported here, because on most hosts no memory is left.
        from amd_gpu_tracker.leases.unheld import find_leaked

        return find_leaked(state.host, unheld, now=now, sees_all=sees_all_processes(state.host))

    def _state_of_lost(self, gpu: LostGpu) -> GpuState:
        person, what = self._holder(gpu, ())
        return GpuState(**{**gpu.as_dict(), "tracked_number": gpu.number}, state=LOST, person=person, what=what)

    def _name_of(self, person: int) -> str:
        if person in self._people or not self._is_this_machine:
            return self._people.get(person, str(person))
        from amdgpu_discovery.usage.people import name_of_person

        return printable(name_of_person(person))

    def _holder(self, tracked: GpuUse, processes: tuple[GpuProcess, ...]) -> tuple[str, str]:
        """Return who has a GPU, and the container, job or program."""
        person = processes[0].person if processes else ""
        if tracked.containers:
            use = tracked.containers[0]
            owner = person if use.person is None else self._name_of(use.person)
            owner = self._pod_titles.get(use.container_id) or owner
            # The job's name in the queue, also if the job goes on in a detached container.
            return owner, printable(use.job or self._names.get(use.container_id) or cut_id(use.container_id))
        if pod := self._pods.get(tracked.key):
            return pod.title, pod.container
        return person, printable(processes[0].program) if processes else ""


def _read_withheld(state: State) -> dict[str, dict[str, Drain]]:
    """Return the notes about GPUs that are not given out, by key and by `Drain.state`."""
    found: dict[str, dict[str, Drain]] = {}
    if state.has_drains:
        # Imported here, because most hosts have none.
        from amd_gpu_tracker.book.drains import read_drains

        for each in read_drains(state.host):
            found.setdefault(each.key, {})[each.state] = each
    return found


def _untracked(gpu: Gpu) -> GpuUse:
    return GpuUse(
        number=gpu.number, uuid=gpu.uuid, pci_address=str(gpu.pci_address), key=gpu.key, accessibility="", containers=()
    )
