"""What torch's profiler shows of operations."""

from __future__ import annotations

import json
import os
import time

import pytest
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, record_function

import ranks


def _trace(body, folder, rank) -> list[dict]:
    """The profiler's ranges of the backend, and those named "mark", while body() runs; begin and duration in milliseconds."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        body()
    path = os.path.join(folder, f"trace{rank}")
    profiler.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    found = [{"name": event["name"], "ms": event["dur"] / 1000, "begin": event["ts"] / 1000, **event["args"]} for event in events
             if event["name"].startswith(("horing:", "mark"))]
    return sorted(found, key=lambda each: each["begin"])


def _names(events) -> list[str]:
    return [each["name"] for each in events]


def _only(events, name: str) -> dict:
    found, = (each for each in events if each["name"] == name)
    return found


def _shown(events, name: str) -> tuple:
    found = _only(events, f"horing:{name}")
    return found.get("Input Dims", []), found.get("Input type", [])


def test_calls_are_shown_with_sizes_and_types(tmp_path):
    def body(rank, size):
        half, whole = torch.ones(3, 4, dtype=torch.bfloat16), torch.zeros(size * 3, 4, dtype=torch.bfloat16)
        grid = torch.ones(6, 4)

        def calls():
            dist.all_reduce(torch.ones(5))
            dist.all_gather_into_tensor(whole, half)
            dist.reduce(grid.t(), 0)
            dist.all_to_all([torch.empty(2), torch.empty(2)], [torch.ones(2), torch.ones(2)])
            dist.all_to_all_single(torch.empty(4, 2), torch.ones(4, 2), [2, 2], [2, 2])
            dist.all_reduce(torch.eye(3).to_sparse())
            dist.barrier()

        events = _trace(calls, tmp_path, rank)
        assert _names(events) == [f"horing:{name}" for name in (
            "all_reduce", "all_gather_single", "reduce", "all_to_all", "all_to_all_single", "all_reduce", "barrier")]
        assert [each["Input Dims"] for each in events if each["name"] == "horing:all_reduce"] == [[[5]], [[3, 3]]]
        assert _shown(events, "all_gather_single") == ([[3, 4], [size * 3, 4]], ["c10::BFloat16"] * 2)
        assert _shown(events, "reduce") == ([[4, 6]], ["float"])  # and nothing of its copy
        assert _shown(events, "all_to_all") == ([[2]] * 4, ["float"] * 4)
        assert _shown(events, "all_to_all_single") == ([[4, 2]] * 2, ["float"] * 2)
        assert _shown(events, "barrier") == ([], [])

    ranks.check(2, body)


@pytest.mark.parametrize("is_async", (False, True))
def test_the_time_is_that_of_the_call(tmp_path, is_async):
    def body(rank, size):
        def calls():
            dist.barrier()
            if rank == 1:
                time.sleep(1)
            with record_function("mark"):
                work = dist.all_reduce(torch.ones(3, 4).t(), async_op=is_async)
            if is_async:
                work.wait()

        dist.all_reduce(torch.ones(1))
        events = _trace(calls, tmp_path, rank)
        assert _names(events) == ["horing:barrier", "mark", "horing:all_reduce"]
        assert _shown(events, "all_reduce") == ([[4, 3]], ["float"])
        shown, mark = _only(events, "horing:all_reduce"), _only(events, "mark")
        assert mark["begin"] <= shown["begin"] and shown["begin"] + shown["ms"] <= mark["begin"] + mark["ms"] + 0.01
        waits_in_call = not is_async and hasattr(dist.AllreduceOptions(), "asyncOp")  # older torch waits for the handle
        assert rank == 1 or not waits_in_call or shown["ms"] > mark["ms"] / 2

    ranks.check(2, body)


def test_messages_are_shown_also_those_to_oneself(tmp_path):
    def body(rank, size):
        def calls():
            dist.send(torch.ones(7), 1, tag=3) if rank == 0 else dist.recv(torch.empty(7), 0, tag=3)
            received = dist.irecv(torch.empty(2, 2), rank)
            dist.isend(torch.ones(2, 2), rank).wait()
            received.wait()

        events = _trace(calls, tmp_path, rank)
        assert _names(events) == ["horing:send" if rank == 0 else "horing:recv", "horing:recv", "horing:send"]
        assert [each["Input Dims"] for each in events] == [[[7]], [[2, 2]], [[2, 2]]]

    ranks.check(2, body)


def test_an_operation_that_fails_ends_its_range(tmp_path):
    def body(rank, size):
        def calls():
            with pytest.raises(dist.DistBackendError), record_function("mark"):
                if rank == 0:
                    dist.recv(torch.empty(3), 1)
                else:
                    dist.all_reduce(torch.ones(1))
            time.sleep(0.4)

        events = _trace(calls, tmp_path, rank)
        assert _only(events, f"horing:{'all_reduce' if rank else 'recv'}")["ms"] <= _only(events, "mark")["ms"]

    ranks.check(2, body, group_timeout=2)


def test_buckets_of_ddp_are_shown(tmp_path):
    def body(rank, size):
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
        for _ in range(2):  # buckets are arranged anew after the first
            model(torch.ones(2, 8)).sum().backward()
        events = _trace(lambda: model(torch.ones(2, 8)).sum().backward(), tmp_path, rank)
        assert _names(events) == ["horing:all_reduce"]
        assert _shown(events, "all_reduce") == ([[36]], ["float"])

    ranks.check(2, body)


def test_operations_may_outlast_the_profiler(tmp_path):
    def body(rank, size):
        for _ in range(20):
            works = []
            _trace(lambda works=works: works.extend(dist.all_reduce(torch.ones(9), async_op=True) for _ in range(50)), tmp_path, rank)
            dist.barrier()
            for work in works:
                work.wait()

    ranks.check(2, body)
