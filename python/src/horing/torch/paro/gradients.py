"""Gradients on their way: taken from the backward pass bucket by bucket, synchronized when they are first read, and spent by
the next forward pass."""

from __future__ import annotations

import contextlib
import enum
import weakref
from collections.abc import Iterator

import torch
import torch.distributed as dist

from .client import Client
from .gathering import Gathering, in_backward
from .layout import Bucket, Entry, Unit
from .memory import Lease
from .shards import Shard, SpentGradient, shape_of, shard_of


class State(enum.Enum):
    NONE = "no gradients"
    ACCUMULATING = "backward passes are over, and nothing was read"
    READY = "synchronized, and to be used by optimizers"
    SPENT = "the next forward pass has begun, and some were not cleared"


def _arrival(gradients: Gradients, entry: Entry):
    """A hook of the leaf that the entry has. The garbage collector does not see what hooks of a leaf refer to, so this keeps nothing."""
    owner, arrived = weakref.ref(gradients), weakref.ref(entry)

    def arrive(_) -> None:
        if (of := owner()) is not None and (which := arrived()) is not None:
            of._arrive(which)

    return arrive


class Gradients:
    """`group` is for agreements between ranks; `replicas` ranks keep each element of the optimizer's state."""

    def __init__(self, client: Client, buckets: list[Bucket], group: dist.ProcessGroup, replicas: int):
        self._client, self._group, self._replicas = client, group, replicas
        self._buckets = [bucket for bucket in buckets if bucket.trainable]
        self._entries = [entry for bucket in self._buckets for entry in bucket.entries]
        self.state = State.NONE
        self._is_open = False  # a backward pass is running
        self._reduced: set[Bucket] = set()  # in this pass
        self._used = {entry: False for entry in self._entries}  # since the last step, on this rank
        self._grads: dict[Entry, torch.Tensor | None] = dict.fromkeys(self._entries)
        self._cleared: dict[Entry, int] = {}  # that are zeros, while they have this version
        self.gathering: Gathering  # set by the object that makes both
        for entry in self._entries:
            entry.leaf.register_post_accumulate_grad_hook(_arrival(self, entry))
        self.versions = {entry: entry.shard._version for entry in self._entries}

    # ---- The backward pass ----

    def begin_pass(self) -> None:
        """At the first gradient, or use of a parameter, of a backward pass."""
        if self._is_open or not in_backward():
            return
        if self.state is State.READY:
            raise RuntimeError("a backward pass after gradients were read: optimizer.step(), or zero_grad(), and a forward pass come first")
        for entry, grad in self._grads.items():
            if self.state is State.SPENT and grad is not None:
                raise RuntimeError(f"the gradient of parameter {entry.name} from the last optimizer step was not cleared: call zero_grad() of the "
                                   "optimizer, or of the model, before backward()")
        self._check_unchanged(self._entries)
        self._is_open = True
        torch.autograd.Variable._execution_engine.queue_callback(self._end_pass)

    def _arrive(self, entry: Entry) -> None:
        """The leaf keeps the gradient until its bucket is reduced: in this pass, or, if it was already, in the next or at the end."""
        self.begin_pass()
        self._client.memory.follow()  # the stream on which it was computed
        if entry.leaf.grad.layout is not torch.strided:
            raise TypeError(f"parameter {entry.name} has a sparse gradient: use sparse=False")
        self._used[entry] = True

    def end_unit(self, unit: Unit) -> None:
        """Its backward pass is over. Called at the same point on every rank, also if the rank did not use all of its parameters."""
        self.begin_pass()
        for bucket in unit.buckets:
            if bucket.trainable and bucket not in self._reduced:
                self._reduce(bucket)
        if unit.depth == 0:
            self.gathering.release(unit)

    def _reduce(self, bucket: Bucket) -> None:
        self._client.memory.lead()
        grads = [entry.leaf.grad if entry.leaf.grad is None else entry.leaf.grad.to(bucket.grad_dtype).contiguous() for entry in bucket.entries]
        self._client.reduce_grads(bucket.number, grads)
        for entry in bucket.entries:
            entry.leaf.grad = None
        self.gathering.note(2 * bucket.number + 1)
        self._reduced.add(bucket)

    def _reduce_rest(self) -> None:
        for bucket in reversed(self._buckets):
            if bucket not in self._reduced:
                self._reduce(bucket)
        self._reduced.clear()

    def _end_pass(self) -> None:
        self._check_unchanged(self._entries)
        self._reduce_rest()
        self._is_open, self.state = False, State.ACCUMULATING
        self.gathering.end_pass()

    def _give_up_pass(self) -> None:
        """A backward pass has failed: its step ends without an update."""
        self._reduce_rest()
        self._is_open = False
        self.gathering.end_pass()
        self._synchronize(gives_up=True)

    # ---- Between backward passes and the optimizer ----

    def read_grad(self, entry: Entry) -> torch.Tensor | None:
        if not entry.trainable:
            return None
        self._settle()
        return self._grads[entry]

    def write_grad(self, entry: Entry, value: torch.Tensor | None) -> None:
        if not entry.trainable:
            return
        self._settle()
        if value is not None and self.state is not State.READY:
            raise RuntimeError(f"the gradient of parameter {entry.name} was set before there was one, and would be lost: set it between backward() and "
                               "the optimizer's step()")
        if value is not None and value.shape != entry.shard.shape:
            raise RuntimeError(f"the gradient of parameter {entry.name} has shape {tuple(value.shape)}: expected that of its shard, "
                               f"{tuple(entry.shard.shape)}")
        self._grads[entry] = value if value is None else shard_of(value, entry, self)
        if self.state is State.SPENT and all(grad is None for grad in self._grads.values()):
            self.state = State.NONE

    def note_cleared(self, entry: Entry, tensor: torch.Tensor) -> None:
        if self._grads[entry] is tensor:
            self._cleared[entry] = tensor._version

    def _settle(self) -> None:
        failed = self._end_passes()
        if failed is not None:
            raise RuntimeError(f"a backward pass failed on rank {failed}, so the gradients of this step are not complete, and no rank has them: call "
                               "zero_grad(), and begin the next step")

    def _end_passes(self) -> int | None:
        """Another rank, whose backward pass failed."""
        if self._is_open and in_backward():
            raise RuntimeError("gradients of model.parameters() are read within a backward pass: they are there when it is over")
        if self._is_open:
            self._give_up_pass()
        elif self.state is State.ACCUMULATING:
            return self._synchronize()
        return None

    def _synchronize(self, gives_up: bool = False) -> int | None:
        """`gives_up`: this rank's backward pass failed. Then the step ends without an update on all ranks, and they get this rank."""
        self.gathering.release_all()
        used, some_are_left, failed = self._agree(gives_up)
        if some_are_left:
            self._reduce_rest()
        self._client.sync_grads()
        for bucket in self._buckets:
            shard = self._client.shard(bucket.number)
            lease = self._client.lease(shard.grads, shard.count * bucket.grad_dtype.itemsize) if shard.count else None
            for entry in bucket.entries:
                first = max(entry.offset, shard.first)
                count = max(0, min(entry.offset + entry.count, shard.first + shard.count) - first)
                self._grads[entry] = self._piece(lease, entry, first - shard.first, count) if entry in used else None
        self._used = {entry: False for entry in self._entries}
        self.state = State.READY
        if failed is not None:
            self.spend()
            self._grads = {entry: self._spent(entry) for entry in self._entries}
            self.state = State.SPENT
        return failed

    def _piece(self, lease: Lease | None, entry: Entry, first: int, count: int) -> torch.Tensor:
        shape = entry.shard.shape
        values = lease.tensor(entry.grad_dtype, first, shape) if count else torch.empty(shape, dtype=entry.grad_dtype, device=self._client.memory.device)
        return shard_of(values.to(entry.shard.dtype), entry, self)

    def _agree(self, gives_up: bool) -> tuple[set[Entry], bool, int | None]:
        """The parameters that had a gradient on any rank, whether one has gradients that came after their bucket was reduced, and a
        rank whose backward pass failed. Raises if the ranks' calls differ, which would have mixed up data."""
        mine = self.gathering.history
        is_left = any(entry.leaf.grad is not None for entry in self._entries)
        failed = dist.get_rank() if gives_up else -1
        facts = torch.tensor([mine, -mine, int(is_left), failed, *(int(self._used[entry]) for entry in self._entries)], device="cpu")
        self._group.allreduce(facts, op=dist.ReduceOp.MAX).wait()
        if facts[0] != -facts[1]:
            raise RuntimeError("ranks used parameters in different orders since the last step, so their data was mixed up: all ranks must run the "
                               "same modules in the same order, in forward and backward passes")
        _, _, some_are_left, failed, *used = facts.tolist()
        return {entry for entry, is_used in zip(self._entries, used) if is_used}, bool(some_are_left), None if failed < 0 else failed

    def before_gather(self, buckets: list[Bucket]) -> None:
        """Ends the optimizer's turn. Only in it may shards be changed."""
        if self.state is State.READY:
            self.spend()
            return
        if self._is_open and not in_backward():
            self._give_up_pass()
        for bucket in buckets:
            if bucket.trainable:
                self._check_unchanged(bucket.entries)

    def _check_unchanged(self, entries: list[Entry]) -> None:
        with torch._C.DisableTorchFunctionSubclass():  # faster
            changed = next((entry for entry in entries if entry.shard._version != self.versions[entry]), None)
        if changed is not None:
            raise RuntimeError(f"the shard of parameter {changed.name} was changed outside of an optimizer step, which other ranks would not see: "
                               "change it between backward() and the next forward pass, after its grad was read, or use load_state_dict")

    def spend(self) -> None:
        self._client.sync_params()
        self.versions = {entry: entry.shard._version for entry in self._entries}
        self._grads = {entry: None if grad is None or self._cleared.get(entry) == grad._version else self._spent(entry) for entry, grad in self._grads.items()}
        self._cleared.clear()
        self.state = State.SPENT if any(grad is not None for grad in self._grads.values()) else State.NONE

    def _spent(self, entry: Entry) -> torch.Tensor:
        empty = torch.empty(shape_of(0, len(entry.shape)), dtype=entry.shard.dtype, device=self._client.memory.device)
        return shard_of(empty, entry, self, SpentGradient)

    def refuse_accumulated(self, call: str) -> None:
        if self._is_open or self.state is State.ACCUMULATING:
            raise RuntimeError(f"{call} would drop the gradients that were accumulated: call optimizer.step(), or zero_grad(), before it")

    def end_step(self) -> None:
        """Drops accumulated gradients; parameters can be set then."""
        self._end_passes()
        if self.state is State.READY:
            self.spend()
        self.gathering.release_all()

    @contextlib.contextmanager
    def update(self) -> Iterator[None]:
        """While it is entered, shards may be changed, which other ranks see then: an optimizer's turn without gradients. Collective."""
        self.end_step()
        self._reduce_rest()
        self._synchronize()
        yield
        self.spend()

    def rewrite(self, values: dict[Entry, torch.Tensor]) -> None:
        """Shards get other values. Collective."""
        with self.update(), torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for entry, value in values.items():
                entry.shard.copy_(value)

    # ---- Norms ----

    def norms(self, tensors: list[Shard], order: float) -> list[torch.Tensor]:
        """Of each, over all ranks. Collective."""
        if order == float("inf"):
            parts = [each.detach().double().abs().max() if each.numel() else torch.zeros((), dtype=torch.float64, device=each.device) for each in tensors]
            sums = torch.stack(parts)
            self._group.allreduce(sums, op=dist.ReduceOp.MAX).wait()
            return [value.to(each.dtype) for value, each in zip(sums, tensors)]
        powers = [each.detach().double().abs().pow(order).sum() if order else each.detach().count_nonzero().double() for each in tensors]
        sums = torch.stack(powers)
        self._group.allreduce(sums, op=dist.ReduceOp.SUM).wait()
        sums /= self._replicas
        return [value.to(each.dtype) for value, each in zip(sums.pow(1 / order) if order else sums, tensors)]

    def agree_on_largest(self, value: torch.Tensor) -> None:
        """All ranks get the largest of theirs. Collective."""
        self._group.allreduce([value], op=dist.ReduceOp.MAX).wait()

    def clip(self, largest: float, order: float) -> torch.Tensor:
        """Scales all gradients if their norm is larger; the norm before that."""
        grads = [grad for entry in self._entries if (grad := self.read_grad(entry)) is not None]
        if self.state is State.SPENT:
            raise RuntimeError("there are no gradients to clip: call it between backward() and the next forward pass")
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            norms = self.norms(grads, order) if grads else [torch.zeros((), device=self._client.memory.device)]
            norm = torch.linalg.vector_norm(torch.stack([each.double() for each in norms]), order)
            scale = torch.clamp(largest / (norm + 1e-6), max=1.0)
            for grad in grads:
                grad.mul_(scale.to(grad.dtype))
        return norm.to(grads[0].dtype) if grads else norm
