/**
 * Compiles every module of a pack with the interpreter that will run it: `compile.js OUT` writes one file of
 * compiled modules, each as a line of JSON with its path and its length, followed by its bytes. `compile.js OUT FOLDER` does
 * so for the pack of a layer in that folder.
 */
import { boot, openParts } from "./boot.ts";
import type { PyCallable } from "./emscripten.ts";
import { compileMain } from "./modules.ts";
import { entryOf, mountPack, openPack, type Tree } from "./pack.ts";
import { FOLDER } from "./places.ts";
import { LAYER, SITE } from "./protocol.ts";

const [out, layer] = Deno.args;
const parts = await openParts(true);
const { py } = await boot(parts, await compileMain(null));
const pack = layer ? openPack(layer, "pack") : parts.packages!, at = layer ? LAYER : SITE;
if (layer) mountPack(py.FS, pack, LAYER);
const compile = py.runPython(Deno.readTextFileSync(`${FOLDER}/compiled.py`)) as PyCallable;
const file = Deno.openSync(out, { write: true, create: true, truncate: true });
const encoder = new TextEncoder();

function write(bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
}

function walk(tree: Tree, prefix: string): void {
  for (const name of Object.keys(tree)) {
    const entry = entryOf(tree, name);
    if (!Array.isArray(entry)) walk(entry, `${prefix}${name}/`);
    else if (name.endsWith(".py")) {
      const code = compile(`${at}/${prefix}${name}`) as { toJs(): Uint8Array; destroy(): void } | undefined;
      if (!code) continue;
      const bytes = code.toJs();
      code.destroy();
      write(encoder.encode(JSON.stringify([`${prefix}${name}`, bytes.length]) + "\n"));
      write(bytes);
    }
  }
}

walk(pack.tree, "");
file.close();
Deno.exit(0);
