"""Attacks from WebAssembly's Python that fetch or start something: programs, code, packages, connections."""

from __future__ import annotations

from belljar.attacks.case import Cases, Trial
from belljar.attacks.network import UNREACHABLE
from belljar.attacks.scripts import expect_denied, in_worker

attack = Cases(engines=("wasm",))
NODE = "process.getBuiltinModule"
READ = "Deno.readTextFileSync(${JSON.stringify(places.file)})"


@attack("W06", "starting programs, loading native code and signalling others are refused")
def start_programs(trial: Trial) -> str:
    database = f"new ({NODE}('node:sqlite').DatabaseSync)(':memory:', {{allowExtension: true}})"
    calls = {
        "Deno.Command": "new Deno.Command('/bin/sh', {args: ['-c', 'id']}).outputSync()",
        "Deno.Command, later": "new Deno.Command('/bin/sh').spawn()",
        "Deno.kill": "Deno.kill(Deno.ppid, 'SIGTERM')",
        "process.kill": "process.kill(process.ppid, 9)",
        "execSync": f"{NODE}('child_process').execSync('/bin/id')",
        "execFileSync": f"{NODE}('child_process').execFileSync('/bin/id')",
        "fork": f"{NODE}('child_process').fork('/x.js')",
        "Deno.dlopen": "Deno.dlopen('libc.so.6', {})",
        "process.dlopen": "process.dlopen({exports: {}}, '/lib/x86_64-linux-gnu/libc.so.6')",
        "pointers": "Deno.UnsafePointer.of(new Uint8Array(8))",
        "sqlite extension": f"{database}.loadExtension('/x.so')",
        "inspector": f"{NODE}('node:inspector').open(0)",
        "inspector session": f"new ({NODE}('node:inspector').Session)().connect()",
        "wasi": f"new ({NODE}('node:wasi').WASI)({{version: 'preview1', preopens: {{'/': '/'}}}})",
    }
    outcome = expect_denied(trial, {name: f"return {call}" for name, call in calls.items()}, "failed to open preopen")
    execution = trial.run("""
        import subprocess
        {name: tried(act) for name, act in {
            "system": lambda: os.system("id"), "popen": lambda: os.popen("id"), "fork": lambda: os.fork(),
            "subprocess": lambda: subprocess.run(["/bin/id"]), "exec": lambda: os.execv("/bin/id", ["id"])}.items()}
    """)
    trial.expect_refused(execution, "ENOSYS", "ENOTSUP", "ENOENT", "EOPNOTSUPP", "EPERM", "ENOEXEC")
    return outcome


@attack("W07", "code comes from nowhere: no registry, no address, no file; what is handed in has no more authority")
def load_code(trial: Trial) -> str:
    addresses = ("npm:left-pad", "jsr:@std/fs", "https://esm.sh/x", "http://127.0.0.1/x.js", "file:///etc/passwd")
    code = f"`export default {READ}`"
    attempts = {address: f"return import('{address}')" for address in addresses}
    attempts |= {
        "the canary": "return import('file://' + places.file, {with: {type: 'text'}})",
        "data": f"return (await import('data:text/javascript,' + encodeURIComponent({code}))).default",
        "data that imports": "return import(`data:text/javascript,import 'file://${places.file}' with {type: 'text'}`)",
        "blob": f"return import(URL.createObjectURL(new Blob([{code}], {{type: 'text/javascript'}})))",
        "worker": in_worker(f"postMessage({READ})"),
        "worker that imports": in_worker("import x from 'file://${places.file}' with {type: 'text'}; postMessage(x)"),
        "worker in a worker": in_worker(
            "const w = new Worker('data:text/javascript,postMessage(Deno.readTextFileSync(%22/etc/passwd%22))',"
            " {type: 'module'}); w.onmessage = (e) => postMessage(e.data)"
        ),
        "worker of Node": f"return new Promise((did, not) => {{ const w = new ({NODE}('worker_threads').Worker)("
        "`require('worker_threads').parentPort.postMessage(require('fs').readFileSync('/etc/passwd', 'utf8'))`,"
        " {eval: true}); w.on('message', did); w.on('error', not) })",
    }
    return expect_denied(trial, attempts, "Unhandled error in child worker")


@attack("W11", "C functions by ctypes are those of WebAssembly, and reach no further", memory_mb=128)
def call_c(trial: Trial) -> str:
    execution = trial.run("""
        import ctypes
        program, file = ctypes.CDLL(None), _args["file"]
        program.emscripten_run_script_string.restype = ctypes.c_char_p
        read = "return globalThis.Deno.readTextFileSync(%s)" % json.dumps(file)
        body = "(() => { try { %s } catch (e) { return e.name } })()" % read
        [program.emscripten_run_script_string(body.encode()).decode(), program.fopen(file.encode(), b"r"),
         program.open(file.encode(), 0), program.execve(b"/bin/id", None, None)]
    """)
    trial.expect(execution.value == ["NotCapable", 0, -1, -1], f"C did something: {execution.value} {execution.error}")
    crashes = {code: trial.run(f"import ctypes; {code}") for code in (
        "ctypes.CDLL(None).system(b'id')", "ctypes.memset(1024, 255, 64 << 20)", "ctypes.CFUNCTYPE(None)(1 << 20)()",
        "ctypes.string_at(-1 & 0xffffffff, 1 << 30)",
    )}  # fmt: skip
    for code, ended in crashes.items():
        trial.expect_status(ended, "crashed", "error", "ok", "out_of_memory")
        trial.expect(not ended.stdout, f"{code} printed {ended.stdout!r}")
    trial.expect_usable()
    return ", ".join(f"{ended.status}" for ended in crashes.values())


@attack("W18", "with no network allowed, nothing in JavaScript or below Python's sockets gets out")
def reach_by_script(trial: Trial) -> str:
    trial.run("import pyodide_js, js; js.py = pyodide_js")
    url, port = "`http://127.0.0.1:${places.tcp}/`", "places.tcp"
    wait = "return new Promise((did, not) => { const end = %s; end.on('connect', did); end.on('error', not) })"
    attempts = {
        "fetch": f"return fetch({url})",
        "fetch in a worker": in_worker("await fetch('http://127.0.0.1:9999/'); postMessage(1)"),
        "websocket in a worker": in_worker("new WebSocket('ws://127.0.0.1:9999/').onopen = () => postMessage(1)"),
        "websocket": f"return new WebSocket(`ws://127.0.0.1:${{{port}}}/`)",
        "Deno.connect": f"return Deno.connect({{port: {port}}})",
        "Deno.connect, unix": "return Deno.connect({transport: 'unix', path: places.socket})",
        "Deno.connect, abstract": "return Deno.connect({transport: 'unix', path: '\\0' + places.abstract})",
        "Deno.listen": "return Deno.listen({port: 0})",
        "Deno.serve": "return Deno.serve({port: 0}, () => new Response(''))",
        "Deno.connectTls": f"return Deno.connectTls({{hostname: '127.0.0.1', port: {port}}})",
        "Deno.resolveDns": "return Deno.resolveDns('x.canary.test', 'A', {nameServer: {ipAddr: '127.0.0.1'}})",
        "metadata": "return Deno.connect({hostname: '169.254.169.254', port: 80})",
        "net": wait % f"{NODE}('net').connect({port}, '127.0.0.1')",
        "net, unix": wait % f"{NODE}('net').connect(places.socket)",
        "http": wait.replace("connect", "response") % f"{NODE}('http').get({url})",
        "http2": wait % f"{NODE}('http2').connect({url})",
        "tls": wait % f"{NODE}('tls').connect({port}, '127.0.0.1')",
        "dns": f"return {NODE}('dns').promises.resolve4('x.canary.test')",
        "lookup": f"return {NODE}('dns').promises.lookup('x.canary.test')",
        "pyodide": f"return py._api.loadBinaryFile({url})",
    }
    outcome = expect_denied(trial, attempts, "EPERM", "EACCES", "UNKNOWN", "query")
    execution = trial.run("""
        import _socket
        def below(kind, port):
            end = _socket.socket(_socket.AF_INET, kind)
            end.settimeout(0.5)
            end.connect(("127.0.0.1", port))
            end.send(b"hello")
            return end.recv(1)
        {"tcp": tried(below, _socket.SOCK_STREAM, _args["tcp"]), "udp": tried(below, _socket.SOCK_DGRAM, _args["udp"])}
    """)
    trial.expect_refused(
        execution, *UNREACHABLE, "EINPROGRESS", "EAGAIN", "ENOTCONN", "EOPNOTSUPP", "TimeoutError: timed out"
    )
    return outcome


@attack("P08", "packages by address, by name and by a lock of one's own are refused inside")
def install_inside(trial: Trial) -> str:
    trial.run("import pyodide_js, js; js.py = pyodide_js")
    lock = "{name: 'evil', version: '1', file_name: `%s`, sha256: '0', depends: [], imports: []}"
    wheel = "http://127.0.0.1:${places.tcp}/evil-1-py3-none-any.whl"
    attempts = {
        "by address": f"return py.loadPackage(`{wheel}`, quiet)",
        "by path": "return py.loadPackage('file://' + places.file, quiet)",
        "by name": "return py.loadPackage('numpy', quiet)",
        "by a lock": f"py._api.lockfile_packages.evil = ({lock % wheel}); return py.loadPackage('evil', quiet)",
    }
    quiet = "console.log = () => {}; const quiet = {messageCallback() {}, errorCallback() {}}; "
    for name, body in attempts.items():
        expect_denied(trial, {name: quiet + body}, "did it: ", "No known package", "Error: ")
    execution = trial.run("""
        def load(name): __import__(name)
        {name: tried(load, name) for name in ("evil", "micropip", "numpy")}
    """)
    for name, said in (execution.value or {"report": str(execution.error)}).items():
        trial.expect(said.startswith("ModuleNotFoundError"), f"{name}: {said}")
    return "nothing was fetched, nothing can be imported"
