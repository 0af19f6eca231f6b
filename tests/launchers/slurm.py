"""A Slurm cluster of this one machine, for as long as a test takes, in separate namespaces and a folder."""
import contextlib
import os
import shutil
import subprocess
import time

READY_S = 30
ADDRESS = "10.77.0.1"  # Slurm finds no address to listen on if there are only addresses of 127.0.0.0/8

CONFIGURATION = """
ClusterName=try
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={host} NodeAddr={address} CPUs={cores} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE State=UP
"""


def inside(home):
    """Words before a command that is to run in the namespaces of this process."""
    namespaces = f"/proc/{home.pid}/ns"
    return ["nsenter", f"--net={namespaces}/net", f"--mount={namespaces}/mnt", f"--pid={namespaces}/pid_for_children", "--"]


class NoCluster(Exception):
    """Slurm is not installed, or no job runs; says why."""


def wait_until_ready(home, folder):
    """Until a job runs."""
    until = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            if subprocess.run([*inside(home), "srun", "--immediate=2", "true"], capture_output=True, timeout=READY_S, check=False).returncode == 0:
                return
        if time.monotonic() > until:
            logs = [f"{path.name}:\n{path.read_text(encoding='utf-8', errors='replace')[-1500:]}" for path in sorted(folder.glob("*.log"))]
            raise NoCluster("\n".join([f"no job runs after {READY_S} s", *logs]))
        time.sleep(0.5)


@contextlib.contextmanager
def cluster(parent):
    """Gives the words before an srun that is to run there. NoCluster if that is not possible."""
    os.environ["PATH"] += ":/usr/sbin"
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun", "ip", "unshare") if not shutil.which(name)]
    if missing:
        raise NoCluster(f"{', '.join(missing)}: not installed (./tools/dev install-packages launchers)")
    folder = parent / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    host = os.uname().nodename.split(".")[0]
    settings = folder / "slurm.conf"
    settings.write_text(CONFIGURATION.format(host=host, address=ADDRESS, folder=folder, cores=len(os.sched_getaffinity(0))), encoding="utf-8")
    os.environ["SLURM_CONF"] = str(settings)
    processes = []
    with open(folder / "daemons.log", "w", encoding="utf-8") as log:

        def start(*words, **more):
            processes.append(subprocess.Popen(words, **({"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL} | more)))
            return processes[-1]

        # All that runs inside ends with this process, which says when there is an inside.
        home = start("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                     f"ip link set lo up && ip address add {ADDRESS} dev lo && echo ready && exec sleep infinity", stdout=subprocess.PIPE)
        try:
            if home.stdout.readline() != b"ready\n":
                raise NoCluster(f"no namespaces: Slurm is tried by root only\n{(folder / 'daemons.log').read_text(encoding='utf-8')}")
            start(*inside(home), "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                  f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed")
            start(*inside(home), "slurmctld", "-D", "-i")
            start(*inside(home), "slurmd", "-D", "-N", host)
            wait_until_ready(home, folder)
            yield inside(home)
        finally:
            home.kill()
            for process in processes:
                process.wait()
