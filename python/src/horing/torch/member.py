"""Who a rank is in a group. Apart from the group, so that what describes operations does not keep it."""

from __future__ import annotations

from .operation import Operation


class Member:
    """Rank `rank` of the ranks of a group, whose numbers in the whole job are `global_ranks`."""

    def __init__(self, rank: int, global_ranks: list[int]):
        self.rank, self.global_ranks = rank, global_ranks
        self.group_name = self.group_description = ""

    def describe(self, operation: Operation) -> str:
        """Begins the text of an error."""
        group = self.group_description or self.group_name or "a group that is being made"
        member = f"rank {self.rank} of {len(self.global_ranks)}"
        if self.global_ranks != list(range(len(self.global_ranks))):
            member += f" (its global ranks are {self.global_ranks})"
        return f"{operation.name} #{operation.sequence} of {group}, {member}"

    def global_rank(self, rank: int) -> int:
        return self.global_ranks[rank]
