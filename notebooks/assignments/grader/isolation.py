"""The protections that a process sets up for itself before it runs the first line of a student's code.

The system may refuse a protection: an old kernel, a container, another system. `isolate` returns the protections that
hold, so that the report of a grading can name the missing ones. None of them needs the rights of an administrator. If
bubblewrap is installed, the process already runs inside it (see `assignments.grader.bubblewrap`), and these protections
are a second layer. Without bubblewrap they are the only layer.

- **limits** (every POSIX system): processor time, memory (``RLIMIT_AS``; macOS takes it and does not enforce it: there
  the supervisor watches the resident memory instead), size of a file, open files, no core dump.
- **network** (Linux, where users may make namespaces): no interface but an unused loopback.
- **files** (Linux 5.13 and later, Landlock): only Python's own files, labkit and the system's libraries can be read,
  only the process' own folder can be written, and no other process can be looked into or, from Linux 6.12 on, be sent
  a signal.
- **system calls** (Linux with libseccomp): no new process, no other program, no socket that leaves the machine, no
  signal to another process, not even by an open file, no debugger, no say in who gets the processor, no file without a
  folder, no memory without a process. A call that locks a file succeeds, but locks nothing. Outside of bubblewrap, so
  does a call that changes the mode, owner, times or attributes of a file.
- **kernel**: from Landlock 6 on the kernel itself refuses to empty a file by its name, and signals and messages to
  other processes. Before Landlock 6, only lists of system calls refuse them, and a list may miss a call.
- **hook** (every system): Python's audit hook. Only the hook reports what was tried, and without Landlock only the hook
  refuses to read files. Code that calls the system without Python evades the hook, but not the other protections.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

#: Bytes of one file, and of all files of a submission.
MOST_FILE, MOST_WRITTEN = 64 << 20, 512 << 20

#: The consequence of each missing protection.
MISSING = {
    "bubblewrap": "bubblewrap is not installed, or may not be started here (on Debian or Ubuntu: apt install "
    "bubblewrap): students' code runs beside the other processes and files, behind lists of what it must not do",
    "limits": "the system does not limit memory: the resident memory is watched five times a second instead",
    "network": "no network namespace: the filter of system calls and Python's hook alone refuse connections",
    "files": "no Landlock: to read, change or delete other files is refused by Python's hook alone, and native code "
    "can get past it",
    "system calls": "no filter of system calls: new processes, and signals to the grader, are refused by Python's hook "
    "alone",
    "kernel": "the kernel is older than Linux 6.12 (Landlock 6): emptying a file, signals and messages to other "
    "processes, are refused by lists of system calls alone, not by the kernel's own rules",
}


def summary(holds: dict[str, bool]) -> str:
    """Return a line about which protections held, as `isolate` returns them: a loud one if any was missing."""
    missing = [f"{name}: {MISSING[name]}" for name, there in holds.items() if not there]
    if missing:
        return f"WARNING: not everything is limited on this machine. {'; '.join(missing)}"
    return "on this machine: students' code ran inside bubblewrap, and nothing was missing of what can protect it"


def isolate(
    home: Path,
    readable: Sequence[Path],
    forbidden: Sequence[Path],
    cpu_s: int,
    memory_mb: int,
    report: Callable[[str, str], None],
    in_bubblewrap: bool,
) -> dict[str, bool]:
    """Protect the machine from this process in every way that the system has; return which ones hold, by name.

    Parameters
    ----------
    home : Path
        The one folder that may be written.
    readable : sequence of Path
        Folders that may be read besides the system's libraries.
    forbidden : sequence of Path
        Where answers, grades and other students' work are. To try to read there is reported.
    cpu_s, memory_mb : int
        Processor time of all threads, and address space.
    report : callable
        Called with ``(what, sentence)`` when something forbidden was tried. It must not return.
    in_bubblewrap : bool
        Whether this process was started by bubblewrap.
    """
    holds = {"bubblewrap": in_bubblewrap, "limits": _limit(cpu_s, memory_mb)}
    holds["network"] = in_bubblewrap or _leave_network()
    version = _restrict_files(home, readable)
    landlock = version > 0
    holds["files"] = in_bubblewrap or landlock
    holds["kernel"] = in_bubblewrap or version >= _SCOPES_SINCE
    _drop_capabilities()
    # Inside bubblewrap only the machine's devices are shared: whoever owns them, as root does, could change their mode.
    holds["system calls"] = _filter_system_calls(
        shares_files=not in_bubblewrap, owns_files=not in_bubblewrap or os.geteuid() == 0
    )
    watch_events(
        home,
        readable,
        forbidden,
        report,
        guard_files=not holds["files"],
        guard_changes=not (holds["system calls"] and (in_bubblewrap or landlock)),
        guard_processes=not holds["system calls"],
    )
    return holds


def python_folders() -> list[Path]:
    """Return Python's own folders and those of its packages."""
    known = [Path(p) for p in sys.path if p and {"site-packages", "dist-packages"} & set(Path(p).parts)]
    return sorted({Path(sys.prefix), Path(sys.base_prefix)} | {p.resolve() for p in known if p.is_dir()})


def system_folders() -> list[Path]:
    """Return what libraries read of a system."""
    folders = "/lib /lib32 /lib64 /usr/lib /usr/lib32 /usr/lib64 /usr/share /usr/local/lib /sys /nix/store"
    files = "/etc/ld.so.cache /etc/localtime /etc/nsswitch.conf /etc/fonts /etc/ssl /etc/passwd /etc/group"
    return [Path(name) for name in f"{folders} {files}".split() if os.path.exists(name)]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _limit(cpu_s: int, memory_mb: int) -> bool:
    size = memory_mb << 20
    wanted = {
        "RLIMIT_CPU": (cpu_s, cpu_s + 1),
        "RLIMIT_AS": (size, size),
        "RLIMIT_FSIZE": (MOST_FILE, MOST_FILE),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (256, 256),
    }
    try:
        for name, limit in wanted.items():
            resource.setrlimit(getattr(resource, name), limit)
    except (ValueError, OSError):
        return False
    return sys.platform == "linux"


# linux/sched.h
_NEW_USER, _NEW_NET, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000


def _leave_network() -> bool:
    return sys.platform == "linux" and _libc().unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0


# linux/landlock.h; its system calls have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
#: How many rights to files each version of Landlock knows: 13 at first, then moving, truncating, and device calls.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
#: From these versions on it knows rights to TCP, and refuses abstract sockets of, and signals to, other processes.
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_NO_NEW_PRIVILEGES = 38  # linux/prctl.h


def _restrict_files(home: Path, readable: Sequence[Path]) -> int:
    """Let Landlock restrict this process; return the version that does, or 0."""
    if sys.platform != "linux":
        return 0
    libc = _libc()
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return 0
    every = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("=QQQ", every, 3 * (version >= _TCP_SINCE), 3 * (version >= _SCOPES_SINCE))
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return 0
    # Of /proc only this process and the machine, never its parent.
    proc = [f"/proc/{name}" for name in (os.getpid(), *"cpuinfo meminfo stat sys filesystems version".split())]
    rules = {Path(path): _EXECUTE | _READ | _LIST for path in (*proc, *system_folders(), *readable)}
    rules |= {Path("/dev", name): _READ | _WRITE for name in ("null", "zero", "urandom", "random")}
    for path, rights in (rules | {home: every}).items():
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        rights &= every if path.is_dir() else _EXECUTE | _WRITE | _READ
        libc.syscall(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
        os.close(handle)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    done = libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return version if done else 0


def _drop_capabilities() -> None:
    """Give up what root may do, and what a namespace of one's own gives."""
    if sys.platform == "linux":
        header = struct.pack("=Ii", 0x20080522, 0)  # linux/capability.h, version 3
        _libc().capset(header, bytes(24))


#: System calls that are refused whatever their arguments are.
_REFUSED = """
    fork vfork execve execveat ptrace process_vm_readv process_vm_writev pidfd_open pidfd_send_signal pidfd_getfd
    rt_sigqueueinfo rt_tgsigqueueinfo connect bind io_uring_setup mount umount2 pivot_root chroot move_mount open_tree
    fsopen mount_setattr unshare setns bpf perf_event_open keyctl add_key request_key setpriority ioprio_set
    sched_setparam sched_setscheduler sched_setattr migrate_pages move_pages memfd_create memfd_secret shmget msgget
    semget mq_open settimeofday clock_settime adjtimex clock_adjtime reboot kexec_load kexec_file_load init_module
    finit_module delete_module swapon swapoff sethostname setdomainname acct iopl ioperm syslog mknod mknodat
    open_by_handle_at name_to_handle_at fanotify_init userfaultfd quotactl quotactl_fd kcmp process_madvise
    process_mrelease lookup_dcookie vhangup inotify_init inotify_init1
""".split()
#: System calls that change what stands beside a file's content. Landlock does not know them.
_CHANGES = """
    chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr
    fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr
""".split()
#: Newer system calls, which an older libseccomp cannot name. They have one number on every architecture.
_NUMBERS = {
    **{"pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430},
    **{"pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442},
    **{"memfd_secret": 447, "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469},
}
# linux/prctl.h, linux/fcntl.h, linux/sockios.h, linux/fs.h, linux/sched.h, linux/close_range.h
_SET_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX, _SET_LEASE, _NOTIFY = 8, 10, 15, 1024, 1026
_SET_HINT, _SET_FILE_HINT = 1036, 1038
_SET_SOCKET_OWNER, _SET_SOCKET_GROUP = 0x8901, 0x8902
#: What an open file can be asked for that reaches other processes, by Python's name of the call.
_OF_OPEN_FILES = {
    "fcntl.fcntl": (_SET_OWNER, _SET_SIGNAL, _SET_OWNER_EX, _SET_LEASE, _NOTIFY, _SET_HINT, _SET_FILE_HINT),
    "fcntl.ioctl": (_SET_SOCKET_OWNER, _SET_SOCKET_GROUP),
}
_LOCKS = (6, 7, 37, 38)  # fcntl's: of a process and of an open file, waiting and not
#: Device calls that file systems answer: the letter in their middle byte.
_OF_FILES = (ord("f"), ord("v"), ord("X"), 0x94)
_SHARES_FILES, _IS_THREAD, _OWN_TABLE = 0x400, 0x10000, 2
# seccomp.h
_ALLOW, _KILL, _ANSWER = 0x7FFF0000, 0x80000000, 0x00050000
_NOT_EQUAL, _EQUAL_BITS = 1, 7
_OTHER_ARCHITECTURE, _ALL_THREADS = 2, 4
_INT = 0xFFFFFFFF  # the kernel looks at the lower half of a register only


class _Comparison(ctypes.Structure):
    """The third and fourth fields are the mask and the value of `_EQUAL_BITS`, else the value and nothing."""

    _fields_ = (("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def _filter_system_calls(shares_files: bool, owns_files: bool) -> bool:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(_ALLOW)))
    refuse, own = _ANSWER | errno.EPERM, os.getpid()
    rules = [(name, refuse, ()) for name in _REFUSED]
    if owns_files:
        rules += [(name, _ANSWER, ()) for name in _CHANGES]
    if shares_files:  # the first versions of Landlock do not know how files are emptied
        rules += [("truncate", refuse, ()), ("openat2", _ANSWER | errno.ENOSYS, ())]
        # A file is emptied, too, where it is opened for reading, or for device calls alone.
        rules += [
            (name, refuse, (position, _EQUAL_BITS, os.O_TRUNC | os.O_ACCMODE, os.O_TRUNC | mode))
            for name, position in (("open", 1), ("openat", 2))
            for mode in (os.O_RDONLY, os.O_ACCMODE)
        ]
    # The C library falls back to clone, whose flags can be looked at: threads are allowed, processes are not.
    rules += [("clone3", _ANSWER | errno.ENOSYS, ()), ("clone", refuse, (0, _EQUAL_BITS, _IS_THREAD, 0))]
    # A thread with a table of its own would hold open files where the supervisor does not count them.
    rules += [("clone", refuse, (0, _EQUAL_BITS, _SHARES_FILES, 0))]
    rules += [("close_range", refuse, (2, _EQUAL_BITS, _OWN_TABLE, _OWN_TABLE))]
    # A file that can only be read could be locked, too: others would wait for the lock, or get a message by it. Notes
    # that the system keeps with a file in memory, and notices of its opening, could carry messages, too.
    rules += [("flock", _ANSWER, ()), *(("fcntl", _ANSWER, (1, _EQUAL_BITS, _INT, it)) for it in _LOCKS)]
    # Refused, and no more: libraries ask for sockets by themselves, and do without.
    rules += [("socket", refuse, ())]
    # A pair of sockets is needed by asyncio. One for datagrams could send them to any socket that has a name.
    rules += [("socketpair", refuse, (1, _EQUAL_BITS, 15, kind)) for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW)]
    rules += [(name, refuse, (0, _NOT_EQUAL, own, 0)) for name in ("kill", "tgkill", "tkill")]
    rules += [(name, refuse, (0, _NOT_EQUAL, 0, 0)) for name in ("prlimit64", "sched_setaffinity")]
    # The supervisor looks at its open files, which a process that is not dumpable hides.
    rules += [("prctl", refuse, (0, _EQUAL_BITS, _INT, it)) for it in (_SET_DEATH_SIGNAL, _SET_DUMPABLE)]
    # An open file can be set to send any signal to any process. A process that opens a leased file waits up to 45 s.
    rules += [("fcntl", refuse, (1, _EQUAL_BITS, _INT, it)) for it in _OF_OPEN_FILES["fcntl.fcntl"]]
    rules += [("ioctl", refuse, (1, _EQUAL_BITS, _INT, it)) for it in _OF_OPEN_FILES["fcntl.ioctl"]]
    rules += [("ioctl", refuse, (1, _EQUAL_BITS, 0xFF00, letter << 8)) for letter in _OF_FILES]
    failed = library.seccomp_attr_set(context, _OTHER_ARCHITECTURE, ctypes.c_uint32(_KILL))
    failed |= library.seccomp_attr_set(context, _ALL_THREADS, ctypes.c_uint32(1))
    for name, action, condition in rules:
        number = library.seccomp_syscall_resolve_name(name.encode())
        number = _NUMBERS.get(name, -1) if number < 0 else number
        compared = ctypes.byref(_Comparison(*condition)) if condition else None
        if number >= 0:  # an architecture may lack old calls, as ARM64 has no fork
            added = library.seccomp_rule_add_array(context, ctypes.c_uint32(action), number, bool(condition), compared)
            failed |= added
    failed = failed or library.seccomp_load(context)
    library.seccomp_release(context)
    return failed == 0


_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto"}
_NETWORK |= {"socket.sendmsg", "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect"}
_FORKS = {"os.fork", "os.forkpty"}
_PROGRAMS = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
#: What changes a file or a folder; of what moves or links, the second argument is a path, too.
_CHANGED = {"os.chmod", "os.chown", "os.chflags", "os.utime", "os.setxattr", "os.removexattr", "os.truncate"}
_CHANGED |= {"os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect"}
_MOVED = {"os.rename", "os.link", "os.symlink"}
_FILES = {"open", "os.listdir", "os.scandir", "os.chdir", "os.walk"}
_FILES |= {"shutil.copyfile", "shutil.copytree", *_CHANGED, *_MOVED}
_DEVICES = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}
_SIGNALS = {"os.kill", "os.killpg"}


# All names that the hook uses are bound before it is set: a student may replace any name of any module later.
def watch_events(
    home: Path,
    readable: Sequence[Path],
    forbidden: Sequence[Path],
    report: Callable[[str, str], None],
    *,
    guard_files: bool,
    guard_changes: bool,
    guard_processes: bool,
) -> None:
    """Report what Python's events tell of forbidden attempts; the last three refuse what nothing else refuses here."""
    real, join, text = os.path.realpath, os.path.join, os.fsdecode
    internet = (int(socket.AF_INET), int(socket.AF_INET6))
    status, directory = os.stat, stat.S_ISDIR
    kinds, refused = (str, bytes, os.PathLike), PermissionError
    absent, no_such_file = FileNotFoundError, (errno.ENOENT, os.strerror(errno.ENOENT))
    banned = tuple(real(path) + os.sep for path in forbidden)
    inside = tuple(real(path) + os.sep for path in (home, *readable, *system_folders()))
    number = os.getpid()
    own, at_home = f"/proc/{number}/", real(home) + os.sep
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    busy = held = False

    def hook(event: str, arguments: tuple) -> None:
        nonlocal busy
        if event in _NETWORK or (event == "socket.__new__" and arguments[1] in internet):
            raise refused("there is no network while a notebook is graded")
        elif event in _FORKS:
            report("processes", "tried to start processes os.fork")
        elif event in _PROGRAMS and guard_processes:
            raise refused(f"{event} is not allowed here")
        elif event in _SIGNALS and guard_processes and arguments[0] != number:
            raise refused("no signal can be sent to another process here")
        elif event in _OF_OPEN_FILES and guard_processes and arguments[1] & 0xFFFFFFFF in _OF_OPEN_FILES[event]:
            raise refused(f"{event} cannot set request {arguments[1]} here")
        elif event in _FILES and not busy and arguments:
            changes = event in _CHANGED or event in _MOVED or (event == "open" and bool(arguments[2] & writing))
            for position, argument in enumerate(arguments[: 2 if event in _MOVED else 1]):
                if isinstance(argument, kinds):
                    busy = True  # finding out where a path leads opens nothing, but may be watched, too
                    try:
                        name = text(argument)
                        uri = event == "sqlite3.connect" and name.startswith("file:")
                        # A path may lead on from a folder that is open (`dir_fd`); the event does not tell which.
                        paths = [real(name), *([real(join(at_home, name))] if held else [])]
                    except (ValueError, OSError):
                        return
                    finally:
                        busy = False
                    if uri and guard_changes:
                        raise refused(f"{name}: a database can be named by a path here, not by a URI")
                    for path in paths:
                        # What a link leads to is not changed by it.
                        look_at(event, path, changes and (event != "os.symlink" or position == 1))
                elif event in _CHANGED and guard_changes:
                    raise refused("an open file cannot be changed by its number here")

    def look_at(event: str, path: str, changes: bool) -> None:
        nonlocal held
        folder = guard_files and event == "open" and is_folder(path)
        place = path + os.sep
        if place.startswith(at_home):
            held = held or folder
            return
        # A folder may be readable and lie in one that is not, or the other way round: the closest one decides.
        closed = closest(banned, place) > closest(inside, place)
        if closed or path.endswith(("gradebook.db", "nbgrader_config.py")):
            report("answers", f"tried to read the answers or the work of others {event} {path}")
        if path.startswith("/proc/") and path[6:].split("/")[0].isdigit() and not place.startswith(own):
            if path.endswith("/stat"):  # psutil asks each process for it, labkit.setup() through it: there is no other
                raise absent(*no_such_file, path)
            report("answers", f"tried to look into another process {path}")
        if guard_changes and changes and not (event == "open" and path in _DEVICES):
            raise refused(f"{path} cannot be changed here")
        if guard_files and event == "open":
            # From a folder that is open, a path leads everywhere.
            devices = path.startswith(("/dev/", "/etc/", "/System/", "/Library/"))
            if folder or not (devices or place.startswith(inside)):
                raise refused(f"{path} cannot be read here")

    def closest(folders: tuple[str, ...], place: str) -> int:
        length = 0
        for folder in folders:
            if place.startswith(folder) and len(folder) > length:
                length = len(folder)
        return length

    def is_folder(path: str) -> bool:
        try:
            return directory(status(path).st_mode)
        except OSError:
            return False

    sys.addaudithook(hook)
