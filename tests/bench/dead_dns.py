"""Run a command in a namespace of its own in which the only DNS server never answers: dead_dns.py COMMAND...

To be started as root under `unshare -n -m`. Nothing leaves the machine: the server is a socket on the loopback device of
the new network namespace, which has no other.
"""
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1

dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
request = struct.pack("16sH14s", b"lo", 0, b"")
flags = struct.unpack("16sH14s", fcntl.ioctl(dns, SIOCGIFFLAGS, request))[1]
fcntl.ioctl(dns, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | IFF_UP, b""))
dns.bind(("127.0.0.1", 53))
for name, text in (("/etc/resolv.conf", "nameserver 127.0.0.1\n"), ("/etc/nsswitch.conf", "hosts: files dns\n"),
                   ("/etc/hosts", "")):
    with tempfile.NamedTemporaryFile("w", delete=False) as f:
        f.write(text)
    os.chmod(f.name, 0o644)
    subprocess.run(["mount", "--bind", f.name, os.path.realpath(name)], check=True)
    os.unlink(f.name)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
