#!/usr/bin/env python3
"""Delays all that an emulated node sends and receives: python3 bench/delay_link.py INTERFACE MICROSECONDS

For kernels without netem. Renames the interface, puts a TAP device with its name and addresses in its place, and forwards frames between the
two, each so long after it came. Runs until it is killed, and prints "ready" once the device is up. Needs root inside the node, and ip, tc
and nft. The forwarding itself takes some 50 us more.
"""
import collections
import fcntl
import json
import os
import select
import socket
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000
TUNSETOFFLOAD, OFFLOADS = 0x400454D0, 0x0F  # checksums and segments are left to the other end
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 15, 23, 3
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
MOST_BYTES = 1 << 17


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def replace(name):
    """A TAP device in place of the interface, and a socket for the interface's frames."""
    below = "d-" + name
    (link,) = json.loads(run("ip", "-j", "addr", "show", "dev", name))
    addresses = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one["family"] == "inet"]
    run("ip", "link", "set", name, "down")
    run("ip", "addr", "flush", "dev", name)
    run("ip", "link", "set", name, "name", below)
    # TCP no longer sees how full the queue of horing-run's shaping is, and would fill it until it drops.
    subprocess.run(["tc", "qdisc", "change", "dev", below, "parent", "1:1", "handle", "10:", "bfifo", "limit", str(32 << 20)], check=False)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, OFFLOADS)
    # What arrives is for the device above alone.
    run("nft", f"add table ip below; add chain ip below in {{ type filter hook prerouting priority -400; }}; "
               f"add rule ip below in iifname {below} drop")
    run("ip", "link", "set", name, "address", link["address"], "mtu", str(link["mtu"]), "txqueuelen", "20000")
    run("ip", "link", "set", below, "up")
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
    wire.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
    wire.bind((below, 0))
    wire.setblocking(False)
    for address in addresses:
        run("ip", "addr", "add", address, "dev", name)
    run("ip", "link", "set", name, "up")
    return device, wire


def forward(device, wire, delay_s):
    waiting = collections.deque()  # (when it is due, to which end, the frame)
    ends = {device: wire.fileno(), wire.fileno(): device}
    while True:
        left = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        ready, _, _ = select.select(list(ends), [], [], left)
        for end in ready:
            try:
                while True:
                    waiting.append((time.monotonic() + delay_s, ends[end], os.read(end, MOST_BYTES)))
            except BlockingIOError:
                pass
        while waiting and waiting[0][0] <= time.monotonic():
            _, to, frame = waiting.popleft()
            while True:
                try:
                    os.write(to, frame)
                except BlockingIOError:
                    select.select([], [to], [])
                    continue
                except OSError:
                    pass  # the device below refuses what is too long for it
                break


if __name__ == "__main__":
    ends = replace(sys.argv[1])
    print("ready", flush=True)
    forward(*ends, float(sys.argv[2]) * 1e-6)
