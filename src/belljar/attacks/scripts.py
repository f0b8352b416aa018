"""Hostile JavaScript by way of Python: many attempts at once, each told by what came of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping

from belljar.attacks.case import Trial

PATIENCE_S = 5.0
DID_IT = "did it: "
# What Deno says when a permission is missing, and what our own runtime says where it answers first.
DENIED = re.compile(
    r"NotCapable|PermissionDenied|Requires \w+ access|not supported in workers|npm specifiers were|has no network here"
)
_BEGIN = """
const attempts = JSON.parse(%s), places = JSON.parse(%s), outcomes = globalThis.outcomes = {};
for (const kind of ["error", "unhandledrejection"]) self.addEventListener(kind, (event) => event.preventDefault());
for (const [name, body] of Object.entries(attempts)) {
  Promise.resolve().then(() => new Function("places", `return (async () => { ${body} })()`)(places)).then(
    (value) => { outcomes[name] = `did it: ${String(value).slice(0, 300)}`; },
    (failure) => { outcomes[name] = `${failure?.name}: ${failure?.message}`.slice(0, 300); },
  );
}
0
"""


def attempt(trial: Trial, attempts: Mapping[str, str]) -> dict[str, str]:
    """Start each body of an async function, which may use `places`, and give what came of them.

    JavaScript's promises go on between runs, so a run asks for them until all have ended.
    """
    started = trial.run(f"""
        script({_BEGIN!r} % (json.dumps({json.dumps(attempts)!r}), json.dumps(json.dumps(_args))))
    """)
    if started.status != "ok":
        trial.problems.append(f"the attack did not start: {started.status}, {started.error}")
        return {}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(0.05)
        told = trial.run('json.loads(script("JSON.stringify(outcomes)"))')
        if not isinstance(told.value, dict):
            trial.problems.append(f"the attack did not report: {told.status}, {told.state_reason or told.error}")
            return {}
        if len(told.value) == len(attempts) or time.monotonic() > deadline:
            return {name: str(told.value.get(name, "never ended")) for name in attempts}


def in_worker(code: str) -> str:
    """The body of an attempt that runs a module in a thread of its own, and ends as that does."""
    module = f"`try {{ {code} }} catch (e) {{ postMessage([e.name + ': ' + e.message]) }}`"
    if code.startswith("import "):
        module = f"`{code}`"
    return (
        f"const inner = new Worker('data:text/javascript,' + encodeURIComponent({module}), {{type: 'module'}});"
        "return new Promise((did, not) => { inner.onmessage = ({data}) => Array.isArray(data) ? not(Error(data[0])) :"
        " did(data); inner.onerror = (event) => { event.preventDefault(); not(Error(event.message)) } })"
    )


def expect_denied(trial: Trial, attempts: Mapping[str, str], *also: str) -> str:
    """Every attempt must have been denied, or have ended in one of these other ways."""
    outcomes = attempt(trial, attempts)
    for name, outcome in outcomes.items():
        if outcome.startswith(DID_IT):
            held = DID_IT in also  # where what it did is judged by what is there afterwards
        else:
            held = DENIED.search(outcome) is not None or any(word in outcome for word in also)
        trial.expect(held, f"{name}: {outcome}")
    return f"{len(outcomes)} attempts, none of which did it"
