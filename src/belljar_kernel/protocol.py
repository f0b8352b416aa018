"""What both sides of the wall must agree on: messages with their fields, sizes and paths.

The host takes its checks of Events from here. `tools/protocol_ts.py` writes `protocol.ts` of the WebAssembly runtime.
`docs/protocol.md` explains all of it.
"""

from __future__ import annotations

PROTOCOL = 1  # counts up when a message that there was changes its meaning or goes away

# Types of fields, as JSON has them. A field that may be null may be left out, and one of ANY, too.
NULL = type(None)
ANY: tuple[type, ...] = ()
TEXT, WHOLE, NUMBER, FLAG, LIST, OBJECT = (str,), (int,), (int, float), (bool,), (list,), (dict,)
MAYBE_TEXT, MAYBE_WHOLE, MAYBE_OBJECT = (str, NULL), (int, NULL), (dict, NULL)

Fields = dict[str, tuple[type, ...]]

# About files of the workspace. The kernel answers these, and in WebAssembly the program around it.
FILE_REQUESTS: dict[str, Fields] = {
    "file_write": {"path": TEXT, "fresh": TEXT, "data": TEXT, "append": FLAG, "last": FLAG},
    "file_read": {"path": TEXT, "offset": WHOLE, "max": WHOLE},
    "file_list": {"path": TEXT, "max": WHOLE},
    "file_delete": {"path": TEXT},
}  # fmt: skip
# Requests have an `id`, and exactly one `done` with it. The kernel answers these; `fork` on the native engine only.
KERNEL_REQUESTS: dict[str, Fields] = {
    "configure": {
        "env": OBJECT, "path": LIST, "data_bytes": MAYBE_WHOLE, "results_bytes": WHOLE, "network": LIST, "warm": WHOLE,
    },
    "run": {
        "code": TEXT, "count": WHOLE, "stdin": MAYBE_TEXT, "env": OBJECT, "args": ANY, "cwd": MAYBE_TEXT,
    },
    "imports": {"code": MAYBE_TEXT, "names": LIST, "env": MAYBE_OBJECT, "cwd": MAYBE_TEXT},
    "complete": {"code": TEXT, "cursor": WHOLE},
    "variables": {},
    "save": {"max_bytes": WHOLE},
    "load": {"kind": TEXT, "names": LIST, "data": TEXT, "packed": FLAG, "last": FLAG},
    "fork": {},
    **FILE_REQUESTS,
}  # fmt: skip
# The program around a kernel in WebAssembly answers these.
PROGRAM_REQUESTS: dict[str, Fields] = {
    **FILE_REQUESTS,
    "file_restore": {
        "path": TEXT, "mode": WHOLE, "modified": NUMBER, "target": MAYBE_TEXT, "data": TEXT, "append": FLAG,
    },
    "file_mode": {"path": TEXT, "mode": WHOLE},
    "layer_part": {"data": TEXT},
    "layer_mount": {"tree": MAYBE_TEXT},
}  # fmt: skip
REQUESTS = {**KERNEL_REQUESTS, **PROGRAM_REQUESTS}

# Messages without `id` and `done`: `reply` is for the kernel, the others are for the program in WebAssembly.
ORDERS: dict[str, Fields] = {
    "reply": {"call_id": WHOLE, "value": ANY, "error": MAYBE_OBJECT},
    "interrupt": {},
    "leave": {"marker": TEXT},
}

# What `done` carries when the Request could be handled. A part of a `load` that is not the last has none of it.
DONE: dict[str, Fields] = {
    "run": {
        "status": TEXT, "error": MAYBE_OBJECT, "value": ANY, "exit_code": WHOLE, "files": LIST, "truncated": FLAG,
        "interrupted": FLAG,
    },
    "imports": {"missing": LIST, "imported": LIST},
    "complete": {"completions": LIST},
    "variables": {"variables": LIST},
    "save": {"parts": LIST, "saved": LIST, "skipped": OBJECT, "files_skipped": OBJECT, "python": TEXT},
    "load": {"loaded": LIST, "skipped": OBJECT},
    "fork": {"left": LIST},
    "file_read": {"data": TEXT, "end": FLAG},
    "file_list": {"entries": LIST},
}  # fmt: skip

PART_KINDS = ("sources", "files", "names")  # of the parts that `save` sends and `load` takes
# Why an act on a file did not work, in `failure`; `detail` says more of what is unknown.
FILE_FAILURES = ("missing", "full", "through", "folder", "special", "large", "deep", "many", "unknown")

# Events have the `id` of the open Request. The kernel sends these.
KERNEL_EVENTS: dict[str, Fields] = {
    "hello": {"protocol": WHOLE, "digest": TEXT, "python": TEXT},
    "stdout": {"text": TEXT},
    "stderr": {"text": TEXT},
    "result": {"data": OBJECT, "metadata": OBJECT, "main": FLAG},
    "state": {"part": WHOLE, "data": TEXT},
    "denial": {"kind": TEXT, "target": TEXT, "rule": TEXT, "hint": TEXT},
    "call": {"call_id": WHOLE, "name": TEXT, "args": OBJECT},
    "done": {},
}  # fmt: skip
# The jail of the native engine sends this on the kernel's channel, before there is a kernel.
JAIL_EVENTS: dict[str, Fields] = {"walls": {"pid": WHOLE}}
# The program in WebAssembly sends these by itself.
PROGRAM_EVENTS: dict[str, Fields] = {
    "ended": {"code": WHOLE},
    "file": {
        "path": TEXT, "mode": WHOLE, "modified": NUMBER, "target": MAYBE_TEXT, "data": TEXT, "append": FLAG,
    },
    "left": {},
}  # fmt: skip
EVENTS = {**KERNEL_EVENTS, **JAIL_EVENTS, **PROGRAM_EVENTS}
OUTPUT = ("stdout", "stderr")
REPORTED = (*OUTPUT, "result", "state", "denial", "call")  # what the sender of the open Request gets, as it comes

# Sizes of frames, and of what has to fit into them.
FRAME_BYTES = 32 << 20
FRAME_PARTS = 2_000_000  # a list of nothing is two bytes in a frame, and dozens in memory
FRAME_DEPTH = 100
RESULTS_BYTES = 16 << 20  # of a run
RESULT_PARTS = 1_400_000  # of a result, without its metadata
VALUE_BYTES = 1_000_000  # of the value of a run, as JSON
STATE_PIECE_BYTES = 6 << 20  # before base64
FILE_PIECE_BYTES = 1 << 20  # of a file on its way through the program, before base64
HANDED_PIECE_BYTES = 8 << 20  # of a file, or of a layer, that is handed over whole; before base64
CHANGED_FILES = 1000  # that a run reports
DENIALS = 100  # that a run reports
MISSING_NAMES = 50  # that `imports` reports
PATH_CHARS = 4096
FOLDER_LEVELS = 128  # of folders within folders in WebAssembly
LIST_LEVELS = 64  # of folders that a list goes down elsewhere

# Calls out of a run.
CALL_NAME_CHARS = 100
CALL_BYTES = 1 << 20  # of the arguments of a call, or of the value of a reply, as JSON
OPEN_CALLS = 64  # at once
MOST_CALLS = 100_000  # of a run
CALL_DEPTH = 90  # of the arguments or the value: the frame around them has levels of its own
CALL_NUMBERS = 1 << 53  # calls have numbers below this one; those of file systems in WebAssembly are negative
# Calls that the wasm engine answers itself, with their arguments. No name that a caller gives to a sandbox has a dot.
BUILTIN_CALLS: dict[str, Fields] = {
    "fetch.open": {"method": TEXT, "url": TEXT, "headers": LIST, "length": MAYBE_WHOLE, "redirects": WHOLE},
    "fetch.head": {"fetch": WHOLE},
    "fetch.write": {"fetch": WHOLE, "data": TEXT, "last": FLAG},
    "fetch.read": {"fetch": WHOLE},
    "fetch.close": {"fetch": WHOLE},
    "mount.look": {"mount": WHOLE, "path": TEXT},
    "mount.list": {"mount": WHOLE, "path": TEXT},
    "mount.more": {"handle": WHOLE},
    "mount.open": {"mount": WHOLE, "path": TEXT},
    "mount.size": {"handle": WHOLE},
    "mount.read": {"handle": WHOLE, "offset": WHOLE, "size": WHOLE},
    "mount.close": {"handle": WHOLE},
}
FETCH_PIECE_BYTES = 256 << 10  # of a body on its way, in either direction
MOUNT_PIECE_BYTES = 512 << 10  # of a file in a mounted folder that is read

CHANNEL = 3  # the descriptor of a kernel on which frames travel

# Where things are inside.
WORKSPACE = "/workspace"
HOME = "/home/sandbox"
TMP = "/tmp"
SHM = "/dev/shm"
PACKAGES = "/packages/site"  # those that were added
WASM_PYTHON = "3.14"
WASM_SITE = f"/lib/python{WASM_PYTHON}/site-packages"
WASM_KERNEL = "/lib/belljar"

TABLE_MIME = "application/vnd.belljar.table+json"

# The codes of errors that a kernel reports; the host has more, for what it knows itself.
ERROR_CODES = (
    "PYTHON_SYNTAX_ERROR", "MODULE_NOT_FOUND", "IMPORT_ERROR", "RUNTIME_ERROR", "MEMORY_ERROR", "DISK_LIMIT",
    "PROCESS_LIMIT", "CANCELLED",
)  # fmt: skip
