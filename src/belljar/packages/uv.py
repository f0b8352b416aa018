"""uv as the installer of the native engine: it resolves, fetches and unpacks wheels, and builds nothing."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import parse_wheel_filename

from belljar.packages.base import PREINSTALLED
from belljar.packages.bounded import COMPILER_BYTES, Budget, run
from belljar.packages.environment import Environment
from belljar.packages.failure import WITHOUT_INDEX, InstallFailed
from belljar.packages.layers import Resolution, Resolved
from belljar.packages.lock import try_to_hold
from belljar.packages.programs import find_program
from belljar.packages.requirements import contradicts, name_of, versions
from belljar.packages.stubs import write_stubs
from belljar.settings import Settings
from belljar_kernel.protocol import PACKAGES

BYTECODE = Path(__file__).with_name("bytecode.py")
KEPT = re.compile(r"UV_(?:.*INDEX.*|KEYRING.*|.*CERT.*|NATIVE_TLS|.*INSECURE_HOST|FIND_LINKS|OFFLINE|.*PROXY.*)")
_LINE = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:==(?P<version>[^\s;@\\]+)| @ (?P<url>file://\S+\.whl))(?: \\)?")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
_BESIDE = ("hint:", "warning:", "No solution found", "Using ", "Resolved ", "Prepared ", "Downloading ", "Downloaded ",
           "Installed ", "Uninstalled ")  # fmt: skip
_UNREACHABLE = re.compile(
    r"[Ff]ailed to fetch|error sending request|[Cc]onnect error|network was disabled|dns error|timed out|"
    r"HTTP status (?:client|server) error|[Nn]etwork"
)


@dataclass(frozen=True)
class Uv:
    """Installs for one CPython."""

    settings: Settings
    engine: str
    offline: bool = False  # no index is asked

    def resolve(
        self, ground: Environment, wanted: Sequence[str], pinned: Sequence[str], scratch: Path, budget: Budget
    ) -> Resolution:
        """What is needed for `wanted` beside what there is, keeping the pinned versions if that can be."""
        write_stubs(ground, scratch / "stubs")
        names, own = {name_of(text) for text in wanted}, list(versions(ground.packages))
        looser = ([*wanted, *own], [line for line in pinned if name_of(line) not in names])
        tries = [looser] if contradicts(wanted, pinned) else [(list(wanted), list(pinned)), looser]
        found = self._first(ground, tries[:1], scratch, budget)
        if found is not None:
            return found
        alone = self._resolve(ground, wanted, [], scratch, budget)  # if not even that can be, its reason is plain
        found = self._first(ground, [*tries[1:], ([*wanted, *PREINSTALLED], [])] if own else [], scratch, budget)
        return alone if found is None else found

    def install(self, resolved: Sequence[Resolved], site: Path, python: Path, scratch: Path, budget: Budget) -> None:
        """Unpack wheels whose hashes are the resolved ones."""
        listed = scratch / "resolved.txt"
        listed.write_text("".join(one.text + "\n" for one in resolved), "utf-8")
        argv = [
            *self._command("install", python), "--target", str(site), "--no-deps", "--require-hashes", "--link-mode",
            "copy", "-r", str(listed),
        ]  # fmt: skip
        self._run(argv, scratch, budget, site)
        compile_modules(python, site, scratch, budget)
        for name in ("direct_url.json", "uv_cache.json"):  # they say where on this machine a wheel was
            for path in site.glob(f"*.dist-info/{name}"):
                path.unlink()

    def _first(
        self, ground: Environment, tries: Sequence[tuple[list[str], list[str]]], scratch: Path, budget: Budget
    ) -> Resolution | None:
        """What can be had of several wishes, each with its pins; None when all contradict themselves."""
        for wanted, pinned in tries:
            try:
                return self._resolve(ground, wanted, pinned, scratch, budget)
            except InstallFailed as failure:
                if failure.kind != "conflict":
                    raise
        return None

    def _resolve(
        self, ground: Environment, wanted: Sequence[str], pinned: Sequence[str], scratch: Path, budget: Budget
    ) -> Resolution:
        (scratch / "wanted.txt").write_text("".join(f"{line}\n" for line in wanted), "utf-8")
        (scratch / "pinned.txt").write_text("".join(f"{line}\n" for line in pinned), "utf-8")
        argv = [
            *self._command("compile", ground.python), "--generate-hashes", "--no-header", "--no-annotate",
            "--find-links", str(scratch / "stubs"), "--constraint", str(scratch / "pinned.txt"),
            str(scratch / "wanted.txt"),
        ]  # fmt: skip
        said = self._run(argv, scratch, budget)
        return resolved(said, {unquote(found.url) for found in map(Requirement, wanted) if found.url})

    def _command(self, act: str, python: Path) -> list[str]:
        house = self.settings.wheelhouse
        return [
            find_program("uv"), "pip", act, "--python", str(python), "--only-binary", ":all:", "--no-config",
            "--no-progress", "--no-python-downloads", "--cache-dir", str(self.settings.cache_dir / "uv"),
            *(("--find-links", str(house)) if house is not None and house.is_dir() else ()),
        ]  # fmt: skip

    def _run(self, argv: list[str], scratch: Path, budget: Budget, grows: Path | None = None) -> str:
        """Ask the index; when it cannot be reached, see what is known without."""
        failure = InstallFailed("unreachable", WITHOUT_INDEX)
        if not self.offline:
            code, out, said = self._try(argv, scratch, budget, grows)
            if not code:
                return out
            if (failure := understood(said)).kind != "unreachable":
                raise failure
        code, out, _ = self._try([*argv, "--offline"], scratch, budget, grows)
        if code:
            raise failure
        return out

    def _try(self, argv: list[str], scratch: Path, budget: Budget, grows: Path | None) -> tuple[int, str, str]:
        try:
            return run(argv, scratch, environment(scratch, budget), budget, grows)
        except InstallFailed:
            _tidy(self.settings.cache_dir / "uv")
            raise


def environment(scratch: Path, budget: Budget) -> dict[str, str]:
    """This process's environment without what would change uv's work; pip's index serves when uv has none."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or KEPT.fullmatch(name)}
    if not any(name in kept for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX")) and "PIP_INDEX_URL" in kept:
        kept["UV_DEFAULT_INDEX"] = kept["PIP_INDEX_URL"]
    answer = max(2, min(15, int(budget.seconds / 12)))
    return dict(kept, TMPDIR=str(scratch), UV_HTTP_TIMEOUT=str(answer), UV_HTTP_RETRIES="1", NO_COLOR="1")


def compile_modules(python: Path, site: Path, scratch: Path, budget: Budget) -> None:
    """Compile what was installed, as far as that goes within the bounds; the rest is compiled when it is imported."""
    argv = [str(python), "-I", "-S", str(BYTECODE), str(site), PACKAGES]
    with contextlib.suppress(InstallFailed):
        run(argv, scratch, environment(scratch, budget), budget, site, COMPILER_BYTES)
    for part in site.rglob("__pycache__/*.pyc.*"):  # of one that was ended
        part.unlink(missing_ok=True)


def understood(said: str) -> InstallFailed:
    """What uv's complaint amounts to."""
    told = _in_short(said)
    if found := re.search(r"(\S+) was not found in the package registry", said):
        return InstallFailed("missing", f"there is no package {found[1]!r} on the package index", found[1])
    if _UNREACHABLE.search(said):
        return InstallFailed("unreachable", f"the package index cannot be reached: {_last_cause(said)}")
    if re.search(r"no usable wheels|has no wheels|no wheels with a matching|building from source is disabled", said):
        return InstallFailed("no_build", f"there is no wheel for this machine's Python, and nothing is built: {told}")
    if re.search(r"[Hh]ash(?:es)? mismatch|[Hh]ash", said) and "No solution" not in said:
        return InstallFailed("refused", f"what the index gave is not what it had announced: {told}")
    if "No solution found" in said:
        return InstallFailed("conflict", told)
    return InstallFailed("unknown", f"uv said: {told}")


def resolved(said: str, own: Collection[str]) -> Resolution:
    """What uv resolved: versions, and wheels of ours. Any other line is something that a package brought in."""
    found: Resolution = []
    for line in said.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None and (match["version"] or unquote(match["url"]) in own):
            version = match["version"] or version_of(match["url"].rpartition("/")[2])
            found.append(Resolved(match["name"], version, line))
        elif found and _HASH.fullmatch(line):
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{line}")
        elif line.strip():
            raise InstallFailed("refused", f"a package needs {line.strip()[:200]!r}, and only names are followed")
    return found


def version_of(wheel: str) -> str:
    """Of a wheel that was built here, by its name."""
    return str(parse_wheel_filename(unquote(wheel))[1])


def _tidy(cache: Path) -> None:
    """Remove what a uv that was ended had begun to download, unless another one is at work in the same cache."""
    with contextlib.suppress(OSError), open(cache / ".lock", "ab") as lock:
        if try_to_hold(lock.fileno()):
            for left in cache.glob(".tmp*"):
                shutil.rmtree(left, ignore_errors=True)


def _in_short(said: str) -> str:
    lines = [line.strip().removeprefix("cause: ").removeprefix("error: ") for line in said.splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(_BESIDE)]
    return " ".join(kept or lines)[:500] or "nothing"


def _last_cause(said: str) -> str:
    causes = re.findall(r"cause: (.+)", said)
    return (causes[-1] if causes else _in_short(said))[:200]
