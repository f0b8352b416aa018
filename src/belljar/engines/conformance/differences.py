"""Where an engine is known to differ: the name of the case, and why. `docs/limitations/` tells users the same."""

from __future__ import annotations

_PROCESSES = "WebAssembly has no processes"
_THREADS = "WebAssembly's Python has no threads"
_PLACE = "its workspace is a folder of the machine, which has another name than /workspace"
_UNBOUNDED = "nothing holds it to this limit"
_ERRNO = "the numbers of system errors are those of WebAssembly's own C library"

DIFFERENCES: dict[str, dict[str, str]] = {
    "native": {},
    "wasm": {
        "output of a child process arrives": _PROCESSES,
        "a child's standard error arrives in ours": _PROCESSES,
        "prints and a child's output keep their order": _PROCESSES,
        "a child's captured output does not leak into ours": _PROCESSES,
        "os.system writes to our streams": _PROCESSES,
        "env reaches child processes": _PROCESSES,
        "a child process that would go on is ended at the timeout": _PROCESSES,
        "an interrupt ends the children of its own run, not those of the next": _PROCESSES,
        "too many processes are a process error": _PROCESSES,
        "a process pool by fork works": _PROCESSES,
        "sys.executable runs Python": _PROCESSES,
        "a forked child that exits does not end the run": _PROCESSES,
        "the output of a thread arrives": _THREADS,
        "an error in a thread goes to standard error and is no error of the run": _THREADS,
        "a thread goes on between runs": _THREADS,
        "threads work": _THREADS,
        "a file that is missing": _ERRNO,
        "a file over the disk limit is a disk error": _ERRNO,
        "links and pipes are not reported": "WebAssembly has no named pipes",
        "a segmentation fault is a crash": "address 0 is an ordinary address in WebAssembly's memory",
    },
}

# Differences of engines without walls: the code sees real folder names, and the system enforces no limits.
WITHOUT_WALLS: dict[str, str] = {
    "an error in a workspace module shows that file and line": _PLACE,
    "an error while a workspace module is imported shows both files": _PLACE,
    "a workspace module with bad syntax is a syntax error in its own file": _PLACE,
    "the working folder that the code changed to does not outlive the run": _PLACE,
    "the working folder is /workspace": _PLACE,
    "cwd is made when it is missing, and is for this run only": _PLACE,
    "a cwd that is not absolute is in the workspace": _PLACE,
    "a file over the disk limit is a disk error": _UNBOUNDED,
    "too many processes are a process error": _UNBOUNDED,
    "too many threads are a process error": _UNBOUNDED,
}
