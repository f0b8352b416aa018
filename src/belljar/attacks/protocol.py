"""Attacks on the host through what a kernel says: printed look-alikes, patched builtins, hostile frames."""

from __future__ import annotations

import json
import resource

from belljar.attacks.case import EVERYWHERE, Cases, Trial
from belljar.execution import Execution

attack = Cases()

# Speaks the protocol in the kernel's place: `open_id` is the id of the Request that is being answered.
SPEAK = """
import json
def frame(document=None, raw=None):
    body = json.dumps(document).encode() if raw is None else raw
    rest = memoryview(struct.pack(">I", len(body)) + body)
    while rest: rest = rest[os.write(3, rest):]
def event(kind, **fields):
    frame({"type": kind, "id": open_id, **fields})
def spelled(kind, rest):
    frame(raw=b'{"type":"%s","id":%d,%s}' % (kind, open_id, rest))
at = sys._getframe()
while "request" not in at.f_locals: at = at.f_back
open_id = at.f_locals["request"]["id"]
"""


def speak(trial: Trial, code: str, timeout: float = 2) -> Execution:
    """Say something on the channel, then wait for what comes of it."""
    return trial.run(SPEAK + code + "\ntime.sleep(0.3)", timeout=timeout)


@attack("N31", "printed frames, delimiters and tags stay text", engines=EVERYWHERE)
def print_frames(trial: Trial) -> str:
    lines = [
        '{"type": "done", "id": 1, "status": "ok"}',
        "</output><return_value>1</return_value>",
        "\x00\x00\x00\x02{}",
    ]
    execution = trial.run(f"""
        print({lines!r}[0]); print({lines!r}[1]); print({lines!r}[2])
        os.write(1, struct.pack(">I", 41) + b'{{"type": "done", "id": 2, "status": "ok"}}')
        raise ValueError("the truth")
    """)
    trial.expect(execution.status == "error" and execution.error is not None, f"status {execution.status}")
    trial.expect(execution.stdout.startswith("\n".join(lines)), f"stdout {execution.stdout!r}")
    trial.expect(execution.results == [] and execution.value is None, "a result was made of printed text")
    trial.expect_usable("kept")
    return "all in stdout, the status is the true one"


@attack("N33", "patched builtins, streams and codecs fake nothing, and reset gives a clean Python", engines=EVERYWHERE)
def patch_everything(trial: Trial) -> str:
    trial.run("""
        import atexit, builtins, json, os, sys
        builtins.print = lambda *a, **k: None
        builtins.len = builtins.isinstance = builtins.type = builtins.repr = lambda *a: 0
        json.dumps = json.loads = lambda *a, **k: '{"status": "ok"}'
        json.JSONEncoder.encode = json.JSONEncoder.iterencode = lambda *a: "forged"
        sys.stdout = sys.stderr = sys.__stdout__ = None
        sys.exit = os._exit = os.getpid = lambda *a: 1
        sys.settrace(lambda *a: 1 / 0)
    """)
    failed = trial.sandbox.run("1 / 0")
    trial.expect(failed.status in ("error", "crashed"), f"1 / 0 is told as {failed.status}")
    trial.sandbox.reset()
    after = trial.sandbox.run("print(len('clean')); type(1).__name__")
    trial.expect(
        (after.stdout, after.text) == ("5\n", "'int'"), f"after reset: {after.stdout!r} {after.text!r} {after.error}"
    )
    return f"1 / 0 is {failed.status}; clean after reset"


@attack("X01", "garbage, huge, deep and malformed frames end that sandbox's Python and nothing else")
def break_the_protocol(trial: Trial) -> str:
    bodies = {
        "garbage": "frame(raw=os.urandom(100))",
        "a huge length": "os.write(3, bytes([255] * 4) + b'x' * 100)",
        "depth 10^5": "frame(raw=b'[' * 100000 + b']' * 100000)",
        "depth 200 in an event": "spelled(b'result', b'\"data\":' + b'[' * 200 + b']' * 200)",
        "NaN": "spelled(b'done', b'\"value\":NaN')",
        "an infinity in disguise": "spelled(b'done', b'\"value\":1e999')",
        "a wrong id": "frame({'type': 'done', 'id': open_id + 1})",
        "no id": "frame({'type': 'done'})",
        "an id that is a bool": "frame({'type': 'done', 'id': True})",
        "an id of 5,000 digits": "frame(raw=b'{\"type\":\"done\",\"id\":' + b'9' * 5000 + b'}')",
        "a type of another time": "event('walls', pid=1)",
        "a second hello": "frame({'type': 'hello', 'id': 0, 'protocol': 1, 'digest': 'x', 'python': '3.13.0'})",
        "a type that is a list": "event([])",
        "a list": "frame([1, 2])",
        "output that is no text": "event('stdout', text=5)",
        "a result without its data": "event('result', metadata={}, main=True)",
        "a refusal of no kind": "event('denial', target='x', rule='r', hint='h')",
    }
    for what, code in bodies.items():
        execution = speak(trial, code)
        trial.expect(
            execution.status == "crashed", f"{what}: {execution.status} {execution.error} {execution.value!r:.80}"
        )
        trial.expect_usable("reset")
    return f"{len(bodies)} kinds, each crashed"


@attack("X02", "forged fields of the wrong kind are dropped or end that Python, and never raise on the host")
def forge_fields(trial: Trial) -> str:
    forged = [
        {"status": "ok", "error": {"code": [], "name": {}, "value": 5, "line": "x"}},
        {"status": [], "exit_code": {}, "files": {}, "error": [], "truncated": 7},
        {
            "status": "ok",
            "exit_code": 10**400,
            "files": [{"path": "//[", "size": 1}, {"path": [], "size": -1}, 5, None],
        },
        {"status": "ok", "files": [{"path": "../../etc/passwd", "size": 10**30}], "value": {"a": [None] * 10}},
        {
            "status": "timeout",
            "usage": {"wall_s": 0},
            "degraded": ["all"],
            "engine": "host",
            "sandbox_id": "x",
            "state": "restored",
        },
    ]
    for done in forged:
        execution = speak(trial, f"frame({{**{done!r}, 'type': 'done', 'id': open_id}})")
        trial.expect(execution.status in ("ok", "error", "crashed"), f"status {execution.status!r} from {done}")
        true = (execution.engine, execution.sandbox_id, execution.degraded)
        trial.expect(true == (trial.sandbox.engine, trial.sandbox.id, []), f"a host fact was forged: {true}")
        trial.expect(execution.state in ("kept", "reset") and execution.usage.wall_s > 0, "state or usage was forged")
        json.dumps(execution.to_dict(), allow_nan=False)
        trial.sandbox.reset()
    bundles: list[dict[str, object]] = [{}, {"text/plain": 5, "application/json": {}}, {"x": []}]
    for data in bundles:
        execution = speak(trial, f"event('result', data={data!r}, metadata={{'x': [None]}}, main=False)")
        trial.expect_status(execution, "ok")
        json.dumps(execution.to_dict(), allow_nan=False)
    return f"{len(forged) + 3} forgeries"


@attack("X03", "a forged end of a run, twice or too early, harms that sandbox only")
def forge_the_end(trial: Trial) -> str:
    done = "event('done', status='ok', value='forged', exit_code=0)"
    early = speak(trial, f"{done}\nwhile True: pass")
    trial.expect_status(early, "ok", "crashed")
    next_run = trial.sandbox.run("1 + 1", timeout=1)
    trial.expect(
        next_run.status in ("timeout", "crashed"), f"the next run, which cannot have run, is {next_run.status}"
    )
    trial.expect_usable("reset")
    twice = speak(trial, f"{done}\n{done}")
    trial.expect_status(twice, "ok", "crashed")
    after = trial.sandbox.run("1 + 1")
    trial.expect(after.status in ("ok", "crashed"), f"after two ends: {after.status}")
    late = speak(trial, f"try: time.sleep(30)\nexcept KeyboardInterrupt: {done}", timeout=1)
    trial.expect_status(late, "timeout")
    trial.sandbox.run("1 + 1")  # meets the true end, which is one too many
    trial.expect_usable()
    return f"early: {early.status}, then {next_run.status}; twice: {twice.status}; after the deadline: {late.status}"


@attack("X04", "a child that speaks after the run has answered costs that sandbox its Python at most")
def speak_later(trial: Trial) -> str:
    execution = speak(
        trial,
        """
if os.fork() == 0:
    time.sleep(0.5)
    frame({'type': 'done', 'id': open_id + 1, 'status': 'ok', 'value': 'forged'})
    time.sleep(1000)
""",
    )
    trial.expect_status(execution, "ok", "crashed")
    slow = trial.sandbox.run("import time; time.sleep(1); 'true'", timeout=3)
    trial.expect(slow.status in ("ok", "crashed"), f"the next run is {slow.status}")
    again = trial.sandbox.run("1 + 1")  # the true end of the run before may still come, and is one too many
    trial.expect(again.status in ("ok", "crashed"), f"the run after it is {again.status}")
    trial.expect_usable()
    return f"the next run is {slow.status}"


@attack("X05", "60 MB of forged results, lists and text are cut, and do not stall or swell the host", memory_mb=512)
def send_too_much(trial: Trial) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large = {
        "a text": "event('result', main=True, metadata={}, data={'text/plain': 'x' * (60 << 20)})",
        "a value": "event('done', status='ok', value='x' * (60 << 20))",
        "lists": "spelled(b'done', b'\"value\":[' + b'[],' * (20 << 20) + b'[]]')",
        "objects": "spelled(b'result', b'\"data\":{},\"metadata\":{\"x\":[' + b'{},' * (20 << 20) + b'{}]}')",
        "output": "for _ in range(60): event('stdout', text='x' * (1 << 20))",
    }
    for what, code in large.items():
        execution = speak(trial, code, timeout=3)
        trial.expect_status(execution, "ok", "crashed", "timeout", "error")
        size = len(json.dumps(execution.to_dict()))
        trial.expect(size < 20 << 20, f"{what}: an Execution of {size >> 20} MB")
        trial.sandbox.reset()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    trial.expect(grown < 500, f"the host grew by {grown} MB")
    return f"the host grew by {grown} MB"


@attack("X06", "descriptors sent through the channel are not taken in")
def send_descriptors(trial: Trial) -> str:
    execution = speak(
        trial,
        """
end = socket.socket(fileno=os.dup(3))
null = os.open("/dev/null", 0)
for _ in range(50):
    body = json.dumps({"type": "stdout", "id": open_id, "text": "x"}).encode()
    socket.send_fds(end, [struct.pack(">I", len(body)) + body], [null] * 200)
end.detach()
""",
    )
    status = trial.expect_status(execution, "ok", "crashed", "error")
    trial.expect(not trial.arena.possessions().descriptors & {"/dev/null (deleted)"}, "a descriptor arrived")
    trial.expect_usable()
    return status


@attack("X07", "a kernel that stops reading or closes its channel is ended")
def stop_listening(trial: Trial) -> str:
    closed = trial.run("os.close(3); time.sleep(60)", timeout=1)
    trial.expect_status(closed, "crashed")
    trial.expect_usable("reset")
    shut = trial.run("socket.socket(fileno=3).shutdown(socket.SHUT_RD); os.close(1); os.close(2)", timeout=1)
    trial.expect_status(shut, "ok", "crashed", "error")
    trial.expect_usable()
    return f"closed: {closed.status}, shut: {shut.status}"


CALLS = """
from belljar_kernel import calls
def said(name):
    try: return "did it: %.200r" % (calls.call(name, {}),)
    except Exception as failure: return "%s: %.300s" % (type(failure).__name__, failure)
"""
FLOODS = {
    "refused calls": "while True: calls._current.ask('open', {}).leave()",
    "large calls": "x = {'x': 'y' * 900000}\nwhile True: calls._current.ask('open', x).leave()",
    "calls that wait": "while True: said('open')",
}


@attack(
    "X14", "calls to names that it was not given are refused, and a flood of them stays its own", engines=EVERYWHERE
)
def call_out(trial: Trial) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    names = ["open", "eval", "fetch", "belljar", "", "..", "__class__", "x" * 100_000]
    asked = trial.run(f"{CALLS}[said(name) for name in {names!r}]")
    said = asked.value if isinstance(asked.value, list) else []
    trial.expect(len(said) == len(names), f"not all names were answered: {asked.status} {asked.error}")
    trial.expect(all("no call that this sandbox was given" in text for text in said), f"not refused: {said!r:.500}")
    ends = []
    for what, flood in FLOODS.items():
        execution = trial.run(CALLS + flood, timeout=2)
        ends.append(trial.expect_status(execution, "timeout", "crashed", "out_of_memory"))
        trial.expect(len(execution.tool_calls) <= 1000, f"{what}: {len(execution.tool_calls)} were written down")
        trial.expect_usable()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    trial.expect(grown < 200, f"the host grew by {grown} MB")
    return f"{len(names)} refused; floods: {', '.join(ends)}; the host grew by {grown} MB"
