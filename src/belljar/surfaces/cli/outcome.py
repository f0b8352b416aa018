"""How a run ended, for a shell: an exit code, and for each thing out of the ordinary one line with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.execution import OUTPUT_FOLDER
from belljar.surfaces.cli.wording import one_line

if TYPE_CHECKING:
    from belljar.execution import Execution
    from belljar.limits import Limits

_EXIT_CODES = {"timeout": 124, "out_of_memory": 137, "cancelled": 130}
_SEGMENTATION_FAULT = 139


def exit_code(execution: Execution) -> int:
    """The code's own exit code, or the one by which shells know how it was stopped."""
    if execution.status in _EXIT_CODES:
        return _EXIT_CODES[execution.status]
    if execution.status == "crashed":
        own = execution.exit_code
        return 128 - own if own < 0 else (own & 0xFF) or _SEGMENTATION_FAULT
    return execution.exit_code & 0xFF


def remarks(execution: Execution, limits: Limits) -> list[str]:
    """One line for each thing that the code's own output does not say."""
    lines = [f"running without {wall}, as the operator allowed" for wall in execution.degraded]
    lines += [_denial(d.kind, d.target, d.rule, d.hint) for d in execution.denials]
    if execution.truncated:
        whole = " and ".join(file.path for file in execution.files if file.path.startswith(OUTPUT_FOLDER))
        rest = f"all of it is in {whole}" if whole else "write it to a file in /workspace"
        lines.append(f"output over {limits.output_mb:g} MB is not shown; {rest}, which --out DIR fetches")
    why = execution.error.value if execution.error else ""
    match execution.status:
        case "timeout":
            lines.append(f"stopped at the time limit of {limits.timeout_s:g} s; --timeout S allows up to 300")
        case "out_of_memory":
            lines.append(
                f"out of memory: the code needed more than its {limits.memory_mb} MB; --memory MB allows more,"
                " and reading data in parts needs less"
            )
        case "crashed":
            lines.append(f"crashed: {why or 'the sandboxed Python ended by itself'}")
        case "cancelled":
            lines.append(f"interrupted: {why or 'the run was cancelled'}")
    if execution.error and execution.error.hint:
        lines.append(f"hint: {execution.error.hint}")
    return [one_line(line) for line in lines]


def _denial(kind: str, target: str, rule: str, hint: str) -> str:
    return f"refused {kind} {target}" + (f" ({rule})" if rule else "") + (f"; {hint}" if hint else "")
