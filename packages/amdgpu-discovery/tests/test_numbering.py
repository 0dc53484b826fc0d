"""GPUs keep their numbers where this process may not use some, and while the driver rebuilds its list."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from amdgpu_discovery.discover import find_unnumbered_gpus
from amdgpu_discovery.errors import GpusHidden, ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import load_profile

NODES = "/sys/class/kfd/kfd/topology/nodes"


class OneByOneHost(Host):
    """A host that reads also many files through `read`, which a test overrides."""

    __slots__ = ()

    def read_each(self, paths):
        contents = []
        for path in paths:
            try:
                contents.append(self.read(path))
            except OSError as error:
                contents.append(error)
        return contents


class RefusingHost(OneByOneHost):
    """A host whose device cgroup hides some KFD nodes: they are listed, and reading them is refused."""

    __slots__ = ("hidden",)

    def __init__(self, host, hidden):
        super().__init__(host.root)
        self.hidden = hidden

    def read(self, path):
        if any(path.startswith(f"{NODES}/{node}/") for node in self.hidden):
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        return super().read(path)


def numbers(gpus):
    return [(gpu.number, str(gpu.pci_address), gpu.partition_rank, gpu.partition_total) for gpu in gpus]


@pytest.mark.parametrize("hidden", [(4,), (5,), (3, 4), (4, 5), (2, 4), (2, 3, 5)])
def test_gpus_keep_the_numbers_of_the_host_where_others_are_hidden(simulated, hidden):
    whole = simulated("mi210-4")

    shown = locate_gpus(RefusingHost(whole, hidden))

    assert shown == [gpu for gpu in locate_gpus(whole) if gpu.kfd_node not in hidden]
    assert {gpu.host_total for gpu in shown} == {4}


def test_a_gpu_without_kfd_is_not_taken_for_a_hidden_one_where_that_matters(simulated):
    """One node is hidden, and it may be that of 0000:26:00.0 or of 0000:03:00.0, which has none."""
    whole = simulated(load_profile("mi210-4").with_gpu(2, partitions=0))
    assert [str(gpu.pci_address) for gpu in locate_gpus(whole)] == ["0000:26:00.0", "0000:43:00.0", "0000:63:00.0"]
    (last,) = [gpu.kfd_node for gpu in locate_gpus(whole) if gpu.number == 2]
    (first,) = [gpu.kfd_node for gpu in locate_gpus(whole) if gpu.number == 0]

    with pytest.raises(ToolkitError) as failure:
        locate_gpus(RefusingHost(whole, [last]))

    assert str(failure.value) == (
        "GPUs cannot be numbered: 1 of them is hidden from this process by its device cgroup, and the amdgpu driver has"
        " 2 devices to which it may belong (run it where all GPUs may be opened)"
    )
    # Whichever of the two it is, one GPU comes before the others.
    assert [gpu.number for gpu in locate_gpus(RefusingHost(whole, [first]))] == [1, 2]


def test_siblings_of_a_partition_that_is_shown_are_not_taken_for_a_gpu_without_kfd(simulated):
    profile = load_profile("mi308x-8-cpx").with_gpu(1, partitions=0)
    whole = simulated(profile.replace(gpus=profile.gpus[:3]))
    everything = locate_gpus(whole)
    assert len(everything) == 8

    hidden = [gpu.kfd_node for gpu in everything if gpu.number not in (1, 6)]

    assert locate_gpus(RefusingHost(whole, hidden)) == [everything[1], everything[6]]


def test_where_every_gpu_is_hidden_that_is_reported(simulated):
    whole = simulated("mi210-4")

    with pytest.raises(GpusHidden) as failure:
        locate_gpus(RefusingHost(whole, [gpu.kfd_node for gpu in locate_gpus(whole)]))

    assert failure.value.message == "4 of 4 GPUs are hidden from this process by its device cgroup"


@pytest.mark.parametrize("profile", ["mi300x-8-cpx", "mi308x-8-cpx", "mi300a-4", "rx7900xtx-raphael"])
def test_partitions_keep_their_numbers_ranks_and_boards(simulated, profile):
    whole = simulated(profile)
    everything = locate_gpus(whole)
    jobs = [slice(0, 1), slice(1, 2), slice(8, 16), slice(9, 12), slice(0, 62, 3), slice(60, 63)]

    for expected in (everything[job] or everything[-1:] for job in jobs):
        hidden = [gpu.kfd_node for gpu in everything if gpu not in expected]
        assert locate_gpus(RefusingHost(whole, hidden)) == expected


def test_a_hidden_virtual_function_keeps_its_partitions_from_another_of_its_device(simulated):
    profile = load_profile("mi300x-8-cpx")
    functions = [gpu.replace(pci_address=f"0000:02:02.{n}") for n, gpu in enumerate(profile.gpus[:2], 1)]
    whole = simulated(profile.replace(gpus=tuple(functions)))
    everything = locate_gpus(whole)
    # Shown: the first function's own node, and two partitions of the second whose own node is hidden.
    expected = [everything[0], everything[10], everything[15]]

    hidden = [gpu.kfd_node for gpu in everything if gpu not in expected]

    assert numbers(locate_gpus(RefusingHost(whole, hidden))) == [
        (0, "0000:02:02.1", 0, 8),
        (10, "0000:02:02.2", 2, 8),
        (15, "0000:02:02.2", 7, 8),
    ]


def test_a_node_of_processors_between_those_of_gpus_is_no_hidden_gpu(simulated):
    """Nodes of processors are for all to read; a directory that cannot be read is a GPU's."""
    host = simulated("mi210-4")
    # Node 2 of another kernel: processors behind the first GPU.
    shutil.copytree(host.path(f"{NODES}/0"), host.path(f"{NODES}/6"))

    shown = locate_gpus(RefusingHost(host, [4]))

    assert numbers(shown)[0] == (1, "0000:26:00.0", 0, 1)


def test_gpus_cannot_be_numbered_while_a_board_changes_its_mode(simulated):
    whole = simulated("mi300x-8-cpx")
    everything = locate_gpus(whole)
    mode = whole.path("/sys/bus/pci/devices/0000:05:00.0/current_compute_partition")
    with open(mode, "w", encoding="ascii") as file:
        file.write("SPX\n")

    with pytest.raises(ToolkitError, match="GPUs cannot be numbered"):
        locate_gpus(RefusingHost(whole, [gpu.kfd_node for gpu in everything[:16]]))


def test_partitions_whose_parents_this_cgroup_hides_are_still_known_by_them(simulated):
    host = simulated("mi300x-8-cpx")
    everything = locate_gpus(host)
    # The first partition of a GPU is its PCI function itself.
    first = [gpu for gpu in everything if gpu.partition_rank == 0]

    hiding = RefusingHost(host, hidden=[gpu.kfd_node for gpu in first])

    seen = locate_gpus(hiding)
    assert len(seen) == len(everything) - len(first)
    addresses_of_the_rest = [gpu.pci_address for gpu in everything if gpu.partition_rank > 0]
    assert [gpu.pci_address for gpu in seen] == addresses_of_the_rest
    assert [gpu.pci_unique_id for gpu in seen] == [gpu.pci_unique_id for gpu in everything if gpu.partition_rank > 0]


def test_ids_of_boards_are_read_only_where_they_are_wanted(simulated):
    class NoIds(OneByOneHost):
        __slots__ = ()

        def read(self, path):
            assert not path.endswith("/unique_id")
            return super().read(path)

    host = simulated("mi300x-8")

    gpus = locate_gpus(NoIds(host.root), board_ids=False)

    assert gpus == [gpu.replace(pci_unique_id=0) for gpu in locate_gpus(host)]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EIO])
def test_a_node_that_cannot_be_read_for_another_reason_is_an_error_because_numbers_would_shift(simulated, number):
    class BrokenHost(OneByOneHost):
        __slots__ = ()

        def read(self, path):
            if path == f"{NODES}/4/properties":
                raise OSError(number, os.strerror(number), path)
            return super().read(path)

    with pytest.raises(ToolkitError) as failure:
        locate_gpus(BrokenHost(simulated("mi210-4").root))

    assert str(failure.value) == f"{NODES}/4/properties cannot be read: {os.strerror(number)}"


class RestlessHost(OneByOneHost):
    """A host whose topology is rebuilt a few times while somebody reads it."""

    __slots__ = ("generation", "gone", "rebuilds")

    def __init__(self, host, rebuilds, gone=errno.ENOENT):
        super().__init__(host.root)
        self.rebuilds = rebuilds
        self.gone = gone
        self.generation = 10

    def read(self, path):
        if path == "/sys/class/kfd/kfd/topology/generation_id":
            self.generation += self.rebuilds > 0
            self.rebuilds -= 1
            return b"%d\n" % self.generation
        # While it is rebuilt, half of the nodes are gone.
        if self.rebuilds > 0 and "/nodes/3/" in path:
            raise OSError(self.gone, os.strerror(self.gone), path)
        return super().read(path)


@pytest.mark.parametrize("gone", [errno.ENOENT, errno.ENODEV])
def test_a_topology_that_is_rebuilt_meanwhile_is_read_again(simulated, gone):
    host = RestlessHost(simulated("mi210-4"), rebuilds=5, gone=gone)

    assert len(locate_gpus(host)) == 4


def test_a_topology_that_never_holds_still_is_an_error(simulated):
    host = RestlessHost(simulated("mi210-4"), rebuilds=10**9)

    with pytest.raises(ToolkitError, match="the KFD topology changed 100 times while it was read"):
        locate_gpus(host)


def test_hidden_gpus_are_not_said_to_be_unknown_to_kfd(simulated):
    whole = simulated(load_profile("mi300x-8-cpx").with_gpu(7, partitions=0))
    everything = locate_gpus(whole)

    assert [str(gpu.pci_address) for gpu in find_unnumbered_gpus(whole)] == ["0000:e5:00.0"]
    # The last board may be one of the hidden ones for all that this process can know.
    assert find_unnumbered_gpus(RefusingHost(whole, [gpu.kfd_node for gpu in everything[8:]])) == []
