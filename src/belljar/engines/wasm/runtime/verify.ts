/** Restores a snapshot and compares memory and function table with what was recorded: `verify.js NAME`. */
import { openParts } from "./boot.ts";
import { compileLibraries, compileMain } from "./modules.ts";
import { openSnapshot, restore } from "./restore.ts";
import { memoryDigest, tableDigest } from "./snapshot.ts";

const [name] = Deno.args;
const modules = { main: compileMain(name), libraries: compileLibraries(name) };
const parts = await openParts(name === "science"), opened = openSnapshot(name);
const { snapshot } = opened;
let memory = Promise.resolve(""), table = Promise.resolve("");
const py = await restore(parts, opened, modules, (module) => {
  memory = memoryDigest(module.HEAPU8.slice());
  table = tableDigest(module.wasmTable, snapshot.scriptSlots);
});
if (await memory !== snapshot.memoryDigest) throw new Error("the restored memory differs from the recorded one");
if (await table !== snapshot.tableDigest) throw new Error("the restored function table differs from the recorded one");
attempt();
opened.cold.loadAll();
attempt();
Deno.exit(0);

function attempt(): void {
  const trial = py.runPython("from belljar_kernel.bridge import trial; trial()");
  if (trial !== "ok") throw new Error(`the restored interpreter does not work: ${trial}`);
}
