"""Attacks of JavaScript on what a wasm sandbox tells its host: poisoned built-ins, forged frames, stolen requests."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Callable

from belljar.attacks.case import Cases, Trial
from belljar.errors import SandboxError
from belljar.execution import Execution

attack = Cases(engines=("wasm",))
PATIENCE_S = 15.0
# Speaks the protocol in the kernel's place; `open_id` is the id of the Request that is being answered.
SPEAK = """
at = sys._getframe()
while "request" not in at.f_locals or not isinstance(at.f_locals["request"], dict): at = at.f_back
open_id = at.f_locals["request"]["id"]
put = script("(all) => { for (let n = 0; n < all.length;) n += Deno.stdout.writeSync(all.subarray(n)) }")
def raw(data):
    from pyodide.ffi import to_js
    put(to_js(data))
def frame(document=None, body=None):
    body = json.dumps(document).encode() if body is None else body
    raw(struct.pack(">I", len(body)) + body)
def event(kind, **fields): frame({"type": kind, "id": open_id, **fields})
"""
ASK = (
    "event('call', call_id=100000 + n, name='fetch.open', args={{'method': 'GET', 'url': {url!r}, 'headers': [], "
    "'length': None, 'redirects': 20}})"
)
# Waits beside the control thread for the order to hand over the files, and hands over others.
STEAL = """
const block = new Uint8Array(65536), coder = new TextEncoder();
const put = (all) => { for (let n = 0; n < all.length;) n += Deno.stdout.writeSync(all.subarray(n)) };
for (let text = "", size; (size = Deno.stdin.readSync(block)) !== null;) {
  text += new TextDecoder().decode(block.subarray(0, size));
  const found = /marker": ?"([0-9a-f]{64})"/.exec(text);
  if (!found) continue;
  put(Uint8Array.fromHex(found[1]));
  const file = {type: "file", id: 0, path: "x".repeat(30 << 20), mode: 33188, modified: 1, append: false, data: ""};
  const body = coder.encode(JSON.stringify(file)), header = new Uint8Array(4);
  new DataView(header.buffer).setUint32(0, body.length);
  for (let i = 0; i < 15; i++) { put(header); put(body); }
}
"""
POISONS = {
    "toJSON": "Object.prototype.toJSON = () => 'poison'",
    "stringify": """JSON.stringify = () => '{"type": "done", "id": 1, "status": "ok", "value": "poison"}'""",
    "parse": "JSON.parse = () => ({})",
    "then": "Promise.prototype.then = Promise.prototype.catch = () => {}",
    "push": "Array.prototype.push = Array.prototype.map = Array.prototype.sort = () => 0",
    "iterator": "Array.prototype[Symbol.iterator] = () => { throw 1 }",
    "bytes": "Object.getPrototypeOf(Uint8Array.prototype).set = Uint8Array.prototype.subarray = () => {}",
    "base64": "Uint8Array.fromBase64 = () => new Uint8Array(9); Uint8Array.prototype.toBase64 = () => '????'",
    "encoder": "TextEncoder.prototype.encode = TextDecoder.prototype.decode = () => new Uint8Array(3)",
    "apply": "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 0",
    "prototype": "Object.prototype.status = 'timeout'; Object.prototype.id = 7; Object.prototype.get = 1",
    "write": "Deno.stdout.writeSync = (b) => b.length; Deno.stdout.constructor.prototype.writeSync = () => 0",
    "listener": "self.onmessage = () => {}; self.postMessage = () => {}",
    "messages": "postMessage(0); postMessage({}); postMessage('loaded'); postMessage([[]]); postMessage(['make'])",
    "exit": "Deno.exit(0)",
    "close": "self.close()",
    "input": "Deno.stdin.close()",
    "output": "Deno.stdout.close()",
}


@attack("W13", "poisoned built-ins of JavaScript change no fact that is the host's", timeout_s=1)
def poison(trial: Trial) -> str:
    ends: dict[str, int] = {}
    for name, code in POISONS.items():
        first = trial.run(f"script({code + '; 0'!r}); print('said'); {{'a': [1]}}")
        second = trial.run("print('said'); 1 / 0")
        for execution in (first, second):
            _check_facts(trial, name, execution)
            ends[execution.status] = ends.get(execution.status, 0) + 1
        trial.expect(second.status != "ok" or name == "stringify", f"{name}: 1 / 0 is told as ok")
        trial.sandbox.reset()
        clean = trial.sandbox.run("print('clean')")
        trial.expect(clean.stdout == "clean\n", f"{name}: not clean after reset: {clean.status} {clean.error}")
    return ", ".join(f"{count} {status}" for status, count in sorted(ends.items()))


@attack("X10", "frames forged by JavaScript break that sandbox, or lie about its own text at most", timeout_s=2)
def forge_frames(trial: Trial) -> str:
    broken = {
        "garbage": "raw(os.urandom(100))",
        "a huge length": "raw(bytes([255] * 4) + b'x' * 100)",
        "depth": "frame(body=b'[' * 100000 + b']' * 100000)",
        "a wrong id": "frame({'type': 'done', 'id': open_id + 1})",
        "a second hello": "frame({'type': 'hello', 'id': 0, 'protocol': 1, 'digest': 'x', 'python': '3.14.0'})",
        "files unasked": "event('file', path='../x', mode=33188, modified=0, data='', append=False)",
        "output that is no text": "event('stdout', text=5)",
        "a request without a URL": "event('call', call_id=1, name='fetch.open', args={'method': 'GET'})",
        "a look at mounts that are not there": "event('call', call_id=-1, name='mount.close', args={'handle': 1})",
    }
    for what, code in broken.items():
        execution = trial.run(f"{SPEAK}{code}\ntime.sleep(0.3)")
        trial.expect_status(execution, "crashed")
        _check_facts(trial, what, execution)
        trial.expect_usable("reset")
    lies = [
        {"status": "timeout", "usage": {"wall_s": 0}, "degraded": ["all"], "engine": "host", "sandbox_id": "x"},
        {"status": [], "exit_code": {}, "files": {}, "error": [], "truncated": 7},
        {"status": "ok", "exit_code": 10**40, "files": [{"path": "../../etc/passwd", "size": 10**30}]},
    ]
    for lie in lies:
        execution = trial.run(f"{SPEAK}event('done', **{lie!r})\ntime.sleep(0.3)")
        trial.expect(execution.status in ("ok", "error", "crashed"), f"status {execution.status!r} from {lie}")
        _check_facts(trial, "a lie", execution)
        trial.sandbox.reset()
    ended = trial.run(f"{SPEAK}frame({{'type': 'ended', 'id': 0, 'code': 137}})\ntime.sleep(0.3)")
    trial.expect_status(ended, "crashed")
    trial.expect_usable("reset")
    return f"{len(broken)} broken, {len(lies)} lies"


@attack("E02", "requests forged below every client reach nothing, and each is told as refused")
def forge_requests(trial: Trial) -> str:
    hosts = [
        "127.0.0.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f000001",
        "127.1",
        "localhost",
        "[::1]",
        "0",
        "[::ffff:7f00:1]",
    ]
    hosts += ["127.0.0.1@example.org", "127.0.0.1%00.example.org", "169.254.169.254", "metadata.google.internal"]
    ask = ASK.format(url="URL").replace("'URL'", "'http://%s:%d/' % (host, _args['tcp'])")
    execution = trial.run(f"{SPEAK}for n, host in enumerate({hosts!r}, 1): {ask}\ntime.sleep(0.8)")
    trial.expect_status(execution, "ok")
    told = {denial.target for denial in execution.denials if denial.source == "egress"}
    trial.expect(len(told) >= 6, f"only these were told: {told}")
    return f"{len(hosts)} asked for, {len(told)} targets told"


@attack("X11", "a flood of frames, small or large, does not hold up or swell the host", timeout_s=2, memory_mb=256)
def flood_frames(trial: Trial) -> str:
    before = _peak_mb()
    floods = {
        "small": "while True: frame({'type': 'stdout', 'id': open_id, 'text': 'x'})",
        "large": "x = struct.pack('>I', 24 << 20) + b' ' * (24 << 20)\nwhile True: raw(x)",
        "unfinished": "x = b'x' * (1 << 20)\nraw(struct.pack('>I', 31 << 20))\nwhile True: raw(x)",
        "requests": f"n = 1\nwhile True: {ASK.format(url='http://x.test/')}; n += 1",
        "results": "while True: event('result', data={'text/plain': 'x' * (1 << 20)}, metadata={}, main=True)",
    }
    ends = []
    for code in floods.values():
        ends.append(trial.expect_status(trial.run(SPEAK + code), "timeout", "crashed"))
        trial.sandbox.reset()
    grown = _peak_mb() - before
    trial.expect(grown < 300, f"the host grew by {grown} MB")
    return f"{', '.join(ends)}; the host grew by {grown} MB"


@attack("X12", "a sandbox that stops answering holds up neither its files nor its end", timeout_s=1)
def stop_answering(trial: Trial) -> str:
    ends = []
    for code in ("self.onmessage = () => {}", "setTimeout(() => { for (;;); }, 20)", "self.close()"):
        trial.run(f"script({code + '; 0'!r})")
        time.sleep(0.1)
        ends += [_within(trial, code, act) for act in (trial.sandbox.files.list, trial.sandbox.reset)]
    return ", ".join(sorted(set(ends)))


@attack(
    "X13", "stolen requests and forged files at the end of a process do not swell the host", timeout_s=1, memory_mb=256
)
def forge_the_files(trial: Trial) -> str:
    before = _peak_mb()
    workers = (
        f"for (let i = 0; i < 6; i++) new Worker(`data:text/javascript,${{encodeURIComponent({STEAL!r})}}`, module); 0"
    )
    trial.run(f"script({'const module = {type: `module`}; ' + workers!r})")
    time.sleep(0.3)
    execution = trial.run("script('for (;;);')")
    status = trial.expect_status(execution, "timeout", "crashed", "out_of_memory")
    grown = _peak_mb() - before
    trial.expect(grown < 200, f"the host grew by {grown} MB")
    trial.expect_usable()
    trial.expect(all(len(entry.path) < 5000 for entry in trial.sandbox.files.list()), "a path of megabytes was kept")
    return f"{status}; the host grew by {grown} MB"


def _check_facts(trial: Trial, what: str, execution: Execution) -> None:
    """What the host knows itself is the truth, whatever came out of the sandbox."""
    facts = (execution.engine, execution.sandbox_id, execution.degraded)
    trial.expect(facts == (trial.sandbox.engine, trial.sandbox.id, []), f"{what}: a host fact was forged: {facts}")
    trial.expect(execution.state in ("kept", "reset"), f"{what}: state {execution.state}")
    usage = execution.usage
    trial.expect(usage.wall_s > 0 and usage.peak_memory_bytes > 1 << 20, f"{what}: usage was forged: {usage}")
    json.dumps(execution.to_dict(), allow_nan=False)


def _within(trial: Trial, what: str, act: Callable[[], object]) -> str:
    """How an act of the host's ended; one that does not end is a problem."""
    ends: list[str] = []

    def attempt() -> None:
        try:
            act()
            ends.append("done")
        except SandboxError as failure:
            ends.append(type(failure).__name__)
        except Exception as failure:
            trial.problems.append(f"after {what!r}: {failure!r}")

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    trial.expect(bool(ends), f"after {what!r} the host waits for ever in {getattr(act, '__name__', act)}")
    return ends[0] if ends else "never"


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
