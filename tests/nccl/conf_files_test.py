"""NCCL's files of settings, and which of them counts: conf_files_test.py HORING_INFO

/etc/nccl.conf is looked for in a namespace of its own, with a folder of the test on /etc. Exit code 77: there are no namespaces here.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

program = sys.argv[1]
IN_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]


def settings(command=(), **variables):
    """The variables that are set, by name: value and where it is from."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "HORING_"))}
    said = subprocess.run([*command, program, "nccl"], env={**clean, **variables}, check=True, capture_output=True, text=True,
                          timeout=60).stdout
    lines = said.split("\n\n")[0].splitlines()[1:]
    return dict(line.strip().split(": ")[0].split("=", 1) for line in lines)


def expect(got, wanted, what):
    if got != wanted:
        sys.exit(f"{what}: {got}, expected {wanted}")


with tempfile.TemporaryDirectory() as made:
    folder = Path(made)
    home, etc, other = folder / "home", folder / "etc", folder / "other.conf"
    home.mkdir()
    etc.mkdir()
    own = home / ".nccl.conf"
    own.write_text("# of the user\nNCCL_IB_TC = 1\nNCCL_SOCKET_IFNAME=lo # the loopback\n")
    other.write_text("NCCL_IB_TC=2\n")
    (etc / "nccl.conf").write_text("NCCL_IB_TC=3\nNCCL_IB_SL=3\n")
    of_user = {"NCCL_IB_TC": f"1 ({own})", "NCCL_SOCKET_IFNAME": f"lo ({own})"}
    without_etc = IN_NAMESPACE + ["sh", "-c", f'mount --bind "{home}" /etc && exec "$@"', "sh"]
    with_etc = IN_NAMESPACE + ["sh", "-c", f'mount --bind "{etc}" /etc && exec "$@"', "sh"]
    if subprocess.run([*without_etc, "true"], check=False, capture_output=True).returncode != 0:
        print("SKIPPED: no mount namespace, so what /etc/nccl.conf does was not tried")
        sys.exit(77)
    expect(settings(without_etc, HOME=str(home)), of_user, "~/.nccl.conf")
    expect(settings(with_etc, HOME=str(home)), {**of_user, "NCCL_IB_SL": "3 (/etc/nccl.conf)"}, "with /etc/nccl.conf")
    expect(settings(with_etc, HOME="/nowhere"), {"NCCL_IB_TC": "3 (/etc/nccl.conf)", "NCCL_IB_SL": "3 (/etc/nccl.conf)"}, "without a home")
    expect(settings(with_etc, HOME=str(home), NCCL_CONF_FILE=str(other)),
           {"NCCL_CONF_FILE": f"{other} (environment)", "NCCL_IB_TC": f"2 ({other})", "NCCL_IB_SL": "3 (/etc/nccl.conf)"},
           "NCCL_CONF_FILE, in place of the user's")
    expect(settings(with_etc, HOME=str(home), NCCL_IB_TC="4")["NCCL_IB_TC"], "4 (environment)", "the environment, before all files")
