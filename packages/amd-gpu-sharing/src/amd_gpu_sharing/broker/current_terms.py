"""The administrator's terms: read again before each request and round, and passed on to the parts that follow them."""

from __future__ import annotations

from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.requests import people
from amd_gpu_sharing.broker.requests.demand import require_within
from amdgpu_discovery.errors import ToolkitError


class CurrentTerms:
    """`last` are the terms as they were read last."""

    def __init__(self, find_terms: people.FindTerms, parts: BrokerParts) -> None:
        self._find_terms = find_terms
        self._parts = parts
        self.last = people.Terms()

    def read(self, *, strict: bool = False) -> people.Terms:
        """Return the terms; if they cannot be read, those of before, or ToolkitError if `strict`."""
        before = self.last
        try:
            self.last = self._find_terms(self._parts.book.state.host)
        except ToolkitError:
            if strict:
                raise
        self._pass_on()
        if _about_people(self.last) != _about_people(before):
            self._update_permissions()
        return self.last

    def _pass_on(self) -> None:
        terms, parts = self.last, self._parts
        parts.node_users.is_reserved = terms.is_reserved
        parts.names.are_private = terms.has_private_names
        parts.leftovers.rules, parts.leftovers.cleans = terms.rules, terms.cleans

    def _update_permissions(self) -> None:
        """End the wait of users who may no longer reserve GPUs, and update the limits of all others."""
        queue = self._parts.queue
        for place, client in queue.connected():
            try:
                permission = people.require_permission(self.last, client.peer)
                if client.peer.uid and not place.demand.is_spare:
                    require_within(permission, place.demand.count)
                    place.demand = place.demand.allowed(permission)
            except ToolkitError as error:
                queue.refuse(place, error)


def _about_people(terms: people.Terms) -> tuple[object, ...]:
    return terms.permissions, terms.expiries, terms.expired
