"""What surrounds the ranks of a soak job: limits, masks, mounts, locales, networks, floating-point modes and neighbours, by dice."""
import dataclasses
import os
import pathlib
import shutil
import subprocess

COMMA_LOCALE = "de_DE.UTF-8"
FULL = "full"  # what fills a directory for shared memory

# On the nodes of a job, by each rank before it starts; the second of them finds it done. An interface that is up and leads nowhere;
# the first rail's twin that dies while the job runs.
DEAD_INTERFACE = """ip link add dead0 type veth peer name far0 && ip link set far0 up && ip link set dead0 up &&
ip addr add 10.99.0.$((HORING_RUN_NODE + 1))/24 dev dead0"""
DYING_RAIL = "[ $RANK != 0 ] || { sleep 1; ip link set r1 down; } > /dev/null 2>&1 &"


@dataclasses.dataclass
class Surroundings:
    locale: bool = False
    umask: str | None = None
    descriptors: int | None = None  # ulimit -n
    closed: str = ""  # of the descriptors 0 to 2
    odd_rank: str | None = None  # RANK:MODE, whose floating-point environment is another
    network: str | None = None  # dead, dying
    memory: str | None = None  # tiny, full
    neighbour: bool = False  # the same job again beside it, with the same key and directory

    def describe(self):
        fields = {name: value for name, value in dataclasses.asdict(self).items() if value}
        return " ".join(name if value is True else f"{name}={value}" for name, value in fields.items())

    def excuses(self, output):
        """Whether the ranks' output explains an error without a killed rank: a limit may be too small for a job."""
        return self.descriptors is not None and "ulimit -n" in output

    def horing_run_options(self, on_nodes):
        options = ["--rails", "2"] if self.network == "dying" else []
        return options + (["--shm-mib", "1"] if self.memory and on_nodes else [])

    def rank_words(self):
        """Arguments of horing_soak_rank."""
        return ([f"odd={self.odd_rank}"] if self.odd_rank else []) + (["output=9"] if "1" in self.closed else [])

    def before_rank(self, on_nodes):
        """The shell commands in a process before it becomes a rank."""
        lines = []
        if self.network == "dead":
            lines.append(f"{{ {DEAD_INTERFACE}; }} > /dev/null 2>&1")
        if self.network == "dying":
            lines.append(DYING_RAIL)
        if self.memory == "full":
            folder = "/dev/shm" if on_nodes else '"$HORING_SHM_DIR"'
            lines.append(f"head -c 2M /dev/zero 2> /dev/null >> {folder}/{FULL}")
        if self.neighbour:
            lines.append("unset HORING_ROOT HORING_RUN_SECRET")
        if self.umask:
            lines.append(f"umask {self.umask}")
        if self.closed:
            lines.append("exec " + ("9>&1 " if "1" in self.closed else "") + " ".join(f"{fd}>&-" for fd in self.closed))
        if self.descriptors:
            lines.append(f"ulimit -n {self.descriptors}")
        return ["sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"] if lines else []

    def around_job(self, folder):
        """A command that runs horing-run where the directory for shared memory is small."""
        if not self.memory or not folder:
            return []
        return ["unshare", "--mount", "sh", "-c", f"""mount -t tmpfs -o size=1m soak {folder} || exit 77
"$@"; code=$?
for name in $(ls {folder}); do [ $name = {FULL} ] || echo LEFT in shared memory: $name; done
exit $code""", "sh"]

    def environment(self, kit):
        variables = {"LOCPATH": str(kit.folder), "LC_ALL": COMMA_LOCALE, "HORING_CALIBRATE": "1"} if self.locale else {}
        return variables | ({"HORING_KEY_FILE": str(kit.key)} if self.neighbour else {})


class Kit:
    """What surroundings need on disk, and whether they are possible here."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.key = self.folder / "key"
        self.key.write_bytes(os.urandom(32))
        self.key.chmod(0o600)
        made = shutil.which("localedef") and subprocess.run(
            ["localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / COMMA_LOCALE], capture_output=True).returncode == 0
        self.has_locale = bool(made)
        self.can_mount = subprocess.run(
            ["unshare", "--mount", "mount", "-t", "tmpfs", "soak", self.folder], capture_output=True).returncode == 0

    def missing(self):
        missing = [] if self.has_locale else ["a locale with a decimal comma (package locales)"]
        return missing + ([] if self.can_mount else ["mounts of their own"])


def draw(dice, ranks, nodes, kit):
    there = Surroundings()

    def happens(probability=0.25):
        return dice.random() < probability

    there.locale = happens() and kit.has_locale
    there.umask = dice.choice(["000", "077", "777"]) if happens() else None
    there.descriptors = dice.choice([20, 32, 48, 64, 96]) if happens(0.2) else None
    there.closed = dice.choice(["0", "2", "02", "01", "012"]) if happens() else ""
    if happens(0.4):
        there.odd_rank = f"{dice.randrange(ranks)}:{dice.choice(['upward', 'downward', 'toward_zero', 'flush_to_zero'])}"
    if nodes and happens(0.4):
        there.network = dice.choice(["dead", "dying"])
    if happens(0.3) and (nodes or kit.can_mount):
        there.memory = dice.choice(["tiny", "full"])
    there.neighbour = happens() and not nodes and not there.memory
    return there
