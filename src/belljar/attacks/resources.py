"""Attacks on what is shared: memory, disk, inodes, descriptors, output, time."""

from __future__ import annotations

import resource

from belljar.attacks.case import EVERYWHERE, Cases, Trial

attack = Cases()
WAIT_FOREVER = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"


@attack("N24", "a memory bomb ends at the limit, in one process or in many", memory_mb=64)
def memory_bomb(trial: Trial) -> str:
    one = trial.run("""
        hoard = []
        while True:
            hoard.append(bytearray(b"x" * (4 << 20)))
    """)
    first = trial.expect_status(one, "out_of_memory")
    trial.expect_usable()
    many = trial.run("""
        for _ in range(8):
            if os.fork() == 0:
                hoard = bytearray(b"x" * (16 << 20))
                time.sleep(1000)
        hoard = b"".join(bytes(1 << 20) for _ in range(40))
        time.sleep(1)
    """, timeout=2)  # fmt: skip
    second = trial.expect_status(many, "out_of_memory", "ok", "timeout", "crashed")
    peak = max(one.usage.peak_memory_bytes, many.usage.peak_memory_bytes) >> 20
    trial.expect(peak <= trial.limits.memory_mb + 4, f"{peak} MB were used")
    trial.expect_usable()
    return f"{first} in one process, {second} in many, {peak} MB at most"


@attack(
    "N25",
    "memory outside the heap counts too: shared memory, memfd and pipes end at the limit",
    memory_mb=64,
    disk_mb=256,
)
def memory_outside_the_heap(trial: Trial) -> str:
    execution = trial.run("""
        import mmap
        held = [os.memfd_create("x"), *(os.open(name, os.O_RDWR | os.O_CREAT) for name in ("/dev/shm/x", "/tmp/x"))]
        shared = mmap.mmap(-1, 512 << 20)
        for at in range(0, 512 << 20, 1 << 20):
            shared[at:at + (1 << 20)] = b"x" * (1 << 20)
            for descriptor in held:
                os.write(descriptor, b"x" * (1 << 20))
    """)
    status = trial.expect_status(execution, "out_of_memory", "error", "crashed")
    peak = execution.usage.peak_memory_bytes >> 20
    trial.expect(peak <= trial.limits.memory_mb + 4, f"{peak} MB were used")
    trial.sandbox.files.list()
    return f"{status}, {peak} MB at most"


@attack("N26", "filling the disk stops at the quota, and the files API still answers", engines=EVERYWHERE)
def fill_the_disk(trial: Trial) -> str:
    execution = trial.run("""
        total, ends = 0, {}
        folders = ["/workspace", "/tmp", "/home/sandbox", *["/dev/shm"] * (sys.platform != "emscripten")]
        for folder in folders:
            with open(folder + "/full", "wb", buffering=0) as file:
                while folder not in ends:
                    try: total += file.write(b"x" * 65536)
                    except OSError as failure: ends[folder] = errno.errorcode[failure.errno]
        [total, ends]
    """)
    total, ends = execution.value or (0, {})
    trial.expect(set(ends.values()) <= {"ENOSPC", "EDQUOT", "EFBIG"} and len(ends) > 2, f"it ended with {ends}")
    trial.expect(total <= trial.limits.disk_mb << 20, f"{total:,} bytes were written")
    try:
        trial.sandbox.files.write("more.txt", "x" * 10_000)
        trial.problems.append("the host could write to a full disk")
    except Exception as failure:
        trial.expect(type(failure).__name__ == "DiskFull", f"the host's write ended with {failure!r}")
    trial.expect(len(trial.sandbox.files.read("full")) > 0, "the file cannot be read")
    trial.sandbox.files.delete("full")
    trial.sandbox.files.write("more.txt", "x" * 10_000)
    trial.expect_usable()
    return f"{total >> 20} MB, then {', '.join(sorted(set(ends.values())))}"


@attack("N27", "filling inodes and descriptors stops at their limits")
def fill_inodes(trial: Trial) -> str:
    execution = trial.run("""
        def exhaust(act):
            made = 0
            while True:
                try: act(made); made += 1
                except OSError as failure: return [made, errno.errorcode[failure.errno]]
        [exhaust(lambda n: open("/workspace/%d" % n, "w").close()), exhaust(lambda n: os.open("/dev/null", 0))]
    """, timeout=3)  # fmt: skip
    files, descriptors = execution.value or ((1 << 30, "?"), (1 << 30, str(execution.error)))
    trial.expect(files[1] in ("ENOSPC", "EDQUOT") and files[0] < 100_000, f"files: {files}")
    trial.expect(descriptors[1] == "EMFILE" and descriptors[0] < 70_000, f"descriptors: {descriptors}")
    trial.expect(len(trial.sandbox.files.list()) == files[0], "the listing is not complete")
    trial.expect_usable()
    return f"{files[0]} files, {descriptors[0]} descriptors"


@attack("N29", "an output flood is cut at its cap and does not grow the host", timeout_s=2, engines=EVERYWHERE)
def flood_output(trial: Trial) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    execution = trial.run("""
        block = "x" * 10**6
        while True:
            print(block)
            print(block, file=sys.stderr)
    """)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    status = trial.expect_status(execution, "timeout")
    size = len(execution.stdout) + len(execution.stderr)
    trial.expect(execution.truncated, "it does not say truncated")
    trial.expect(size <= int(trial.limits.output_mb * (1 << 20)), f"{size:,} bytes came out")
    trial.expect(grown < 32, f"the host grew by {grown} MB")
    trial.expect_usable()
    return f"{status}, truncated at {size:,} bytes"


@attack("N30", "a flood of tiny writes and of refused calls does not hold up anybody", timeout_s=2, processes=12)
def flood_small(trial: Trial) -> str:
    execution = trial.run("""
        import threading
        def flood():
            while True: tried(call, "unshare", 0x10000000)
        for _ in range(8):
            threading.Thread(target=flood, daemon=True).start()
        while True: os.write(2, b"x")
    """)
    status = trial.expect_status(execution, "timeout")
    trial.expect_usable()
    return status


@attack(
    "N34",
    "sleeping in C, reading and selecting on nothing end at the deadline, input() at once",
    engines=EVERYWHERE,
    timeout_s=1,
)
def sleep_forever(trial: Trial) -> str:
    statuses = set()
    codes = ["time.sleep(1e9)"]
    if trial.sandbox.engine == "native":
        codes += ["import select; select.select([], [], [])", "os.read(os.pipe()[0], 1)", "call('pause')"]
    else:  # one thread, and nothing underneath that could block: only its own waiting is left
        codes += ["import asyncio; await asyncio.sleep(1e9)", f"script({WAIT_FOREVER!r})"]
    for code in codes:
        execution = trial.run(code)
        statuses.add(trial.expect_status(execution, "timeout"))
    asked = trial.run("input('name? ')")
    trial.expect(
        asked.error is not None and asked.error.name == "EOFError", f"input() gave {asked.status} {asked.error}"
    )
    trial.expect_usable()
    return f"{', '.join(statuses)}; EOFError"


@attack("N35", "a hot loop in C that never looks at signals is killed at the deadline", timeout_s=1)
def busy_in_c(trial: Trial) -> str:
    execution = trial.run("x = 3 ** (1 << 28); len(str(x))")
    status = trial.expect_status(execution, "timeout", "error")
    trial.expect_usable()
    return status
