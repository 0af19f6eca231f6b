"""What only processes show: launchers, deaths, Ctrl-C, fork, the end of the interpreter, the programs of the package."""

import subprocess
import sys

import pytest

import horing
from horing import _programs

SHOW = "\nprint(error.rank, type(error).__name__, flush=True)\n"


def test_launched_by_horing_run():
    text = "import horing; c = horing.Communicator.from_environment(); b = bytearray([1]); c.all_reduce(b); print(f'sum {b[0]}')"
    run = subprocess.run([_programs.find("horing-run"), "-n", "3", "--", sys.executable, "-c", text], capture_output=True,
                         text=True, timeout=60)
    assert run.returncode == 0 and run.stdout.count("sum 3") == 3, run


def test_a_killed_rank_is_named(job):
    ended = job(3, """
        import signal
        comm = meet()
        comm.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        try:
            for _ in range(10**7):
                comm.barrier()
        except horing.RemoteError as error:
            print(error.rank, time.monotonic() - begin < 5)
        rest = comm.shrink([1])
        value = bytearray([1])
        rest.all_reduce(value)
        print("rest", value[0])
        """)
    assert [each.code for each in ended] == [0, -9, 0], ended
    assert all("1 True" in ended[rank].out and "rest 2" in ended[rank].out for rank in (0, 2)), ended


def test_a_late_rank_is_named(job):
    ended = job(2, """
        comm = meet()
        comm.barrier()
        if rank == 1:
            time.sleep(3)
        else:
            try:
                comm.barrier()
            except TimeoutError as error:
                print(error.rank, type(error).__name__)
        """, HORING_TIMEOUT_MS="1000")
    assert ended[0].code == 0 and "1 TimeoutError" in ended[0].out, ended
    assert ended[1].code == 0, ended


CTRL_C = {
    "barrier": "comm.barrier()",
    "recv": "comm.recv(bytearray(1), 0)",
    "group": "\n    with horing.group():\n        comm.recv(bytearray(1), 0)\n",
    "stream": "stream = horing.Stream(); comm.recv(bytearray(1), 0, stream=stream); stream.synchronize()",
    "split": "comm.split(0)",
    "meeting": "horing.Communicator(bytes(horing.unique_id()), 2, 0)",
    "launcher": "horing.Communicator.from_environment()",
}


@pytest.mark.parametrize("call", list(CTRL_C))
def test_ctrl_c(job, call):
    """KeyboardInterrupt within a second; the other rank, which waits in a barrier, gets an error."""
    ended = job(2, f"""
import signal, threading
comm = meet()
comm.barrier()
if rank == 0:
    try:
        comm.barrier() if {call != "barrier"} else comm.recv(bytearray(1), 1)
    except horing.HoringError as error:
        print("told", error.rank, flush=True)
    sys.exit()
time.sleep(0.2)
os.environ.update(RANK="0", WORLD_SIZE="2", HORING_ROOT="127.0.0.1:29777", HORING_INSECURE="1")
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
begin = time.monotonic()
try:
    {CTRL_C[call]}
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - begin < 1.5, flush=True)
""")
    assert [each.code for each in ended] == [0, 0], ended
    assert "interrupted True" in ended[1].out, ended
    assert "told 1" in ended[0].out, ended


def test_an_own_handler_of_ctrl_c_is_left_alone(job):
    """It runs after the call, which continues."""
    ended = job(2, """
        import signal, threading
        signal.signal(signal.SIGINT, lambda *_: print("handled", flush=True))
        comm = meet()
        comm.barrier()
        if rank == 1:
            time.sleep(1)
        else:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        value = bytearray([1])
        comm.all_reduce(value)
        print("sum", value[0])
        """)
    assert [each.code for each in ended] == [0, 0] and "handled" in ended[0].out and "sum 2" in ended[0].out, ended


ENDS = {
    "nothing": "",
    "exit": "sys.exit(5)",
    "exception": "raise KeyError",
    "under way": "stream = horing.Stream(); comm.recv(bytearray(1), 1 - rank, stream=stream); sys.exit(5)",
    "callback": "stream = horing.Stream(); comm.recv(bytearray(1), 1 - rank, stream=stream); "
                "stream.add_callback(lambda error: print('called back')); sys.exit(5)",
    "after an error": "try:\n    comm.all_reduce(bytearray(1 + rank))\nexcept horing.InvalidUsageError:\n    sys.exit(5)",
    "thread": "import threading; threading.Thread(target=comm.recv, args=(bytearray(1), 1 - rank), daemon=True).start(); "
              "time.sleep(0.3); sys.exit(5)",
}


@pytest.mark.parametrize("end", list(ENDS))
def test_the_end_of_a_program_that_closes_nothing(job, end):
    code = {"nothing": 0, "exception": 1}.get(end, 5)
    ended = job(2, f"comm = meet()\nmemory = horing.mem_alloc(10)\ncomm.barrier()\n{ENDS[end]}\n")
    assert [each.code for each in ended] == [code, code], ended
    assert end != "callback" or all("called back" in each.out for each in ended), ended
    out = ended[0].out + ended[1].out
    assert "Fatal" not in out and "ignored" not in out, ended
    assert ("Traceback" in out) == (end in ("exception", "thread")), ended  # the thread's call raises


def test_what_was_sent_last_arrives(job):
    ended = job(2, """
        comm = meet()
        data = bytearray([rank]) * 10**6
        if rank == 0:
            comm.send(data, 1)
            sys.exit()
        time.sleep(0.5)
        comm.recv(data, 0)
        print("got", data == bytearray(10**6))
        """)
    assert [each.code for each in ended] == [0, 0] and "got True" in ended[1].out, ended


def test_fork(job):
    """A child's calls are refused; its existence and its end change nothing; it may make its own communicator."""
    ended = job(2, """
        comm, stream, memory = meet(), horing.Stream(), horing.mem_alloc(100)
        comm.barrier()
        for how in ("exit", "_exit", "own", "interrupt"):
            child = os.fork()
            if child == 0:
                try:
                    comm.barrier()
                except horing.InvalidUsageError:
                    pass
                else:
                    os._exit(1)
                comm.close(); stream.close(); comm.abort()
                if how == "own":
                    with horing.Communicator(horing.unique_id(), 1, 0) as own:
                        own.barrier()
                if how == "interrupt":
                    import signal
                    try:
                        os.kill(os.getpid(), signal.SIGINT)
                        time.sleep(5)
                    except KeyboardInterrupt:
                        sys.exit(3)
                sys.exit(3) if how != "_exit" else os._exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3, how
            comm.barrier()
        print("fine")
        """)
    assert [each.code for each in ended] == [0, 0] and all(each.out.strip().endswith("fine") for each in ended), ended


def test_a_child_waits_for_no_callback_of_its_parent(job):
    ended = job(2, """
        comm = meet()
        if rank == 0:
            stream = horing.Stream()
            comm.barrier(stream=stream)
            stream.add_callback(lambda error: print("called", flush=True))
            begin, child = time.monotonic(), os.fork()
            if child == 0:
                sys.exit(3)
            code, took = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - begin
            (folder / "ended").touch()
            stream.close()
            assert code == 3 and took < 3, (code, took)
        else:
            while not (folder / "ended").exists():
                time.sleep(0.01)
            comm.barrier()
        """)
    assert [each.code for each in ended] == [0, 0] and ended[0].out.count("called") == 1, ended


def test_a_stream_that_outlives_the_package():
    text = "import sys, horing.stream as module; sys.kept, module.kept = module, module.Stream()"
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_multiprocessing(job):
    ended = job(2, """
        import multiprocessing
        def double(x): return 2 * x
        comm = meet()
        comm.barrier()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(double, range(5)) == [0, 2, 4, 6, 8]
        comm.barrier()
        print("fine")
        """)
    assert [each.code for each in ended] == [0, 0] and "fine" in ended[0].out, ended


def test_a_rank_that_multiprocessing_forked_leaves_when_it_ends(job):
    """It closes nothing, and multiprocessing ends it without the interpreter's exit."""
    ended = job(1, """
        import multiprocessing
        fork, kept = multiprocessing.get_context("fork"), []
        def be(rank, id, other_has_ended):
            comm = horing.Communicator(id, 2, rank)
            kept.append(comm)
            comm.barrier()
            if rank == 0:
                assert other_has_ended.wait(20)
                try:
                    comm.barrier()
                except horing.RemoteError as error:
                    print(error, flush=True)
        id, event = horing.unique_id(), fork.Event()
        ranks = [fork.Process(target=be, args=(rank, id, event)) for rank in range(2)]
        for each in ranks:
            each.start()
        ranks[1].join()
        event.set()
        ranks[0].join()
        print(*(each.exitcode for each in ranks))
        """)
    assert ended[0].code == 0 and "0 0" in ended[0].out, ended
    assert "rank 1 left" in ended[0].out and "lost" not in ended[0].out, ended


def test_init_close_and_init_again(job):
    ended = job(2, """
        held = []
        for turn in range(5):
            comm = meet(f"id{turn}")
            comm.barrier()
            held.append(comm)
            if turn % 2:
                comm.close()
        print(len(os.listdir("/proc/self/fd")) < 200)
        """)
    assert [each.code for each in ended] == [0, 0] and "True" in ended[0].out, ended


def test_nothing_leaks(job):
    ended = job(2, """
        import gc
        def one():
            with horing.Stream() as stream:
                for _ in range(50):
                    comm.all_reduce(bytearray(64), stream=stream)
                    comm.all_reduce(bytearray(64))
                stream.add_callback(lambda error: None)
            part = comm.split(0)
            part.barrier()
            part.close()
            horing.mem_alloc(1 << 16)
        def held():
            gc.collect()
            pages = int(open("/proc/self/statm").read().split()[1])
            return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * 4096
        comm = meet()
        for _ in range(5):
            one()
        before = held()
        for _ in range(40):
            one()
        after = held()
        print(before, after)
        assert after[0] <= before[0] and after[1] <= before[1] and after[2] < before[2] + (4 << 20)
        """)
    assert [each.code for each in ended] == [0, 0], ended


def test_selftest():
    run = subprocess.run([sys.executable, "-m", "horing.selftest", "--ranks", "3"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0 and ", 0 failed" in run.stdout, run.stdout + run.stderr


def test_selftest_sees_what_is_wrong(monkeypatch):
    """A wrong library: sums of int32 are maxima."""
    text = ("import runpy, sys; import horing.selftest._checks as c; c._FUNCTIONS[c.Op.SUM] = max; "
            "sys.argv = ['rank', 'checks']; runpy.run_module('horing.selftest._rank', run_name='__main__')")
    import horing.selftest.__main__ as selftest

    monkeypatch.setattr(selftest, "_RANK", [sys.executable, "-c", text])
    reports, why = selftest._run_checks(2)
    assert "differs" in selftest._error_of_check("reductions", reports, why)


def test_horing_info_is_of_this_library():
    run = subprocess.run([_programs.find("horing-info")], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0 and horing.library_version() in run.stdout, run
