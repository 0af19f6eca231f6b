"""Making, asking and ending communicators; streams, groups, memory."""

import gc
import pickle
import threading
import time
import weakref

import numpy as np
import pytest

import horing


def test_one_rank_and_what_it_says():
    with horing.Communicator(horing.unique_id(), 1, 0, name="alone") as comm:
        assert (comm.rank, comm.size, comm.place_of(0), comm.block_of(0)) == (0, 1, horing.Place(0, 0), 0)
        assert "alone" in comm.describe()
        assert comm.error is None and comm.failed_rank is None
        assert comm.gpu is None or comm.gpu >= 0
        comm.all_reduce(np.zeros(10))
        assert comm.memory_bytes >= 0
        assert repr(comm) == "<horing.Communicator rank 0 of 1>"
    assert "closed" in repr(comm) and comm.handle is None


def test_arguments_of_the_constructor():
    with pytest.raises(ValueError, match="128"):
        horing.Communicator(b"short", 1, 0)
    with pytest.raises(horing.InvalidArgumentError):
        horing.Communicator(horing.unique_id(), 1, 1)
    with pytest.raises(horing.InvalidArgumentError):
        horing.Communicator(bytes(128), 1, 0)
    for size, rank in ((2**32 + 1, 0), (1, 2**32), (0, 0)):
        with pytest.raises(ValueError, match=str(size if rank == 0 else rank)):
            horing.Communicator(horing.unique_id(), size, rank)
    for seconds in (0, -1, 86401, 4294968, float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            horing.Communicator(horing.unique_id(), 1, 0, timeout=seconds)


def test_numbers_that_are_none_of_the_job():
    with horing.Communicator(horing.unique_id(), 1, 0) as comm:
        for kind, wrong in [
                (TypeError, lambda: comm.split("a")),
                (ValueError, lambda: comm.split(2**32)),
                (ValueError, lambda: comm.split(0, key=2**31)),
                (ValueError, lambda: comm.shrink([2**32])),
                (ValueError, lambda: comm.place_of(2**32)),
                (ValueError, lambda: comm.block_of(2**32)),
                (ValueError, lambda: horing.Communicator.create_all(2**32 + 1)),
                (ValueError, lambda: comm.set_timeout(50 * 86400))]:
            with pytest.raises(kind):
                wrong()
        comm.barrier()


def test_no_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "HORING_ROOT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(horing.InvalidUsageError, match="launcher"):
        horing.Communicator.from_environment()


def test_after_the_end(on_ranks):
    comm = horing.Communicator(horing.unique_id(), 1, 0)
    comm.close()
    comm.close()
    comm.abort()
    with pytest.raises(horing.InvalidUsageError, match="was closed"):
        comm.barrier()
    aborted = horing.Communicator(horing.unique_id(), 1, 0)
    aborted.abort()
    aborted.close()
    with pytest.raises(horing.InvalidUsageError, match="was aborted"):
        aborted.all_reduce(np.zeros(1))


@pytest.mark.parametrize("how", ["set_timeout", "constructor"])
def test_timeouts(how):
    id = horing.unique_id()
    options = {"timeout": 0.5} if how == "constructor" else {}
    made = {}
    other = threading.Thread(target=lambda: made.update(comm=horing.Communicator(id, 2, 1)))
    other.start()
    comm = horing.Communicator(id, 2, 0, **options)
    other.join()
    if how == "set_timeout":
        comm.set_timeout(0.5)
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match="rank 1") as caught:
        comm.barrier()
    assert 0.5 <= time.monotonic() - begin < 10 and caught.value.rank == 1
    comm.close()
    made["comm"].close()


def test_the_time_to_meet():
    begin = time.monotonic()
    with pytest.raises(horing.TimeoutError, match="1"):
        horing.Communicator(horing.unique_id(), 2, 0, init_timeout=0.5)
    assert 0.5 <= time.monotonic() - begin < 10


def test_defaults_of_the_process():
    horing.set_default("HORING_SLICE_BYTES", "not a number")
    try:
        with pytest.raises(horing.InvalidArgumentError, match="HORING_SLICE_BYTES"):
            horing.Communicator(horing.unique_id(), 1, 0)
    finally:
        horing.set_default("HORING_SLICE_BYTES", None)
    with pytest.raises(horing.InvalidArgumentError):
        horing.set_default("HORING_NO_SUCH", "1")
    horing.Communicator(horing.unique_id(), 1, 0, reproducible=True).close()


def test_garbage_is_collected():
    comm = horing.Communicator(horing.unique_id(), 1, 0)
    gone = weakref.ref(comm)
    del comm
    gc.collect()
    assert gone() is None


def test_nothing_can_be_pickled():
    with horing.Communicator(horing.unique_id(), 1, 0) as comm, horing.Stream() as stream:
        for each in (comm, stream, horing.mem_alloc(8)):
            with pytest.raises(TypeError, match="pickled"):
                pickle.dumps(each)


@pytest.mark.parametrize("kind", [horing.TimeoutError, horing.RemoteError, horing.SystemCallError, horing.InvalidUsageError])
def test_errors_can_be_pickled(kind):
    error = pickle.loads(pickle.dumps(kind("text", None, 3)))
    assert (type(error), str(error), error.rank, error.code) == (kind, "text", 3, kind.code)


def test_errors_are_those_of_python():
    assert issubclass(horing.TimeoutError, TimeoutError) and issubclass(horing.RemoteError, ConnectionError)
    assert issubclass(horing.InvalidArgumentError, ValueError) and issubclass(horing.SystemCallError, OSError)


def test_split(on_ranks):
    def call(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        value = np.array([comm.rank])
        part.all_reduce(value)
        none = comm.split(None if comm.rank else 0)
        assert (none is None) == bool(comm.rank)
        comm.barrier()
        return part.rank, part.size, int(value[0])

    assert on_ranks(4, call) == [(1, 2, 2), (1, 2, 4), (0, 2, 2), (0, 2, 4)]


def test_shrink(on_ranks):
    def call(comm):
        if comm.rank == 1:
            return None
        rest = comm.shrink([1])
        value = np.array([comm.rank])
        rest.all_reduce(value)
        return rest.rank, rest.size, int(value[0])

    assert on_ranks(3, call) == [(0, 2, 2), None, (1, 2, 2)]


def test_relatives_in_a_group_are_refused():
    with horing.Communicator(horing.unique_id(), 1, 0) as comm:
        with pytest.raises(horing.InvalidUsageError, match="group"):
            with horing.group():
                comm.split(0)
        comm.barrier()


def test_abort_from_another_thread_ends_a_collective(on_ranks):
    comms = horing.Communicator.create_all(2)
    timer = threading.Timer(0.2, comms[0].abort)
    timer.start()
    begin = time.monotonic()
    with pytest.raises(horing.HoringError):
        comms[0].barrier()
    assert time.monotonic() - begin < 10
    with pytest.raises(horing.RemoteError) as caught:
        comms[1].barrier()
    assert caught.value.rank == 0
    assert comms[1].failed_rank == 0 and isinstance(comms[1].error, horing.RemoteError)
    comms[1].close()


def test_a_communicator_in_two_threads_is_refused():
    comms = horing.Communicator.create_all(2)
    waiting = threading.Thread(target=comms[0].barrier)
    waiting.start()
    time.sleep(0.3)
    with pytest.raises(horing.InvalidUsageError):
        comms[0].barrier()
    comms[1].barrier()
    waiting.join()
    for comm in comms:
        comm.close()


def test_the_gil_is_released():
    comms = horing.Communicator.create_all(2)
    waiting = threading.Thread(target=comms[0].barrier)
    waiting.start()
    begin, turns = time.monotonic(), 0
    while time.monotonic() - begin < 0.2:
        turns += 1
    assert waiting.is_alive() and turns > 1000
    comms[1].barrier()
    waiting.join()
    for comm in comms:
        comm.close()


def test_ranks_that_disagree(on_ranks):
    def call(comm):
        with pytest.raises(horing.InvalidUsageError):
            comm.all_reduce(np.zeros(3 + comm.rank))
        return True

    assert on_ranks(2, call) == [True, True]


# ---- Streams ----


def test_a_stream_runs_in_order(on_ranks):
    def call(comm):
        with horing.Stream() as stream:
            value = np.ones(10000)
            for _ in range(5):
                comm.all_reduce(value, stream=stream)
            stream.synchronize()
            assert stream.query() and (value == comm.size**5).all()

    on_ranks(2, call)


def test_a_stream_holds_its_buffers(on_ranks):
    def call(comm):
        stream = horing.Stream()
        if comm.rank == 0:
            buffer = np.ones(4)
            gone = weakref.ref(buffer)
            comm.all_reduce(buffer, stream=stream)
            del buffer
            gc.collect()
            assert gone() is not None and not stream.query()
            time.sleep(0.2)
            together.wait()
            stream.synchronize()
            assert gone() is None
        else:
            together.wait()
            comm.all_reduce(np.ones(4))
        stream.close()

    together = threading.Barrier(2)
    on_ranks(2, call)


def test_a_stream_that_waits_says_so():
    comms = horing.Communicator.create_all(2)
    stream = horing.Stream()
    comms[0].barrier(stream=stream)
    assert not stream.query()
    begin = time.monotonic()
    with pytest.raises(horing.TimeoutError, match="0.2 s"):
        stream.synchronize(0.2)
    assert 0.2 <= time.monotonic() - begin < 2
    comms[1].barrier()
    stream.synchronize(10)
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.query()
    for comm in comms:
        comm.close()


def test_an_error_on_a_stream_comes_once_and_names_the_rank():
    comms = horing.Communicator.create_all(2)
    stream, called, told = horing.Stream(), [], threading.Event()
    comms[0].barrier(stream=stream)
    stream.add_callback(lambda error: (called.append(error), told.set()))
    comms[1].abort()
    with pytest.raises(horing.RemoteError) as caught:
        stream.synchronize()
    assert caught.value.rank == 1
    stream.synchronize()
    assert told.wait(10) and isinstance(called[0], horing.RemoteError)
    stream.close()
    comms[0].close()


def test_a_stream_without_an_owner_goes_on(on_ranks):
    def call(comm):
        value = np.ones(1000)
        comm.all_reduce(value, stream=horing.Stream())
        comm.barrier()
        assert (value == comm.size).all()

    on_ranks(2, call)


def test_a_with_block_that_raises_does_not_wait():
    comms = horing.Communicator.create_all(2)
    begin = time.monotonic()
    with pytest.raises(KeyError):
        with horing.Stream() as stream:
            comms[0].barrier(stream=stream)
            raise KeyError
    assert time.monotonic() - begin < 5
    for comm in comms:
        comm.abort()


def test_many_operations_on_a_stream(on_ranks):
    def call(comm):
        with horing.Stream() as stream:
            for _ in range(5000):
                comm.all_reduce(np.ones(1, "f4"), stream=stream)
            stream.synchronize()
            return len(stream._held)

    assert on_ranks(2, call) == [0, 0]


# ---- Groups ----


def test_a_group_of_several_ranks_in_one_thread():
    comms = horing.Communicator.create_all(3)
    values = [np.full(5, comm.rank) for comm in comms]
    with horing.group():
        for comm, value in zip(comms, values):
            comm.all_reduce(value)
    assert all((value == 3).all() for value in values)
    for comm in comms:
        comm.close()


def test_groups_nest_and_hold_their_buffers(on_ranks):
    def call(comm):
        inbox = np.zeros(3)
        with horing.group():
            with horing.group():
                comm.send(np.full(3, comm.rank), 1 - comm.rank)  # only the group has it
            assert (inbox == 0).all()
            comm.recv(inbox, 1 - comm.rank, dtype="int64")
        return inbox.view("i8")[0]

    assert on_ranks(2, call) == [1, 0]


def test_a_group_that_raises_is_dropped(on_ranks):
    def call(comm):
        with pytest.raises(KeyError):
            with horing.group():
                comm.send(np.zeros(3), 1 - comm.rank)
                raise KeyError
        comm.barrier()

    on_ranks(2, call)


def test_a_group_on_a_stream(on_ranks):
    def call(comm):
        inbox = np.zeros(3)
        with horing.Stream() as stream:
            with horing.group():
                comm.send(np.full(3, 1.0 + comm.rank), 1 - comm.rank, stream=stream)
                comm.recv(inbox, 1 - comm.rank, stream=stream)
            stream.synchronize()
        return inbox[0]

    assert on_ranks(2, call) == [2, 1]


# ---- Memory ----


def test_memory_lives_as_long_as_its_views():
    memory = horing.mem_alloc(1 << 16)
    assert memory.nbytes == 1 << 16 and memory.address % 4096 == 0
    array = np.frombuffer(memory, "f4")
    gone = weakref.ref(memory)
    del memory
    gc.collect()
    assert gone() is not None
    array[:] = 3
    assert array.sum() == 3 * len(array)
    del array
    gc.collect()
    assert gone() is None


def test_sizes_of_memory_that_is_gone_are_forgotten():
    gone = [weakref.ref(type(horing.mem_alloc(12345 + size))) for size in range(3)]
    gc.collect()
    assert [each() for each in gone] == [None] * 3


def test_memory_of_nothing_and_too_much():
    assert horing.mem_alloc(0).nbytes == 0
    for size in (-1, 2**64 + 8):
        with pytest.raises(ValueError):
            horing.mem_alloc(size)
    with pytest.raises(horing.HoringError):
        horing.mem_alloc(1 << 60)


def test_registration(on_ranks):
    def call(comm):
        memory = horing.mem_alloc(1 << 16)
        with comm.register(memory) as registration:
            assert registration.gains
            comm.all_reduce(memory)
        registration.close()
        assert not comm.register(np.zeros(10)).gains
        with pytest.raises(horing.InvalidArgumentError):
            comm.register(bytearray())

    on_ranks(2, call)
