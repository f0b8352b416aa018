/** Loads Pyodide with the packs mounted. What differs between a plain boot, a build and a restore is the caller's. */
import type { EmscriptenModule, FileSystem, LoadOptions, Pyodide } from "./emscripten.ts";
import { mountPack, openPack, type Pack } from "./pack.ts";
import { FOLDER } from "./places.ts";
import { HOME, KERNEL, LAYER, OWN, SITE } from "./protocol.ts";

const ENVIRONMENT = {
  HOME,
  PYTHONHASHSEED: "0",
  PYTHONDONTWRITEBYTECODE: "1",
  PYTHONPATH: KERNEL,
  MPLBACKEND: "agg",
};

/** Not a template in the import itself: Deno would let every script of the folder be imported, for good. */
const load = (address: string) => import(address);
const EXPORT = "export default "; // how patches.py begins them

/** Everything that is read from the runtime folder for a boot; nothing is read from it later but through open files. */
export interface Parts {
  /** Emscripten's module factory. */
  create: (settings: EmscriptenModule) => unknown;
  load: (options: LoadOptions) => Promise<Pyodide>;
  kernel: Pack;
  packages: Pack | null;
  lock: unknown;
  stdlib: Uint8Array;
}

type Extra = Partial<Pick<LoadOptions, "_makeSnapshot" | "_loadSnapshot">>;
type Prepare = (module: EmscriptenModule) => void;

/** Open the parts; without packages for Python alone. `areCompiled` says that Deno has the scripts in its cache. */
export async function openParts(withPackages: boolean, areCompiled = false): Promise<Parts> {
  return {
    create: await script("pyodide.asm.mjs", areCompiled),
    load: await script("pyodide.mjs", areCompiled),
    kernel: openPack(FOLDER, "kernel"),
    packages: withPackages ? openPack(FOLDER, "packages") : null,
    lock: JSON.parse(Deno.readTextFileSync(`${FOLDER}/lock.json`)),
    stdlib: Deno.readFileSync(`${FOLDER}/python_stdlib.zip`),
  };
}

/** What one of Pyodide's scripts exports. Deno searches what it imports for further imports, unless it knows them. */
async function script<T>(name: string, isCompiled: boolean): Promise<T> {
  if (isCompiled) return (await load(new URL(name, import.meta.url).href)).default();
  const text = Deno.readTextFileSync(`${FOLDER}/${name}`);
  if (!text.startsWith(EXPORT)) throw new Error(`${name} is not one of our scripts`);
  return (0, eval)(text.slice(EXPORT.length))();
}

/** Load Pyodide; `prepare` sees the module before it is instantiated. */
export async function boot(
  parts: Parts,
  main: WebAssembly.Module,
  prepare: Prepare = () => {},
  extra: Extra = {},
): Promise<{ py: Pyodide; module: EmscriptenModule }> {
  let module: EmscriptenModule | undefined;
  Object.assign(globalThis, { belljarParts: { main, stdlib: parts.stdlib } });
  const py = await parts.load({
    ...extra,
    indexURL: `${FOLDER}/`,
    packageBaseUrl: `${FOLDER}/`,
    lockFileContents: parts.lock,
    env: { ...ENVIRONMENT },
    _sysExecutable: "/usr/bin/python3",
    fsInit: (fs) => Promise.resolve(furnish(fs, parts)),
    createPyodideModule(settings) {
      module = settings;
      prepare(settings);
      return parts.create(settings);
    },
  });
  delete (globalThis as { belljarParts?: unknown }).belljarParts;
  return { py, module: module! };
}

function furnish(fs: FileSystem, parts: Parts): void {
  for (const folder of [KERNEL, LAYER, ...OWN]) fs.mkdirTree(folder);
  mountPack(fs, parts.kernel, KERNEL);
  if (parts.packages) mountPack(fs, parts.packages, SITE);
}
