"""Our scripts as one: in the order in which they need each other, and each with names of its own."""

from __future__ import annotations

import subprocess

import pytest

from belljar.engines.wasm.bundle import bundled
from belljar.engines.wasm.deno import find_deno
from belljar.errors import StartFailed

SCRIPTS = {
    "main": '/** Begins. */ import { greet, NAME as whom } from "./greeting.js";\n'
    'import { mark, TWO } from "./mark.js";\nconst hidden = greet(whom);\nconsole.log(hidden + mark() + TWO);\n',
    "greeting": '/** Of greetings. */ import { mark } from "./mark.js";\n'
    'const hidden = "hello ";\nexport const EMPTY = "";\n/** Whom. */ export const NAME = "you";\n'
    "/** Greets,\n * politely. */ export function greet(name) {\n  return hidden + name + mark();\n}\n"
    'export class Unused {\n  text = "export default ";\n}\n',
    "mark": "/** A mark. */ /** Two. */ export const TWO = 2;\n"
    "const hidden = 1;\nexport async function later() {}\nexport function mark() {\n  return hidden;\n}\n",
}


def test_a_bundle_does_what_its_scripts_do():
    script = bundled(SCRIPTS, "main")
    assert script.count("const mark_ =") == 1
    told = subprocess.run([str(find_deno()), "eval", script], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "hello you112\n"


@pytest.mark.parametrize(
    ("name", "script", "why"),
    [
        ("mark", 'import { greet } from "./greeting.js";\nexport function mark() {}\n', "import each other"),
        ("mark", "export const TWO = 1;\n", "does not export mark"),
        ("mark", "function mark() {}\nexport { mark };\n", "cannot be bundled"),
        ("mark", "export function mark() {}\nexport default mark;\n", "cannot be bundled"),
        ("mark", "export function mark() {}\nexport let changing = 1;\n", "cannot be bundled"),
        (
            "mark",
            'import { gone } from "./gone.js";\nexport function mark() {}\n',
            "imports gone.ts, which is not there",
        ),
        ("mark", 'import * as all from "./other.js";\nexport function mark() {}\n', "cannot be bundled"),
    ],
)
def test_what_it_does_not_understand_is_refused(name: str, script: str, why: str):
    with pytest.raises(StartFailed, match=why):
        bundled({**SCRIPTS, name: script}, "main")
