"""A server of several ranks, as `tandem serve --hosts` starts it: its ranks can be found, killed and stopped."""

import os
import shutil
import time

import harness
from server_test import Server


def missing():
    """Why there can be no job here, or None."""
    if harness.SANITIZED:
        return "MPI itself leaks, and is not built with sanitizers: unit_ranks has the protocol"
    if not shutil.which("mpirun"):
        return "no mpirun (Debian: openmpi-bin)"
    if not os.path.exists(os.path.join(os.path.dirname(harness.BINARY), "libtandem-mpi.so")):
        return "no libtandem-mpi.so (Debian: libopenmpi-dev, before the build)"
    return None


def read_proc(pid, name):
    """A file of a process; empty when there is no such process, or none of ours."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def environment_of(pid):
    return dict(item.split(b"=", 1) for item in read_proc(pid, "environ").split(b"\0") if b"=" in item)


def parent_of(pid):
    status = read_proc(pid, "stat")
    return int(status.rsplit(b")", 1)[1].split()[1]) if status else 0


class Job(Server):
    def times_ready(self):
        """How often a server has begun to listen."""
        return sum("listening on" in line for line in list(self.lines))

    def wait_for_start(self, times):
        end = time.monotonic() + harness.TIMEOUT_S
        while self.times_ready() < times or self.health() != 200:
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"not started {times} times: " + "".join(self.lines))
            time.sleep(0.02)

    def health(self):
        """The status of /health; 0 when nobody is there."""
        try:
            return self.request("GET", "/health")[0]
        except OSError:
            return 0

    def ranks(self):
        """The process of each rank. Rank 0 is a child's child of ours, the others share its job's name."""
        processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        found = {}
        for pid in processes:
            environment = environment_of(pid)
            if b"OMPI_COMM_WORLD_RANK" in environment and read_proc(pid, "comm").strip() == b"tandem":
                found[pid] = environment
        first = next(pid for pid, environment in found.items()
                     if environment[b"OMPI_COMM_WORLD_RANK"] == b"0" and parent_of(parent_of(pid)) == self.process.pid)
        job = found[first][b"PMIX_NAMESPACE"]
        return {int(environment[b"OMPI_COMM_WORLD_RANK"]): pid for pid, environment in found.items()
                if environment.get(b"PMIX_NAMESPACE") == job}
