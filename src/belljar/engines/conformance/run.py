"""Runs a case on any sandbox with the public methods, and says where it differs. It knows no engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from belljar import errors
from belljar.engines.conformance import case as steps
from belljar.engines.conformance.case import Case, Raises, Step
from belljar.engines.conformance.expect import Expected
from belljar.engines.conformance.normalise import normalise
from belljar.limits import Limits

SandboxFactory = Callable[[Limits], AbstractContextManager[Any]]


def run_case(factory: SandboxFactory, case: Case) -> list[str]:
    """Every difference between what the case expects and what happened; empty when it holds.

    Args:
        factory: makes a fresh sandbox with these limits, as a context manager.
    """
    with factory(Limits(**case.limits)) as sandbox:
        count, differences = 0, []
        for number, step in enumerate(case.steps, 1):
            if isinstance(step, steps.Run | steps.Interrupted) and not isinstance(step.expected, Raises):
                count += 1
            if isinstance(step, steps.Reset):
                count = 0
            differences += [f"step {number}: {each}" for each in _apply(sandbox, step, count)]
        return differences


def _apply(sandbox: Any, step: Step, count: int) -> list[str]:
    try:
        seen = _act(sandbox, step)
    except errors.SandboxError as raised:
        return _raised(step, raised)
    wanted = getattr(step, "expected", None)
    if isinstance(wanted, Raises):
        return [f"expected {wanted.error}, but nothing was raised"]
    match step:
        case steps.Run() | steps.Interrupted():
            assert isinstance(wanted, Expected)
            return compare(normalise(wanted.resolve(step.code, count)), normalise(seen.to_dict()))
        case steps.Read() | steps.Listing():
            return compare(wanted, seen)
        case steps.Complete():
            return _completed(step, seen)
        case steps.Variables():
            return _described(step, seen)
        case _:
            return []


def _act(sandbox: Any, step: Step) -> Any:
    match step:
        case steps.Run():
            return sandbox.run(step.code, **step.arguments)
        case steps.Interrupted():
            return _interrupt(sandbox, step)
        case steps.Reset():
            return sandbox.reset()
        case steps.Write():
            return sandbox.files.write(step.path, step.data)
        case steps.Read():
            return sandbox.files.read(step.path)
        case steps.Listing():
            entries = sandbox.files.list(step.path)
            return [(each.path, each.type, each.size if each.type == "file" else None) for each in entries]
        case steps.Delete():
            return sandbox.files.delete(step.path)
        case steps.Complete():
            return sandbox.complete(step.code, len(step.code) if step.cursor is None else step.cursor)
        case steps.Variables():
            return sandbox.variables()


def _interrupt(sandbox: Any, step: steps.Interrupted) -> Any:
    printed, text = threading.Event(), []

    def watch(event: dict[str, Any]) -> None:
        if event.get("type") == "stdout":
            text.append(event["text"])
            if step.after in "".join(text):
                printed.set()

    def press() -> None:
        if printed.wait(20):
            time.sleep(0.1)  # the text is here a little before `print` has returned
            sandbox.interrupt()

    finger = threading.Thread(target=press)
    finger.start()
    try:
        return sandbox.run(step.code, on_event=watch)
    finally:
        finger.join()


def _raised(step: Step, raised: errors.SandboxError) -> list[str]:
    wanted = getattr(step, "expected", None)
    if not isinstance(wanted, Raises):
        return [f"raised {type(raised).__name__}: {raised}"]
    if type(raised).__name__ != wanted.error:
        return [f"expected {wanted.error}, raised {type(raised).__name__}: {raised}"]
    return [f"{wanted.error} does not say {word!r}: {raised}" for word in wanted.words if word not in str(raised)]


def _completed(step: steps.Complete, seen: list[Any]) -> list[str]:
    became = [step.code[: each.start] + each.text + step.code[each.end :] for each in seen]
    if step.only is not None:
        return compare(step.only, became)
    missing = [f"does not complete to {each!r}" for each in step.among if each not in became]
    return missing + [f"completes to {each!r}" for each in step.never if each in became]


def _described(step: steps.Variables, seen: list[Any]) -> list[str]:
    by_name = {each.name: each for each in seen}
    differences = compare(sorted(step.expected), sorted(by_name))
    for name, facts in step.expected.items():
        if name in by_name:
            told = {fact: getattr(by_name[name], fact) for fact in facts}
            differences += [f"{name}: {each}" for each in compare(dict(facts), told)]
    return differences


def compare(wanted: Any, seen: Any, path: str = "") -> list[str]:
    """The places where two plain values differ, each with both sides."""
    if isinstance(wanted, dict) and isinstance(seen, dict):
        keys = [*wanted, *(key for key in seen if key not in wanted)]
        return [
            each
            for key in keys
            for each in compare(wanted.get(key, "(absent)"), seen.get(key, "(absent)"), f"{path}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(seen, list) and len(wanted) == len(seen):
        return [
            each for i, pair in enumerate(zip(wanted, seen, strict=True)) for each in compare(*pair, f"{path}[{i}]")
        ]
    if type(wanted) is type(seen) and wanted == seen:
        return []
    return [f"{path.lstrip('.') or 'it'} is {_short(seen)}, not {_short(wanted)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 1500 else f"{text[:700]} … {text[-700:]} ({len(text)} characters)"
