"""Fetching what is at an address, without running or unpacking anything of it: one file, or one archive out of git."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.message import Message
from pathlib import Path
from typing import IO

from belljar.errors import InvalidRequest
from belljar.packages.addresses import Address, check_source
from belljar.packages.bounded import Budget, run
from belljar.packages.failure import InstallFailed

ANSWER_S = 20.0
PIECE = 1 << 20
ARCHIVE = "source.tar.gz"
# No settings, names or passwords of the operator's, no redirects or alternates to elsewhere, no other protocols.
GIT = ("git", "-c", "http.followRedirects=false", "-c", "credential.helper=", "-c", "core.hooksPath=/dev/null")
KEPT = ("PATH", "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "SYSTEMROOT")  # fmt: skip


def fetch(address: Address, sources: Sequence[str], scratch: Path, budget: Budget) -> Path:
    """A wheel, or an archive of a source, as a file in `scratch`. Blocks.

    Raises:
        InstallFailed: with the reason.
    """
    return _from_git(address, scratch, budget) if address.is_git else _download(address, sources, scratch, budget)


def _from_git(address: Address, scratch: Path, budget: Budget) -> Path:
    """One commit, which is never checked out here."""
    if shutil.which(GIT[0]) is None:
        raise InstallFailed("unknown", "git is needed for it, and is not installed on this machine")
    repository, archive = scratch / "repository", scratch / ARCHIVE
    _git(["init", "--quiet", "--bare", "--template=", str(repository)], scratch, budget)
    beneath = ["--git-dir", str(repository)]
    _git(
        [*beneath, "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--", address.url,
         address.ref or "HEAD"],
        scratch, budget,
    )  # fmt: skip
    archiving = [*beneath, "archive", "--format=tar.gz", "--prefix=source/", f"--output={archive}", "FETCH_HEAD"]
    _git(archiving, scratch, budget)
    return archive


def _git(arguments: Sequence[str], scratch: Path, budget: Budget) -> None:
    env = {name: value for name in KEPT if (value := os.environ.get(name))}
    env |= {"HOME": str(scratch), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "http:https", "GIT_ASKPASS": ""}  # fmt: skip
    code, _, said = run([*GIT, *arguments], scratch, env, budget, scratch)
    if code:
        lines = [line.partition(": ")[2] for line in said.splitlines() if line.startswith(("fatal:", "error:"))]
        raise InstallFailed("unreachable" if "unable to access" in said else "missing", _told(lines[:1] or [said]))


def _told(lines: Sequence[str]) -> str:
    ref = "couldn't find remote ref" in lines[0]
    more = "; a ref is a branch, a tag or a whole commit id" if ref else ""
    return f"git said: {lines[0].strip()[:300] or 'nothing'}{more}"


def _download(address: Address, sources: Sequence[str], scratch: Path, budget: Budget) -> Path:
    path, sha256, size = scratch / address.file_name, hashlib.sha256(), 0
    opener = urllib.request.build_opener(_Redirects(sources))
    request = urllib.request.Request(address.url, headers={"User-Agent": "belljar"})
    try:
        seconds = max(1.0, min(ANSWER_S, budget.until - time.monotonic()))
        with opener.open(request, timeout=seconds) as answer, open(path, "wb") as file:
            while piece := answer.read1(PIECE):
                size += len(piece)
                budget.check_size(size)
                budget.check_time()
                sha256.update(piece)
                file.write(piece)
    except urllib.error.HTTPError as failure:
        failure.close()
        raise InstallFailed("missing", f"the answer of its server is {failure.code}") from None
    except InvalidRequest as failure:
        raise InstallFailed("refused", f"its server sends one elsewhere: {failure}") from None
    except (OSError, http.client.HTTPException) as failure:
        raise InstallFailed("unreachable", f"its server cannot be reached: {failure}") from None
    if address.sha256 is not None and sha256.hexdigest() != address.sha256:
        raise InstallFailed("refused", f"its sha256 is {sha256.hexdigest()}, and must be {address.sha256}")
    return path


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Followed below the same sources only."""

    def __init__(self, sources: Sequence[str]) -> None:
        self._sources = sources

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:  # fmt: skip
        try:
            check_source(newurl, self._sources)
        except InvalidRequest:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
