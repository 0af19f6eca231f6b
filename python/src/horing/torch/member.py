"""A rank's identity in a group. Separate from the group, so that descriptions of operations do not keep the group alive."""

from __future__ import annotations

import re

from .operation import Operation

_NO_DESCRIPTION = ("", "undefined")  # torch's own word for it


class Member:
    """Rank `rank` of the ranks of a group, whose numbers in the whole job are `global_ranks`."""

    def __init__(self, rank: int, global_ranks: list[int]):
        self.rank, self.global_ranks = rank, global_ranks
        self.group_name = self.group_description = ""

    def __str__(self) -> str:
        text = f"rank {self.rank} of {len(self.global_ranks)}"
        return text if self.global_ranks == list(range(len(self.global_ranks))) else f"{text} (its global ranks are {self.global_ranks})"

    def describe(self, operation: Operation, cause: str = "") -> str:
        """Begins the text of an error. A cause that has the library's number of the call, which is the same on all ranks and in their
        records, is told without this rank's own."""
        group = self.group_description
        if group in _NO_DESCRIPTION:
            group = f"group {self.group_name}" if self.group_name else "a group that is being made"
        number = "" if re.search(r"#\d", cause) else f" #{operation.sequence}"
        return f"{operation.name}{number} of {group}, {self}"

    def global_rank(self, rank: int) -> int:
        return self.global_ranks[rank]
