"""Attacks from WebAssembly's Python through JavaScript, which it can reach by design: on what the host has and is."""

from __future__ import annotations

import os

from belljar.attacks.case import Cases, Trial
from belljar.attacks.scripts import attempt, expect_denied

attack = Cases(engines=("wasm",))
FILE, NEW = "places.file", "places.folder + '/new'"
OF_DENO = (
    f"readTextFileSync({FILE})", f"readFileSync({FILE})", f"openSync({FILE})", f"statSync({FILE})",
    f"lstatSync({FILE})", f"realPathSync({FILE})", "readDirSync(places.folder).next()", f"readLinkSync({FILE})",
    f"watchFs({FILE})",
    f"writeTextFileSync({FILE}, 'x')", f"truncateSync({FILE})", f"removeSync({FILE})", f"renameSync({FILE}, {NEW})",
    f"copyFileSync({FILE}, {NEW})", f"linkSync({FILE}, {NEW})", f"symlinkSync({FILE}, {NEW})", f"mkdirSync({NEW})",
    f"chmodSync({FILE}, 0o777)", f"utimeSync({FILE}, 0, 0)", "makeTempFileSync()", "chdir(places.folder)",
    "openSync('/proc/self/environ')", "openSync('/proc/self/mem')",
)  # fmt: skip
OF_NODE = {
    "fs": (f"readFileSync({FILE})", f"existsSync({FILE})", f"writeFileSync({NEW}, 'x')", f"openSync({FILE}, 'r+')"),
    "module": (f"createRequire('file:///x/')('fs').readFileSync({FILE})", f"createRequire('file:///x/')({FILE})"),
    "sqlite": (f"DatabaseSync({FILE})", f"DatabaseSync({NEW})"),
}
OF_THE_MACHINE = (
    "env.toObject()", "env.get(places.variable)", "hostname()", "osRelease()", "osUptime()", "loadavg()", "uid()",
    "gid()", "networkInterfaces()", "systemMemoryInfo()", "umask()",
)  # fmt: skip
NO_FILE = ("ErrnoError", "undefined: undefined", "is not defined", "is not a function", "Cannot read prop", "Error: ")
ABSENT = ("ENOENT", "EPERM", "EACCES", "ENOTDIR", "EINVAL")
VM = "process.getBuiltinModule('vm')"
OF_OS = ("hostname", "userInfo", "networkInterfaces", "homedir", "tmpdir", "version", "uptime", "cpus")


@attack("W01", "every call of Deno's and Node's that reads, writes or looks at files is refused")
def call_the_runtime(trial: Trial) -> str:
    attempts = {call: f"return Deno.{call}" for call in OF_DENO}
    for module, calls in OF_NODE.items():
        new = "new " if module == "sqlite" else ""
        attempts |= {
            f"{module}.{call}": f"const {{...m}} = process.getBuiltinModule('node:{module}'); return {new}m.{call}"
            for call in calls
        }
    attempts["import"] = f"return (await import('node:fs/promises')).readFile({FILE}, 'utf8')"
    return expect_denied(trial, attempts)


@attack("W02", "Pyodide's own loader and file systems read nothing of the host")
def read_by_the_loader(trial: Trial) -> str:
    trial.run("import pyodide_js, js; js.py = pyodide_js")
    calls = {
        "loadBinaryFile": f"new TextDecoder().decode(await py._api.loadBinaryFile({FILE}))",
        "loadBinaryFile by URL": f"py._api.loadBinaryFile('file://' + {FILE})",
        "loadDynlib": f"py._api.loadDynlib({FILE})",
        "unpackArchive": f"py.unpackArchive(await py._api.loadBinaryFile({FILE}), 'zip')",
        "FS.readFile": f"py.FS.readFile({FILE}, {{encoding: 'utf8'}})",
        "lazy file": f"py.FS.readFile(py.FS.createLazyFile('/tmp', 'lazy', 'file://' + {FILE}, true, false).path)",
    }
    expect_denied(trial, {name: f"return {call}" for name, call in calls.items()}, *NO_FILE)
    execution = trial.run("""
        ways = ["", "/proc/self/root", "/dev/fd/../../..", "/workspace/../.."]
        {way: tried(lambda: open(way + _args["file"]).read()) for way in ways}
    """)
    return trial.expect_refused(execution, *ABSENT)


@attack("W15", "mounting the host's folders by Node's and other file systems fails")
def mount_the_host(trial: Trial) -> str:
    trial.run("import pyodide_js, js; js.py = pyodide_js")
    calls = {
        "mountNodeFS": "py.mountNodeFS('/tmp/node', '/')",
        **{
            f"{kind} of {root}": f"(py.FS.mkdirTree('/tmp/{kind}'),"
            f" py.FS.mount(py.FS.filesystems.{kind}, {{root: {root}}}, '/tmp/{kind}'),"
            f" py.FS.readdir('/tmp/{kind}').filter((n) => n > '..').join() || nothing)"
            for kind in ("NODEFS", "PROXYFS", "WORKERFS")
            for root in ("'/'", "places.folder")
        },
    }
    expect_denied(trial, {name: f"return {call}" for name, call in calls.items()}, *NO_FILE)
    execution = trial.run("""
        ways = ["", "/tmp/NODEFS", "/tmp/PROXYFS", "/tmp/WORKERFS", "/tmp/node"]
        {mode + way: tried(lambda: open(way + _args["file"], mode).read()) for way in ways for mode in ("r", "r+")}
    """)
    return trial.expect_refused(execution, *ABSENT)


@attack("W03", "environment, users, host name and addresses stay unknown to JavaScript and Python")
def ask_for_the_host(trial: Trial) -> str:
    attempts = {call: f"return JSON.stringify(Deno.{call})" for call in OF_THE_MACHINE}
    attempts |= {f"os.{name}": f"return process.getBuiltinModule('os').{name}()" for name in OF_OS}
    attempts["process.env"] = "return process.env[places.variable]"
    outcome = expect_denied(trial, attempts)
    execution = trial.run("[dict(os.environ), os.getcwd(), socket.gethostname(), os.uname().nodename, sys.argv]")
    told = str(execution.value)
    for word in (os.uname().nodename, trial.sandbox.id, os.path.expanduser("~/")):
        trial.expect(word not in told, f"{word!r} is told: {told[:200]}")
    return outcome


@attack("W04", "the way to the global object by constructors gives it no authority")
def walk_prototypes(trial: Trial) -> str:
    read = f"Deno.readTextFileSync({FILE})"
    by_constructor = f"constructor.constructor('places', 'return {read}')(places)"
    ways = {
        "an object": f"return ({{}}).{by_constructor}",
        "a function": f"return (() => {{}}).{by_constructor}",
        "an error": f"try {{ null.x }} catch (e) {{ return e.{by_constructor} }}",
        "a promise": f"return Promise.resolve().{by_constructor}",
        "eval": f"return (0, eval)('(places) => {read}')(places)",
        "another realm": f"return {VM}.runInThisContext('Deno').openSync({FILE})",
        "a new realm": f"return {VM}.runInNewContext(`o.{by_constructor}`, {{o: {{}}, places}})",
        "inside": f"return Deno[Deno.internal].core.ops.op_napi_open({FILE}, globalThis, Object, Object, Object)",
    }
    return expect_denied(trial, ways, "expected Function", "Deno is not defined")


@attack("W10", "asking for a permission is answered with no, at once")
def ask_for_permission(trial: Trial) -> str:
    names = ("read", "write", "net", "env", "sys", "run", "ffi", "import")
    request = "return (await Deno.permissions.request({name: '%s'})).state"
    outcomes = attempt(trial, {name: request % name for name in names})
    for name, outcome in outcomes.items():
        trial.expect(outcome == "did it: denied", f"{name}: {outcome}")
    asked = attempt(trial, {name: f"return {name}('?')" for name in ("prompt", "confirm", "alert")})
    for name, outcome in asked.items():
        trial.expect("is not defined" in outcome, f"{name}: {outcome}")
    return f"{len(outcomes)} denied, nobody was asked"


@attack("W16", "nothing that outlives the sandbox is written by way of the runtime: no cache, no store, no log")
def leave_something(trial: Trial) -> str:
    """What is written nevertheless is seen by the arena, which watches the runtime's folders."""
    trial.run("import pyodide_js, js; js.py = pyodide_js")
    database = "const db = new (process.getBuiltinModule('node:sqlite').DatabaseSync)(':memory:');"
    told = "--logfile=/tmp/v8.log --log-all --prof --perf-basic-prof --perf-basic-prof-path=/tmp --trace-turbo"
    attempts = {
        "runtime": "return Deno.writeTextFileSync(new URL('python.js', location.href), '')",
        "caches": "return (await caches.open('x')).put('http://x.test/', new Response('for the next one'))",
        "local storage": "return localStorage.setItem('x', 'for the next one')",
        "kv": "return Deno.openKv()",
        "gpu": "if (!await navigator.gpu.requestAdapter()) throw new Error('no adapter')",
        "attach": f"{database} return db.exec(`ATTACH '${{{NEW}}}' AS x; CREATE TABLE x.t (a)`)",
        "vacuum": f"{database} return db.exec(`VACUUM INTO '${{{NEW}}}'`)",
        "program": "return Deno.openSync(Deno.execPath(), {write: true})",
    }
    expect_denied(
        trial, attempts, "Failed to create cache storage", "Operation not permitted", "is not defined", "no adapter",
        "is not a function", "too many attached", "did it: ", "Error: ",
    )  # fmt: skip
    trial.run(f"""
        flags = json.dumps({told!r})
        script("%s.split(' ').forEach((flag) => process.getBuiltinModule('v8').setFlagsFromString(flag))" % flags)
        script("new Worker('data:text/javascript,for (let i = 0; i < 1e5; i++) Math.sqrt(i)', {{type: 'module'}}); 0")
        time.sleep(0.3)
    """)
    return "no file of the runtime, of Deno's folder or of the host's changed"
