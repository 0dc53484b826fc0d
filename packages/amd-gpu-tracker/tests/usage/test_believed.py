"""Cgroups and leases that users have named after containers of root."""

from __future__ import annotations

from amd_gpu_tracker.show.status import ContainerUse
from amd_gpu_tracker.usage.believed import believed, first_of_each_id
from amd_gpu_tracker.usage.containers import ContainerOfProcess

ROOTS = ContainerOfProcess(container_id="web", engine="docker")
USERS = ContainerOfProcess(container_id="web", engine="podman", user=1000)


def lease(user: int | None) -> ContainerUse:
    return ContainerUse(container_id="web", root="", bundle="", since=1.0, ways=(), user=user)


def test_a_lease_of_root_comes_before_that_of_a_user_with_the_same_id():
    assert first_of_each_id([lease(1000), lease(None)], [lease(1001)]) == {"web": lease(None)}
    assert first_of_each_id([lease(None)], [lease(1000)]) == {"web": lease(None)}


def test_a_cgroup_of_a_user_does_not_count_for_a_lease_of_root_or_of_another_user():
    assert believed({7: USERS}, {"web": lease(None)}, me=None) == {7: None}
    assert believed({7: USERS}, {"web": lease(1001)}, me=None) == {7: None}


def test_a_cgroup_of_a_user_counts_for_a_lease_of_that_user():
    assert believed({7: USERS}, {"web": lease(1000)}, me=None) == {7: USERS}


def test_a_cgroup_of_a_user_does_not_count_for_a_container_of_root_that_is_not_tracked():
    assert believed({6: USERS, 7: ROOTS}, {}, me=None) == {6: None, 7: ROOTS}


def test_of_two_users_with_the_same_id_one_is_believed():
    other = USERS.replace(user=1001)

    assert believed({6: other, 7: USERS}, {}, me=None) == {6: None, 7: USERS}


def test_a_process_of_a_service_outside_of_the_users_counts_for_the_lease_of_its_user():
    assert believed({7: ROOTS}, {"web": lease(1000)}, me=None) == {7: ROOTS}


def test_users_see_their_own_containers_as_root_sees_those_of_root():
    assert believed({7: USERS}, {"web": lease(None)}, me=1000) == {7: USERS.replace(user=None)}


def test_the_login_of_root_is_root():
    login = USERS.replace(user=0)

    assert believed({7: login, 8: None}, {}, me=None) == {7: login.replace(user=None), 8: None}
