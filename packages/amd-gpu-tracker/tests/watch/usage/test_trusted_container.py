"""Cgroups and leases that users have named after containers of root."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.leases.containers import ContainerOfProcess, trusted_container, uses_by_owner
from amd_gpu_tracker.leases.status import ContainerUse

ROOTS = ContainerOfProcess(container_id="web", engine="docker")
USERS = ContainerOfProcess(container_id="web", engine="podman", user=1000)


def lease(user: int | None) -> ContainerUse:
    return ContainerUse(container_id="web", root="", bundle="", since=1.0, ways=(), user=user)


def leases(*users: int | None) -> dict[tuple[str, int | None], ContainerUse]:
    return uses_by_owner([lease(user) for user in users])


def test_leases_with_the_same_id_are_distinguished_by_their_users():
    assert uses_by_owner([lease(1000)], [lease(None)]) == {("web", 1000): lease(1000), ("web", None): lease(None)}


@pytest.mark.parametrize("users", [(), (None,), (1000,), (1001, None)])
def test_a_cgroup_below_the_service_of_a_user_counts_for_that_user(users):
    assert trusted_container(USERS, leases(*users), me=None) == USERS


@pytest.mark.parametrize("engine", ["slurm", "kubernetes", "lxc", "nspawn", "cri-o", ""])
def test_a_user_makes_no_cgroups_of_services_of_root(engine):
    assert trusted_container(USERS.replace(engine=engine), leases(None, 1001), me=None) is None


def test_a_lease_of_the_user_is_known_by_any_name_and_has_no_other_engine():
    assert trusted_container(USERS.replace(engine="lxc"), leases(1000), me=None) == USERS.replace(engine="")


def test_a_process_of_a_service_outside_of_the_users_counts_for_the_lease_of_its_user():
    assert trusted_container(ROOTS, leases(1001, 1000), me=None) == ROOTS.replace(user=1000)
    assert trusted_container(ROOTS, leases(1000, None), me=None) == ROOTS


def test_users_see_their_own_containers_as_root_sees_those_of_root():
    assert trusted_container(USERS, leases(None), me=1000) == USERS.replace(user=None)


def test_the_login_of_root_is_root():
    assert trusted_container(USERS.replace(user=0), {}, me=None) == USERS.replace(user=None)
