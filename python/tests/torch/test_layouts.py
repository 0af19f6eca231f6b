"""Tensors of any layout: right values, and nothing outside a view is written."""

from __future__ import annotations

import runpy

import pytest
import torch
import torch.distributed as dist

from ranks import check


def whole() -> torch.Tensor:
    return torch.full((6, 8), -1.0)


VIEWS = {
    "transposed": lambda base: base.t(),
    "columns": lambda base: base[:, 2:5],
    "every second": lambda base: base[::2, 1::2],
    "offset": lambda base: base.view(-1)[3:20],
    "one column": lambda base: base[:, 3],
    "scalar": lambda base: base[2, 2],
    "empty": lambda base: base[:0],
}


@pytest.mark.parametrize("async_op", (False, True))
def test_views(async_op):
    def body(rank, size):
        for view_of in VIEWS.values():
            base = whole()
            view = view_of(base)
            view.fill_(1.0 + rank)
            finish(dist.all_reduce(view, async_op=async_op))
            only_the_view(base, view_of, 3.0)
            base = whole()
            view = view_of(base)
            view.fill_(5.0 + rank)
            finish(dist.broadcast(view, 1, async_op=async_op))
            only_the_view(base, view_of, 6.0)
            base = whole()
            outputs = [torch.empty_like(view), view_of(base)]
            finish(dist.all_gather(outputs, torch.full_like(view, 1.0 * rank), async_op=async_op))
            assert (outputs[0] == 0).all()
            only_the_view(base, view_of, 1.0)
            base = whole()
            inputs = [view_of(torch.full((6, 8), 1.0 * each)) for each in range(size)]
            finish(dist.reduce_scatter(view_of(base), inputs, async_op=async_op))
            only_the_view(base, view_of, 2.0 * rank)
            base = whole()
            finish(dist.scatter(view_of(base), inputs if rank == 0 else None, 0, async_op=async_op))
            only_the_view(base, view_of, 1.0 * rank)

    check(2, body)


@pytest.mark.parametrize("async_op", (False, True))
def test_views_in_the_other_collectives(async_op):
    def body(rank, size):
        for view_of in VIEWS.values():
            base = whole()
            view = view_of(base)
            view.fill_(1.0 + rank)
            finish(dist.reduce(view, 1, async_op=async_op))
            only_the_view(base, view_of, 3.0 if rank == 1 else 1.0)
            base = whole()
            finish(dist.gather(torch.full_like(view, 1.0 + rank), [torch.empty_like(view), view_of(base)] if rank == 0 else None, 0,
                               async_op=async_op))
            only_the_view(base, view_of, 2.0 if rank == 0 else -1.0)
            base = whole()
            inputs = [view_of(torch.full((6, 8), 10.0 * rank + each)) for each in range(size)]
            finish(dist.all_to_all([torch.empty_like(view), view_of(base)], inputs, async_op=async_op))
            only_the_view(base, view_of, 10.0 + rank)
            base = whole()
            view_of(base).fill_(1.0 + rank)
            with dist._coalescing_manager(async_ops=True) as both:
                dist.all_reduce(view_of(base))
                dist.all_reduce(torch.ones(3))
            both.wait()
            only_the_view(base, view_of, 3.0)

    check(2, body)


@pytest.mark.parametrize("async_op", (False, True))
def test_views_of_a_tensor_for_all_ranks(async_op):
    def body(rank, size):
        for name in ("columns", "every second"):
            view_of = VIEWS[name]
            shape = view_of(torch.cat([whole()] * size)).shape
            rows = torch.arange(1.0 * shape[0])[:, None].expand(shape)
            base = torch.cat([whole()] * size)
            finish(dist.all_gather_into_tensor(view_of(base), view_of(torch.full((6, 8), 1.0 * rank)), async_op=async_op))
            expected = torch.cat([whole()] * size)
            view_of(expected).copy_(torch.arange(1.0 * size).repeat_interleave(shape[0] // size)[:, None].expand(shape))
            assert torch.equal(base, expected), name
            source = torch.cat([whole()] * size)
            view_of(source).copy_(rows + rank)
            base = whole()
            finish(dist.reduce_scatter_tensor(view_of(base), view_of(source), async_op=async_op))
            expected = whole()
            view_of(expected).copy_(sum(rows + each for each in range(size)).chunk(size)[rank])
            assert torch.equal(base, expected), name
            base = torch.cat([whole()] * size)
            finish(dist.all_to_all_single(view_of(base), view_of(source), async_op=async_op))
            expected = torch.cat([whole()] * size)
            view_of(expected).copy_(torch.cat([(rows + each).chunk(size)[rank] for each in range(size)]))
            assert torch.equal(base, expected), name

    check(2, body)


def finish(work) -> None:
    if work is not None:
        work.wait()


def only_the_view(base, view_of, value: float) -> None:
    expected = whole()
    view_of(expected).fill_(value)
    assert torch.equal(base, expected), (base, expected)


def test_messages_of_views():
    def body(rank, size):
        for view_of in VIEWS.values():
            base = whole()
            if rank == 0:
                view_of(base).fill_(4.0)
                dist.send(view_of(base), 1)
            else:
                dist.recv(view_of(base), 0)
                only_the_view(base, view_of, 4.0)

    check(2, body)


def test_elements_that_share_memory_are_refused():
    def body(rank, size):
        with pytest.raises(ValueError, match="share memory"):
            dist.all_reduce(torch.ones(1).expand(4))
        output = [torch.empty(4) for _ in range(size)]
        dist.all_gather(output, torch.full((1,), 1.0 * rank).expand(4))  # to read them is fine
        assert all((each == number).all() for number, each in enumerate(output))

    check(2, body)


def test_what_is_read_and_written_may_not_overlap_otherwise_than_in_place():
    def body(rank, size):
        flat = torch.arange(8.0)
        calls = (lambda: dist.all_gather_into_tensor(flat, flat[1:5]),
                 lambda: dist.reduce_scatter_tensor(flat[1:5], flat),
                 lambda: dist.all_to_all_single(flat[:6], flat[2:]))
        for call in calls:
            with pytest.raises(ValueError, match="overlap"):
                call()
        assert torch.equal(flat, torch.arange(8.0))
        dist.all_reduce(flat)  # nothing was sent, so the group goes on
        assert torch.equal(flat, 2 * torch.arange(8.0))

    check(2, body)


def test_the_same_output_twice_and_in_place():
    def body(rank, size):
        flat = torch.full((2, 3), -1.0)
        flat[rank] = rank
        dist.all_gather(list(flat.unbind()), flat[rank])
        assert torch.equal(flat, torch.tensor([[0.0] * 3, [1.0] * 3]))
        flat = torch.arange(6.0) + rank
        dist.reduce_scatter_tensor(flat[3 * rank:3 * rank + 3], flat)
        assert torch.equal(flat[3 * rank:3 * rank + 3], 2 * torch.arange(3.0) + 6 * rank + 1)

    check(2, body)


def test_conjugated_and_negated_views():
    def body(rank, size):
        outputs = [torch.empty(2, dtype=torch.complex64) for _ in range(size)]
        dist.gather(torch.tensor([1 + 2j, 3 - 1j]).conj(), outputs if rank == 0 else None, 0)
        if rank == 0:
            assert all(torch.equal(each, torch.tensor([1 - 2j, 3 + 1j])) for each in outputs)
        outputs = [torch.empty(2) for _ in range(size)]
        dist.all_gather(outputs, torch.tensor([1 + 2j, 3 - 1j]).conj().imag)
        assert all(torch.equal(each, torch.tensor([-2.0, 1.0])) for each in outputs)

    check(2, body)


def test_parameters_that_require_gradients():
    def body(rank, size):
        parameter = torch.nn.Parameter(torch.full((2, 3), 1.0 * rank))
        dist.broadcast(parameter, 1)
        assert (parameter == 1).all() and parameter.requires_grad
        parameter = torch.nn.Parameter(torch.full((2, 3), 1.0 * rank).t())
        dist.all_reduce(parameter)
        assert (parameter == 1).all() and parameter.requires_grad and parameter.grad_fn is None

    check(2, body)


class Wrapper(torch.Tensor):
    """Looks like a tensor that it holds, and has no memory itself, as quantized types do."""

    @staticmethod
    def __new__(cls, held: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(function)


def test_a_program_whose_tensors_are_made_elsewhere_by_default():
    def body(rank, size):
        torch.set_default_device("meta")
        view = torch.ones(4, 2, device="cpu")[:, 0]
        dist.all_reduce(view)
        assert (view == size).all()
        outputs = [torch.zeros(3, device="cpu") for _ in range(size)]
        dist.all_gather(outputs, torch.full((3,), float(rank), device="cpu"))
        assert all((output == number).all() for number, output in enumerate(outputs))
        place = torch.tensor([[rank]], device="cpu")
        sparse = torch.sparse_coo_tensor(place, torch.ones(1, device="cpu"), (size,), device="cpu")
        dist.all_reduce(sparse)
        assert (sparse.to_dense() == 1).all()
        dist.barrier()

    check(2, body)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of a module that runs again
@pytest.mark.parametrize("version, kinds", (("13.0", ["cuda"]), (None, [])))
def test_gpus_are_those_of_cuda(monkeypatch, version, kinds):
    """Torch for ROCm calls its own "cuda", too, and has no such version."""
    monkeypatch.setattr(torch.version, "cuda", version)
    assert runpy.run_module("horing.torch.devices")["KINDS"] == kinds


def test_tensors_without_memory_are_refused():
    def body(rank, size):
        wrapper = Wrapper(torch.ones(4))
        for call in (dist.all_reduce, lambda each: dist.broadcast(each, 0), lambda each: dist.all_gather_into_tensor(torch.ones(8), each)):
            with pytest.raises(TypeError, match="Wrapper has none: pass the tensors that it wraps"):
                call(wrapper)
        dist.all_reduce(torch.ones(4))  # the group goes on

    check(2, body)
