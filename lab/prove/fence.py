"""A fence for a process that runs a cell again: no privileges and no packages, ctypes alone; Linux only.

Inside it the process changes no file outside one folder, opens no socket, starts no program, signals nobody, and holds
none of its parent's descriptors. Landlock keeps the files, a seccomp filter the system calls, resource limits the
memory and the time.

Source: landlock(7), seccomp(2), bpf(4) of the Linux manual pages.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys

from .descriptors import CannotFence, libc, own_descriptors, own_shared_memory

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READS = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder: what stays allowed everywhere
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1}  # of files, by landlock's version
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_CLONE_THREAD = 0x10000

# What is refused with EPERM: (x86-64, arm64), None where the machine has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202),
    "accept4": (288, 242), "sendto": (44, 206), "sendmsg": (46, 211), "sendmmsg": (307, 269),
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "ptrace": (101, 117), "process_vm_writev": (311, 271), "process_madvise": (440, 440),
    "truncate": (76, 45), "chmod": (90, None), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "lchown": (94, None), "fchownat": (260, 54), "fchmod": (91, 52), "fchown": (93, 55),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "mount": (165, 40), "umount2": (166, 39), "move_mount": (429, 429), "open_tree": (428, 428), "fsopen": (430, 430),
    "mount_setattr": (442, 442), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_by_handle_at": (304, 265),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "io_uring_setup": (425, 425), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "acct": (163, 89), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "quotactl": (179, 60),
}  # fmt: skip
_OWN_ONLY = {"prlimit64": (302, 261), "sched_setaffinity": (203, 122)}  # allowed where the first argument is 0: itself
_CLONE, _CLONE3 = (56, 220), (435, 435)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

# instructions of classic BPF: load a word of the call's description, compare, return
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_LOW, _FIRST_HIGH = 0, 4, 16, 20  # offsets in struct seccomp_data
_ALLOW, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050001, 0x00050000 | 38


def missing() -> str:
    """Return why no fence can be had on this machine; "" where one can."""
    if not sys.platform.startswith("linux"):
        return f"a trial needs Linux, and this is {platform.system()}"
    if platform.machine() not in _ARCHITECTURES:
        return f"no fence is known for {platform.machine()}"
    if libc.syscall(_LANDLOCK_CREATE, None, 0, 1) < 1:
        return "the kernel has no Landlock, which would keep a trial from changing files"
    return ""


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies; end it now where `parent` has died already."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def close_in(keep: set[int], folder: str, seconds: float, megabytes: int) -> None:
    """Put this process behind the fence: changes of files below `folder` alone, limits of time and memory.

    *Raises*: CannotFence; then nothing of the cell may be run.
    """
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own_shared_memory()
    own_descriptors(keep, folder)
    _limit(seconds, megabytes)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise CannotFence("privileges cannot be given up")
    _restrict_files(folder)
    _filter_calls()


def _limit(seconds: float, megabytes: int) -> None:
    with open("/proc/self/status") as lines:
        data = int(next(line.split()[1] for line in lines if line.startswith("VmData"))) << 10
    for what, most in (
        (resource.RLIMIT_DATA, data + (megabytes << 20)),  # RLIMIT_AS counts what is mapped and never touched
        (resource.RLIMIT_CPU, int(seconds * (os.cpu_count() or 1)) + 2),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 256 << 20),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def _restrict_files(folder: str) -> None:
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        raise CannotFence("the kernel has no Landlock")
    rights = _RIGHTS[min(version, 3)] & ~_READS
    if version >= 6:  # besides files: TCP, abstract sockets and signals
        attributes = struct.pack("QQQ", rights, 3, 3)
    elif version >= 4:
        attributes = struct.pack("QQ", rights, 3)
    else:
        attributes = struct.pack("Q", rights)
    rules = libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if rules < 0:
        raise CannotFence("Landlock takes no rules")
    try:
        for path, allowed in ((folder, rights), (os.devnull, (_WRITE_FILE | _TRUNCATE) & rights)):
            at = os.open(path, os.O_PATH | os.O_CLOEXEC)  # type: ignore[attr-defined,unused-ignore]
            added = libc.syscall(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, at), 0)
            os.close(at)
            if added < 0:
                raise CannotFence(f"Landlock takes no rule for {path}")
        if libc.syscall(_LANDLOCK_RESTRICT, rules, 0) < 0:
            raise CannotFence("Landlock is not allowed here")
    finally:
        os.close(rules)


def program(machine: str) -> bytes:
    """Return the filter of system calls for a machine, as the kernel reads it."""
    which, architecture = _ARCHITECTURES[machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _EPERM), (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _EPERM),  # the numbers of x32
        # a new thread may begin; a new process may not, and clone3 says that it is not there, so that libc asks clone
        (_EQUAL, 0, 4, _CLONE[which]), (_LOAD, 0, 0, _FIRST_LOW), (_ANY_BIT, 0, 1, _CLONE_THREAD),
        (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM),
        (_EQUAL, 0, 1, _CLONE3[which]), (_RETURN, 0, 0, _ENOSYS),
    ]  # fmt: skip
    for numbers in _OWN_ONLY.values():
        code += [
            (_EQUAL, 0, 5, numbers[which]), (_LOAD, 0, 0, _FIRST_LOW), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _FIRST_HIGH),
            (_EQUAL, 1, 0, 0), (_RETURN, 0, 0, _EPERM),
        ]  # fmt: skip
        # an allowed call falls through with another word in the register: load the number again
        code.append((_LOAD, 0, 0, _NUMBER))
    for refused in _REFUSED.values():
        if (number := refused[which]) is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _filter_calls() -> None:
    text = program(platform.machine())
    kept = ctypes.create_string_buffer(text)
    described = struct.pack("HxxxxxxQ", len(text) // 8, ctypes.addressof(kept))
    if libc.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(described), 0, 0) != 0:
        raise CannotFence("the kernel takes no filter of system calls")
