"""The figures as a table for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Figure, Row

WORDS = {"ms": ("faster", "slower"), "/s": ("more", "fewer"), "MB": ("less", "more"), "MB/s": ("faster", "slower")}


def show(machine: dict[str, Any], rows: list[Row], console: Console) -> None:
    """Print the machine, and each row with everybody's figures."""
    console.print(
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"load before {machine['load_before'][0]}",
        style="dim",
        highlight=False,
    )
    table = Table(pad_edge=False)
    for heading in ("what", "who"):
        table.add_column(heading, overflow="fold")
    for heading in ("p50", "p90", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("against the peers of this run", overflow="fold")
    for row in rows:
        for index, figure in enumerate(row.figures):
            title = row.title if index == 0 else ""
            table.add_row(title, *_cells(row, figure), end_section=index == len(row.figures) - 1)
    console.print(table)


def _cells(row: Row, figure: Figure) -> tuple[str, str, str, str, str]:
    name = f"[bold]{figure.name}[/]" if figure.ours else figure.name
    if not figure.values:
        return name, "–", "–", _target(row, figure), f"[yellow]{figure.absent}[/]"
    met = row.is_met(figure)
    colour = {True: "[green]", False: "[red]", None: "[default]"}[met]
    p50, p90 = (f"{_number(value)} {row.unit}" for value in (figure.p50, figure.p90))
    return name, f"{colour}{p50}[/]", p90, _target(row, figure), _against(row, figure)


def _target(row: Row, figure: Figure) -> str:
    if figure.target is None:
        return ""
    sign = "≤" if row.better == "lower" else "≥"
    if figure.target.times is not None:
        return f"{sign} {figure.target.limit:g} × {figure.target.times}"
    limit = f"{sign} {figure.target.limit:g} {row.unit}"
    return limit if figure.target.lead is None else f"{limit}\n≥ {figure.target.lead[0]:g}× {figure.target.lead[1]}"


def _against(row: Row, figure: Figure) -> str:
    better, worse = WORDS[row.unit]
    lines, reach = [], row.ratios(figure)
    for peer, ratio in row.advantage(figure).items():
        times, word = (ratio, better) if ratio >= 1 else (1 / ratio, worse)
        line = f"{_number(times)}× {word} than {peer}"
        lines.append(f"{line} (to reach: {_number(reach[peer])}×)" if peer in reach else line)
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
