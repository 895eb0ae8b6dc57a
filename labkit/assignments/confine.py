"""Walls around a process that runs a student's code, put up from inside, before the first line of that code.

Each wall is asked for and may be refused: an old kernel, a container, another system. `build` says which ones stand, so
that the report of a grading can say what did not hold. None of them needs rights of an administrator.

- **limits** (every POSIX system): processor time, memory (``RLIMIT_AS``; macOS takes it and does not enforce it: there
  the parent watches the resident memory instead), size of a file, open files, no core dump.
- **network namespace** (Linux, where users may make one): no interface but an unused loopback.
- **files** (Linux 5.13 and later, Landlock): only Python's own files, labkit and the system's libraries can be read,
  only the process' own folder can be written, and no other process can be looked into.
- **system calls** (Linux on x86-64 and ARM64, seccomp): no new process, no other program, no socket that leaves the
  machine, no signal to another process, no debugger, no say in who gets the processor, no file without a folder,
  no memory without a process.
- **hook** (every system): Python's audit hook. It is the one that tells what was tried, and the only one against
  reading files where Landlock is missing. Code that calls the system past Python evades it, but not the other walls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

#: What does not hold where a wall is missing.
MISSING = {
    "limits": "the system does not limit memory: the resident memory is watched five times a second instead",
    "network namespace": "no network namespace: the filter of system calls and Python's hook alone refuse connections",
    "files": "no Landlock: reading other files is refused by Python's hook alone, and native code can get past it",
    "system calls": "no filter of system calls: new processes are refused by Python's hook alone",
}

_NEW_USER, _NEW_NET, _NEW_IPC = 0x10000000, 0x40000000, 0x08000000
_PDEATHSIG, _DUMPABLE, _NO_NEW_PRIVS, _SECCOMP = 1, 4, 38, 22

# Landlock: system calls have the same numbers on every architecture since 5.1.
_RULESET, _RULE, _RESTRICT = 444, 445, 446
_FILE_READ, _FILE_ALL = 1 << 0 | 1 << 2 | 1 << 3, (1 << 13) - 1
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
#: Rights by version of Landlock: 13 in the first, then moving files, truncating, and device calls.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}

#: Numbers of system calls; ARM64 has neither fork nor vfork.
_CALLS = {
    "x86_64": (
        0xC000003E,
        {
            **{"clone": 56, "clone3": 435, "kill": 62, "tgkill": 234, "tkill": 200, "socket": 41},
            **{"prlimit64": 302, "sched_setaffinity": 203, "prctl": 157},
        },
        # fork vfork execve execveat ptrace process_vm_readv _writev connect bind unshare setns io_uring_setup
        # pidfd_open pidfd_send_signal pidfd_getfd mount bpf perf_event_open rt_sigqueueinfo rt_tgsigqueueinfo keyctl
        # setpriority ioprio_set sched_setparam sched_setscheduler sched_setattr memfd_create shmget msgget
        (
            *(57, 58, 59, 322, 101, 310, 311, 42, 49, 272, 308, 425, 434, 424, 438, 165, 321, 298, 129, 297, 250),
            *(141, 251, 142, 144, 314, 319, 29, 68),
        ),
    ),
    "aarch64": (
        0xC00000B7,
        {
            **{"clone": 220, "clone3": 435, "kill": 129, "tgkill": 131, "tkill": 130, "socket": 198},
            **{"prlimit64": 261, "sched_setaffinity": 122, "prctl": 167},
        },
        (
            *(221, 281, 117, 270, 271, 203, 200, 97, 268, 425, 434, 424, 438, 40, 280, 241, 138, 240, 219),
            *(140, 30, 118, 119, 274, 279, 194, 186),
        ),
    ),
}


def build(
    home: Path, readable: Sequence[Path], forbidden: Sequence[Path], cpu_s: int, memory_mb: int, say: Callable
) -> dict[str, bool]:
    """Put up every wall that this system has; return which ones stand, by name.

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
    say : callable
        Called with ``(what, sentence)`` when something forbidden was tried. It must not return.
    """
    stand = {"limits": _limit(cpu_s, memory_mb), "hook": True}
    stand["network namespace"] = _without_network()
    stand["files"] = _files(home, readable)
    stand["system calls"] = _system_calls()
    _hook(home, readable, forbidden, say, files=not stand["files"], processes=not stand["system calls"])
    return stand


def die_with_parent(parent: int) -> None:
    """End this process when its parent ends, even if that was killed (Linux); at once if it is gone already."""
    if sys.platform == "linux":
        _libc().prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _limit(cpu_s: int, memory_mb: int) -> bool:
    size = memory_mb << 20
    wanted = {
        "RLIMIT_CPU": (cpu_s, cpu_s + 1),
        "RLIMIT_AS": (size, size),
        "RLIMIT_FSIZE": (64 << 20, 64 << 20),
        "RLIMIT_CORE": (0, 0),
        "RLIMIT_NOFILE": (256, 256),
    }
    try:
        for name, limit in wanted.items():
            resource.setrlimit(getattr(resource, name), limit)
    except (ValueError, OSError):
        return False
    return sys.platform == "linux"


def _without_network() -> bool:
    if sys.platform != "linux":
        return False
    return _libc().unshare(_NEW_USER | _NEW_NET | _NEW_IPC) == 0


def _files(home: Path, readable: Sequence[Path]) -> bool:
    if sys.platform != "linux":
        return False
    libc = _libc()
    version = libc.syscall(_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    every = (1 << _RIGHTS.get(version, 16)) - 1
    attributes = struct.pack("=Q", every)
    ruleset = libc.syscall(_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    read = (_EXECUTE | _READ | _LIST) & every
    rules = [(home, every), *((path, read) for path in (*readable, *_system()))]
    for device in ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"):
        rules.append((Path(device), _READ | _WRITE))
    for path, rights in rules:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        if not path.is_dir():
            rights &= _EXECUTE | _WRITE | _READ
        libc.syscall(_RULE, ruleset, 1, struct.pack("=Qi", rights, handle), 0)
        os.close(handle)
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = libc.syscall(_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return done


def _system() -> list[Path]:
    """Return what libraries read of a system; of ``/proc`` only this process and the machine, never its parent."""
    names = [
        "/lib",
        "/lib32",
        "/lib64",
        "/usr/lib",
        "/usr/lib32",
        "/usr/lib64",
        "/usr/share",
        "/usr/local/lib",
        "/sys",
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/etc/nsswitch.conf",
    ]
    names += ["/etc/fonts", "/etc/ssl", "/etc/passwd", "/etc/group", "/nix/store"]
    names += [f"/proc/{name}" for name in (os.getpid(), "cpuinfo", "meminfo", "stat", "sys", "filesystems", "version")]
    return [Path(name) for name in names if os.path.exists(name)]


def _system_calls() -> bool:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _CALLS or sys.maxsize < 2**32:
        return False
    architecture, calls, refused = _CALLS[machine]
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, refuse, absent = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    number, arch, first = 0, 4, 16
    own = os.getpid()
    # Each rule is (code, value, jump if true, jump if false), as the kernel wants them.
    program = [(load, arch, 0, 0), (equal, architecture, 1, 0), (answer, 0x80000000, 0, 0), (load, number, 0, 0)]
    if machine == "x86_64":  # the same calls once more, under other numbers
        program += [(at_least, 0x40000000, 0, 1), (answer, refuse, 0, 0)]
    for call in refused:
        program += [(equal, call, 0, 1), (answer, refuse, 0, 0)]
    # The C library falls back to clone, whose flags can be looked at: threads are allowed, processes are not.
    program += [(equal, calls["clone3"], 0, 1), (answer, absent, 0, 0)]
    program += [(equal, calls["clone"], 0, 4), (load, first, 0, 0), (any_bit, 0x00010000, 0, 1), (answer, allow, 0, 0)]
    program += [(answer, refuse, 0, 0)]
    # A socket for the internet ends the process: who asks the system for one, past Python, means it.
    program += [(equal, calls["socket"], 0, 6), (load, first, 0, 0), (equal, int(socket.AF_UNIX), 0, 1)]
    program += [(answer, allow, 0, 0), (equal, int(socket.AF_INET), 0, 1), (answer, 0x80000000, 0, 0)]
    program += [(answer, refuse, 0, 0)]
    others = {"kill": own, "tgkill": own, "tkill": own, "prlimit64": 0, "sched_setaffinity": 0}
    for name, oneself in others.items():  # process 0 is oneself for the last two
        program += [(equal, calls[name], 0, 5), (load, first, 0, 0), (equal, own, 1, 0)]
        program += [(equal, oneself, 0, 1), (answer, allow, 0, 0), (answer, refuse, 0, 0)]
    # The grader looks at its open files; a process that says it is not dumpable hides them.
    program += [(equal, calls["prctl"], 0, 4), (load, first, 0, 0), (equal, _DUMPABLE, 0, 1)]
    program += [(answer, refuse, 0, 0), (answer, allow, 0, 0)]
    program += [(answer, allow, 0, 0)]
    code = b"".join(struct.pack("=HBBI", op, true, false, value) for op, value, true, false in program)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = _libc()
    libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    described = Program(len(program), ctypes.cast(buffer, ctypes.c_void_p))
    return libc.prctl(_SECCOMP, 2, ctypes.byref(described), 0, 0) == 0


_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto"}
_NETWORK |= {"socket.sendmsg", "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect"}
_FORKS = {"os.fork", "os.forkpty"}
_PROGRAMS = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"}
_FILES = {"open", "os.listdir", "os.scandir", "os.chdir", "os.walk", "os.rename", "os.remove", "os.link", "os.symlink"}
_FILES |= {"sqlite3.connect", "shutil.copyfile", "shutil.copytree", "os.truncate", "os.chmod"}


# What is used where the hook runs is bound before it is set: a student may replace any name of any module later.
def _hook(home: Path, readable: Sequence[Path], forbidden: Sequence[Path], say: Callable, **alone: bool) -> None:
    real, join, text, internet = os.path.realpath, os.path.join, os.fsdecode, int(socket.AF_INET)
    status, directory = os.stat, stat.S_ISDIR
    kinds, refused = (str, bytes, os.PathLike), PermissionError
    banned = tuple(real(path) + os.sep for path in forbidden)
    inside = tuple(real(path) + os.sep for path in (home, *readable, *_system()))
    own, at_home = f"/proc/{os.getpid()}/", real(home) + os.sep
    busy = held = False

    def hook(event: str, arguments: tuple) -> None:
        nonlocal busy
        if event in _NETWORK:
            say("network", f"tried to use the network {event}")
        elif event == "socket.__new__" and arguments[1] == internet:
            # The version 6 is merely refused: some libraries try whether there is one when they are imported.
            say("network", "tried to use the network socket")
        elif event in _FORKS:
            say("processes", "tried to start processes os.fork")
        elif event in _PROGRAMS and alone["processes"]:
            raise refused(f"{event} is not allowed here")
        elif event in _FILES and not busy and arguments and isinstance(arguments[0], kinds):
            busy = True  # finding out where a path leads opens nothing, but may be watched, too
            try:
                name = text(arguments[0])
                # A path may lead on from a folder that is open (`dir_fd`), and the event does not tell from which.
                paths = [real(name), *([real(join(at_home, name))] if held else [])]
            except (ValueError, OSError):
                return
            finally:
                busy = False
            for path in paths:
                look_at(event, path)

    def look_at(event: str, path: str) -> None:
        nonlocal held
        folder = alone["files"] and event == "open" and is_folder(path)
        if (path + os.sep).startswith(at_home):
            held = held or folder
            return
        if (path + os.sep).startswith(banned) or path.endswith(("gradebook.db", "nbgrader_config.py")):
            say("answers", f"tried to read the answers or the work of others {event} {path}")
        other = path.startswith("/proc/") and path[6:].split("/")[0].isdigit() and not (path + "/").startswith(own)
        if other:
            say("answers", f"tried to look into another process {path}")
        if alone["files"] and event == "open":
            # From a folder that is open, a path leads everywhere.
            devices = path.startswith(("/dev/", "/etc/", "/System/", "/Library/"))
            if folder or not (devices or (path + os.sep).startswith(inside)):
                raise refused(f"{path} cannot be read here")

    def is_folder(path: str) -> bool:
        try:
            return directory(status(path).st_mode)
        except OSError:
            return False

    sys.addaudithook(hook)
