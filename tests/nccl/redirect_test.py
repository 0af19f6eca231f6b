"""Ways to put libnccl.so.2 in place of another one that a program was linked with (RPATH): redirect_test.py BIN_FOLDER LIBRARY_FOLDER
CLIENT STATIC_CLIENT"""
import os
import subprocess
import sys
from pathlib import Path

programs, libraries, client, static_client = (Path(word) for word in sys.argv[1:])
OURS = "version 22809\nsum 3\n"
environment = {name: value for name, value in os.environ.items() if not name.startswith(("LD_", "NCCL_", "HORING_"))}


def run(*command, **variables):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False,
                          env={**environment, **{name: str(value) for name, value in variables.items()}})
    return done.returncode, done.stdout, done.stderr


def expect(got, wanted, what):
    if got[:2] != wanted:
        sys.exit(f"{what}: {got}, expected {wanted}")


expect(run(client), (1, "version 1\n"), "without redirection")
expect(run(client, LD_LIBRARY_PATH=libraries), (1, "version 1\n"), "LD_LIBRARY_PATH does not reach it")
expect(run(client, LD_AUDIT=libraries / "libhoring_audit.so"), (0, OURS), "LD_AUDIT")
# By a path from here, of a program that goes elsewhere before it asks.
moves = "import ctypes, os; os.chdir('/'); print(os.path.basename(ctypes.CDLL('libnccl.so.2')._name)); print('horing' in open('/proc/self/maps').read())"
expect(run(sys.executable, "-c", moves, LD_AUDIT=os.path.relpath(libraries / "libhoring_audit.so")),
       (0, "libnccl.so.2\nTrue\n"), "LD_AUDIT by a relative path")
expect(run(client, LD_PRELOAD=libraries / "libnccl.so.2"), (0, OURS), "LD_PRELOAD")
expect(run(static_client), (0, OURS), "libnccl_static.a")
launch = [programs / "horing-run", "--nccl", "--", client]
expect(run(*launch), (0, OURS), "horing-run --nccl")
found = run(programs / "horing-info", "nccl", "--check", "--", *launch)[1]
if not found.endswith(f"{libraries / 'libnccl.so.2'}: horing\n"):
    sys.exit(f"horing-info nccl --check said: {found}")
found = run(programs / "horing-info", "nccl", "--check", "--", client)[1]
if not found.endswith("libnccl.so.2: not horing\n"):
    sys.exit(f"horing-info nccl --check said of the other one: {found}")
# Of a process that runs, and of one that has none.
for opens, verdict in ((f"import ctypes; ctypes.CDLL('{libraries / 'libnccl.so.2'}')", f"{(libraries / 'libnccl.so.2').resolve()}: horing\n"),
                       ("", "no libnccl was loaded\n")):
    with subprocess.Popen([sys.executable, "-c", f"{opens}\nprint('here', flush=True)\ninput()"], env=environment, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        expect(run(programs / "horing-info", "nccl", "--check", process.pid), (0, verdict), "horing-info nccl --check PID")
        process.communicate("\n")
if b"NCCL version 2.28.9+cuda" not in (libraries / "libnccl.so.2").read_bytes():
    sys.exit("the banner that tools look for is not in the file")
expect(run("/bin/true", LD_AUDIT=libraries / "libhoring_audit.so", LD_DEBUG="files")[:1] + ("",), (0, ""), "others")
untouched = run("/bin/true", LD_AUDIT=libraries / "libhoring_audit.so", LD_DEBUG="files")[2]
if "libnccl" in untouched:
    sys.exit("a program that asks for no NCCL loads it")
