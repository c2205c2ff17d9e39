"""A machine for scripts, with a cable to pull and the built programs on it: namespaces of its own, which end with the script."""
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = Path("/home/ada")
URL = "http://127.0.0.1:8787"
IFF_TUN, IFF_TAP, IFF_NO_PI = 0x0001, 0x0002, 0x1000

# No proxy leads to a loopback address.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def bootstrap(*packages):
    """Installs Debian packages that are missing; does nothing within the machine."""
    if os.getpid() != 1:
        # A package with a unit must not start a service of this machine.
        subprocess.run(
            [ROOT / "Scripts/bootstrap", *packages], check=True, stdout=sys.stderr, env={**os.environ, "RUNLEVEL": "1"})


def enter(host="ada-laptop"):
    """Continues the script as the first process of a machine.

    Network, processes, mounts and host name are namespaces of their own; /home/ada is empty and in memory. Where the user is not
    root, a user namespace makes it so. The programs are built before: in there is no network to fetch packages from.
    """
    if os.getpid() != 1:
        os.environ["PROGRAMS"] = subprocess.run(
            [ROOT / "Scripts/programs"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        spaces = ["--net", "--uts", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child"]
        words = ["unshare", *user, *spaces, sys.executable, os.path.abspath(sys.argv[0]), *sys.argv[1:]]
        sys.stdout.flush()
        os.execvp(words[0], words)
    socket.sethostname(host)
    # This package may be in a home directory: those that exist stay where they are.
    subprocess.run(["mount", "--rbind", "/home", "/mnt"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/home"], check=True)
    for entry in (entry for entry in Path("/mnt").iterdir() if entry.is_dir() and entry.name != HOME.name):
        (HOME.parent / entry.name).mkdir()
        subprocess.run(["mount", "--rbind", entry, HOME.parent / entry.name], check=True)
    HOME.mkdir()
    os.chdir(HOME)
    # Of the caller's variables only those that find programs and libraries.
    path = f"{os.environ['PROGRAMS']}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    kept = {name: os.environ[name] for name in ("CI", "LD_LIBRARY_PATH") if name in os.environ}
    os.environ.clear()
    os.environ.update(kept, PATH=path, HOME=str(HOME), LANG="C.UTF-8", TZ="UTC")
    ip("link", "set", "lo", "up")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def hold_device(name, flags):
    """Makes a tun or tap device that lives as long as the returned descriptor (TUNSETIFF, linux/if_tun.h)."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, 0x400454CA, struct.pack("16sH22x", name.encode(), flags | IFF_NO_PI))
    return device


def soon(what, condition, seconds=30):
    """Waits for a condition and returns its value; fails after some time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            sys.exit(f"{Path(sys.argv[0]).name}: not within {seconds} s: {what}")
        time.sleep(0.02)


class Cable:
    """The interface eth0 of the machine, and its cable to another machine, which has 192.0.2.1."""

    def __init__(self):
        self.other = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own, other = Path("/proc/self/ns/net"), Path(f"/proc/{self.other.pid}/ns/net")
        soon("the other machine", lambda: os.readlink(other) != os.readlink(own))
        ip("link", "add", "eth0", "type", "veth", "peer", "name", "far0", "netns", str(self.other.pid))
        self.far("ip", "addr", "add", "192.0.2.1/24", "dev", "far0")
        self.far("ip", "link", "set", "far0", "up")
        ip("link", "set", "eth0", "up")
        ip("addr", "add", "192.0.2.10/24", "dev", "eth0")
        ip("route", "add", "default", "via", "192.0.2.1")

    def far(self, *words):
        """Runs a command on the other machine."""
        subprocess.run(self.words_at_far_end(*words), check=True)

    def words_at_far_end(self, *words):
        return ["nsenter", "-t", str(self.other.pid), "--net", *words]

    def pull(self):
        self.far("ip", "link", "set", "far0", "down")

    def plug(self):
        self.far("ip", "link", "set", "far0", "up")


class Service:
    """A running `reachability-watch serve`."""

    def __init__(self, *options):
        self.log = HOME / "serve.log"
        self.log.write_text("")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["reachability-watch", "serve", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        soon("serve listens", lambda: "serving on" in self.log.read_text() or self.process.poll() is not None)
        if self.process.poll() is not None:
            sys.exit(f"{Path(sys.argv[0]).name}: serve ended: {self.log.read_text()}")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait()


class Broker:
    """A mosquitto that lets everybody in, on an address of the machine, or of another one."""

    def __init__(self, address="127.0.0.1", prefix=()):
        self.folder = HOME.parent / f"broker-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.words = [*prefix, "mosquitto", "-c", str(self.folder / "mosquitto.conf")]
        # In these namespaces root may be the only user.
        (self.folder / "mosquitto.conf").write_text(f"user root\nlistener 1883 {address}\nallow_anonymous true\n")
        self.url = f"mqtt://{address}"
        self.start()

    def start(self):
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        soon("the broker listens", lambda: "running" in (self.folder / "log").read_text() or self.process.poll() is not None)
        if self.process.poll() is not None:
            sys.exit(f"{Path(sys.argv[0]).name}: mosquitto ended: {(self.folder / 'log').read_text()}")

    def stop(self):
        self.process.kill()
        self.process.wait()


def get(path, timeout=10):
    """Requests a document of the service."""
    with opener.open(URL + path, timeout=timeout) as answer:
        return answer.read().decode()


def watch(*words, **options):
    """Runs reachability-watch to its end; returns its output."""
    return subprocess.run(
        ["reachability-watch", *words], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def missing(command):
    """Ends the script if a command is not there: with CI set that is a failure."""
    if shutil.which(command) is None:
        print(f"left out: there is no {command} here")
        sys.exit(1 if os.environ.get("CI") else 0)
