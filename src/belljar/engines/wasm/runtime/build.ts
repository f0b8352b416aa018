/**
 * Records a snapshot in the runtime folder: `build.js NAME`. Its libraries have to be linked then, by binding.py, and
 * `verify.js` has to prove it, in a process of its own, before anybody uses it.
 */
import { boot, openParts } from "./boot.ts";
import { compileMain, type LibraryPlace } from "./modules.ts";
import { placeOf } from "./pack.ts";
import { FOLDER } from "./places.ts";
import { SITE } from "./protocol.ts";
import { Recorder } from "./record.ts";

const [name] = Deno.args;
const recorder = new Recorder();
const parts = await openParts(name === "science");
const { py } = await boot(parts, await compileMain(null), (module) => recorder.attach(module), { _makeSnapshot: true });
recorder.markBooted();
py.runPython(`from belljar_kernel import bridge; bridge.prepare(${parts.packages ? "True" : "False"})`);
for (const loaded of Object.keys(py.loadedPackages)) delete py.loadedPackages[loaded]; // a reference that must be empty
const { snapshot, memory } = await recorder.snapshot();
const places = snapshot.libraries.map(({ path }): LibraryPlace => {
  if (!parts.packages || !path.startsWith(`${SITE}/`)) throw new Error(`${path} is not a library of a package`);
  return [path, ...placeOf(parts.packages, path.slice(SITE.length + 1))];
});
Deno.writeFileSync(`${FOLDER}/${name}.bin`, memory);
Deno.writeTextFileSync(`${FOLDER}/${name}.recorded.json`, JSON.stringify(snapshot));
Deno.writeTextFileSync(`${FOLDER}/${name}.libraries.json`, JSON.stringify(places));
console.log(JSON.stringify({ memoryBytes: snapshot.memorySize, libraries: snapshot.libraries.length }));
Deno.exit(0);
