# SPDX-License-Identifier: Apache-2.0
# A cluster of Slurm on this machine, out of a temporary folder: Slurm's own daemons, as root.
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

DAEMONS = ("munged", "slurmctld", "slurmd")
TOOLS = ("srun", "salloc", "sbatch", "squeue", "scancel", "sinfo", "scontrol", "munge", "setpriv")
ADMINISTRATORS_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PATIENCE = 60  # seconds

# Both nodes of "near" are this machine under names that nobody can look up. Each has more CPUs than
# there are, so that ranks need not wait for each other. Job numbers begin anywhere, because jobs of
# two clusters that run here at the same time would meet if they had the same number.
CONFIGURATION = """\
ClusterName=coll
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
PlugStackConfig={folder}/no-plugins
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
ReturnToService=2
FirstJobId={first_job}
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=32
NodeName=coll-near[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]},{ports[3]} CPUs=32
PartitionName=all Nodes=ALL Default=YES
"""


def why_not():
    """Why there can be no cluster here; nothing if there can."""
    for name in DAEMONS + TOOLS:
        if shutil.which(name, path=ADMINISTRATORS_PATH) is None:
            return f"{name} is not installed"
    if os.geteuid() != 0:
        return "Slurm's daemons want to be root"
    try:  # as slurmctld does before it listens
        socket.getaddrinfo(None, 1, socket.AF_INET, socket.SOCK_STREAM,
                           flags=socket.AI_ADDRCONFIG | socket.AI_PASSIVE)
    except socket.gaierror:
        return "Slurm wants an address besides loopback"
    return ""


def wait_for(condition, what):
    """Polls; returns what the condition returns."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(what() if callable(what) else what)
        time.sleep(0.02)


def free_ports(count):
    """Below what Linux gives to outgoing connections, and apart from what the library takes."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10000, 20000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def start_cluster():
    """A port that was free may be another's before a daemon listens: then all begins again."""
    for attempt in range(4):
        cluster = Cluster()
        try:
            cluster.start()
            return cluster
        except BaseException as error:
            cluster.stop()
            if "Address already in use" not in str(error) or attempt == 3:
                raise


class Cluster:
    """One machine as three hosts: `lone` by its own name, and the two of `near`."""

    def __init__(self):
        # What daemons leave behind comes to this process, which ends it.
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        # Not in TMPDIR: names of sockets are short, and munged wants a folder that root can trust.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.lone = socket.gethostname().split(".")[0]
        self.near = "coll-near[1-2]"
        self.daemons = {}
        self.begun = 0
        self.environment = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("COLL_", "SLURM_", "PMI", "OMPI_", "MASTER_"))}
        self.environment |= {"PATH": ADMINISTRATORS_PATH, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                             "SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self):
        hosts = [self.lone, "coll-near1", "coll-near2"]
        for name in ["state", *("tmp-" + host for host in hosts)]:
            (self.folder / name).mkdir()
        (self.folder / "no-plugins").touch()
        (self.folder / "key").write_bytes(os.urandom(128))
        (self.folder / "key").chmod(0o600)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=self.lone, ports=free_ports(4),
            first_job=random.randrange(1, 10**7)))
        # Version 1 asks nothing of the system until it is used, and nothing here uses it.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self._begin_daemon("munged", "--foreground", f"--key-file={self.folder}/key",
                           *(f"--{use}={self.folder}/munge.{use.removesuffix('-file')}"
                             for use in ("socket", "pid-file", "log-file", "seed-file")))
        self._wait_until("munged answers", "munge", "-n", "-S", f"{self.folder}/munge.socket")
        self._begin_daemon("slurmctld", "-D", "-f", self.environment["SLURM_CONF"])
        self._wait_until("slurmctld answers", "scontrol", "ping", says=" is UP")
        for host in hosts:
            self._begin_daemon("slurmd", "-D", "-N", host, "-f", self.environment["SLURM_CONF"])
        self._wait_until("all hosts are idle", "sinfo", "-h", "-o", "%T %D", says="idle 3\n")

    def run(self, *command, **environment):
        """Returns the exit status and all output; what runs too long is killed, and says so."""
        return self.finish(self.begin(*command, **environment))

    def begin(self, *command, **environment):
        self.begun += 1
        output = self.folder / f"output-{self.begun}"
        return self._start(output, command, environment), output

    @staticmethod
    def finish(begun):
        process, output = begun
        late = ""
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            late = f"\nnot done within {PATIENCE} s"
        return process.returncode, output.read_text(errors="replace") + late

    def steps(self):
        """The steps that run, as their job's number and their own."""
        return self.run("squeue", "--steps", "-h", "-o", "%i")[1].split()

    def words(self):
        """The end of what each daemon said."""
        return "".join(f"{name}:\n" + "".join(
            "  " + line + "\n" for line in
            (self.folder / name).read_text(errors="replace").splitlines()[-12:])
                       for name in self.daemons)

    def stop(self):
        """Nothing of the cluster is kept, so nothing has to end in order."""
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()
        wait_for(self._nobody_is_left, "processes of Slurm do not end")
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def _nobody_is_left():
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
                if parent == os.getpid():
                    os.kill(int(stat.parent.name), signal.SIGKILL)
            except (OSError, IndexError):
                continue  # it has ended meanwhile
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            return True
        return False

    def _begin_daemon(self, program, *arguments):
        name = " ".join([program, *arguments[2:3]]) if program == "slurmd" else program
        self.daemons[name] = self._start(self.folder / name, [program, *arguments], {})

    def _start(self, output, command, environment):
        # The output is a file: a pipe would stay open as long as anyone may write. The program ends
        # even if this process is killed.
        with open(output, "w", encoding="utf-8") as file:
            return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                    env=self.environment | environment, cwd=self.folder,
                                    stdin=subprocess.DEVNULL, stdout=file,
                                    stderr=subprocess.STDOUT)

    def _wait_until(self, what, *command, says=""):
        def there():
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise RuntimeError(f"{name} ended; {self.words()}")
            status, output = self.run(*command)
            return status == 0 and says in output
        wait_for(there, lambda: f"in vain: {what}; {self.words()}")
