"""The one normaliser: what two right Executions of the same code may differ in. It hides nothing else.

- Measured: `usage` becomes "measured" when it is plausible; `sandbox_id` becomes "id" when it is a UUID.
- The engine's own: `engine` and `degraded` are dropped.
- `logs` are joined, because where one chunk ends depends on timing; `state_reason` and
  `error.hint`, which are sentences for people, become whether there is one.
- Tracebacks lose their caret lines, and addresses (`at 0x…`) lose their digits.
- Texts in which CPython's minor versions differ take one wording (WORDING).
- Images become format, size and whether they have more than one colour; tables in html lose style and white space.
- The dtype of text is "object" before pandas 3 and "str" after it.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

from belljar.engines.conformance import picture

CARETS = re.compile(r"^ +[~^]+[~^ ]*\n", re.MULTILINE)
ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,16}\b")
WORDING: tuple[tuple[str, str], ...] = (
    (r"integer (?:division or )?modulo by zero|division by zero", "division by zero"),
    (r" \((?:unknown location|/[^()\n]*)\)", " (somewhere)"),
    (r"\. Did you (?:mean|forget to import)[^\n]*\?", ""),
    (r" \(detected at line \d+\)", ""),
    (r"maximum recursion depth exceeded[^\n]*", "maximum recursion depth exceeded"),
    (r"invalid syntax\. (?:Perhaps you forgot a comma|Maybe you meant[^\n]*)\?", "invalid syntax"),
    (
        r"too many nested parentheses|too complex to compile|s_push: parser stack overflow",
        "too many nested parentheses",
    ),
    (r"  \[Previous line repeated \d+ more times\]", "  [Previous line repeated]"),
)


def normalise(execution: dict[str, Any]) -> dict[str, Any]:
    """An Execution as `to_dict()` gives it, reduced to what every engine must agree on."""
    seen = {key: value for key, value in execution.items() if key not in ("engine", "degraded")}
    seen["usage"] = _usage(seen["usage"])
    seen["sandbox_id"] = _identity(seen["sandbox_id"])
    seen["logs"] = {name: "".join(chunks) for name, chunks in seen["logs"].items()}
    seen["state_reason"] = bool(seen["state_reason"])
    seen["results"] = [_result(each) for each in seen["results"]]
    for name in ("stdout", "stderr", "text"):
        seen[name] = _wording(seen[name])
    seen["logs"] = {name: _wording(text) for name, text in seen["logs"].items()}
    if seen["error"] is not None:
        seen["error"] = {key: _wording(value) for key, value in seen["error"].items()}
        seen["error"]["hint"] = bool(seen["error"]["hint"])
    return seen


def _usage(usage: Any) -> Any:
    if usage == {"wall_s": 0.0, "cpu_s": 0.0, "peak_memory_bytes": 0}:
        return "measured"  # an expectation, which measures nothing
    plausible = 0 < usage["wall_s"] < 60 and 0 <= usage["cpu_s"] < 60 and 0 < usage["peak_memory_bytes"] < 1 << 34
    return "measured" if plausible else usage


def _identity(text: str) -> str:
    try:
        return "id" if not text or str(uuid.UUID(text)) == text else text
    except ValueError:
        return text


def _result(result: dict[str, Any]) -> dict[str, Any]:
    seen = {**result, "text": _wording(result["text"])}
    for name in ("png", "jpeg"):
        if isinstance(seen[name], str):
            try:
                seen[name] = picture.describe(name, seen[name])
            except Exception as problem:
                seen[name] = f"not an image: {problem}"
    if seen["html"] is not None:
        seen["html"] = _html(seen["html"])
    if isinstance(seen["data"], dict) and "dtypes" in seen["data"]:
        seen["data"] = {**seen["data"], "dtypes": ["str" if d == "object" else d for d in seen["data"]["dtypes"]]}
    return seen


def _html(html: str) -> str:
    if "<table" not in html:
        return html
    html = re.sub(r"<style.*?</style>", "", html, flags=re.DOTALL)
    html = re.sub(r"<(div|table|thead|tbody|tr|th|td)\b[^>]*>", r"<\1>", html)
    return re.sub(r"\s*\n\s*", "", html).strip()


def _wording(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    text = ADDRESS.sub("0x…", CARETS.sub("", text))
    for pattern, wording in WORDING:
        text = re.sub(pattern, wording, text)
    return text
