/** Boots from a snapshot: puts the memory back as it was, and the same libraries at the same places. */
import { boot, type Parts } from "./boot.ts";
import { ColdHalves } from "./cold.ts";
import type { EmscriptenModule, Exports, Hooks, Library, Pyodide } from "./emscripten.ts";
import { type Late, LateNames, type LateOfSnapshot, lazily, referenceTables } from "./late.ts";
import type { Libraries, Modules } from "./modules.ts";
import { FOLDER } from "./places.ts";
import type { PageRun, Snapshot } from "./snapshot.ts";

const LIBRARIES = "belljar-libraries", MAIN = "belljar_main", WASM_PAGE = 65536, MOST_PAGES = 65536;

export type Look = (module: EmscriptenModule) => void;

/** A snapshot that is being restored: its description is read, and its memory is filled in the background. */
export interface Opened {
  snapshot: Snapshot;
  /** Those of the main module, and those of the snapshot. */
  late: LateNames;
  names: () => LateOfSnapshot;
  cold: ColdHalves;
  memory: WebAssembly.Memory;
  /** When the data of the main module is there. */
  begun: Promise<void>;
  filled: Promise<unknown>;
}

/** Open a snapshot of the runtime folder. */
export function openSnapshot(name: string): Opened {
  const snapshot: Snapshot = JSON.parse(Deno.readTextFileSync(`${FOLDER}/${name}.json`));
  const path = `${FOLDER}/${name}.bin`, memory = emptyMemory(snapshot.memorySize);
  const fills = snapshot.pages.map((run) => fill(new Uint8Array(memory.buffer), run, Deno.openSync(path)));
  return {
    snapshot,
    late: new LateNames(lazily<Late>("late.json")),
    names: lazily<LateOfSnapshot>(`${name}.late.json`),
    cold: new ColdHalves(name),
    memory,
    begun: fills[0],
    filled: Promise.all(fills),
  };
}

/** Restore; `look` sees the module when all of it is back and nothing has run yet. */
export async function restore(parts: Parts, opened: Opened, modules: Modules, look?: Look): Promise<Pyodide> {
  const { snapshot } = opened, { promise: failed, reject } = Promise.withResolvers<never>();
  const [main] = await Promise.all([modules.main, opened.begun]); // Pyodide looks up the version of Python before it links
  const booted = boot(parts, main, (module) => {
    const hooks = module.belljar = hooksOf(opened);
    let env: WebAssembly.ModuleImports;
    hooks.restoreMain = (main, imports) => {
      try {
        env = imports.env;
        opened.cold.expect(0, main, imports);
        restoreMain(module, opened, main);
      } catch (failure) {
        reject(failure); // Pyodide does not pass it on
        throw failure;
      }
    };
    const link = ([libraries]: [Libraries, unknown]) => {
      relink(module, opened, libraries, env);
      module.API.restoreSnapshot = () => {
        reopen(module, snapshot);
        look?.(module);
        return snapshot.references;
      };
      module.removeRunDependency(LIBRARIES);
    };
    module.preRun.push(() => {
      module.addRunDependency(LIBRARIES); // it goes on when that is removed
      Promise.all([modules.libraries, opened.filled]).then(link).catch(reject); // nobody looks at the heap before
    });
  }, { _loadSnapshot: new Uint8Array(16) });
  const { py, module } = await Promise.race([booted, failed]);
  module.belljar = { offset: module.belljar?.offset };
  return py;
}

function emptyMemory(size: number): WebAssembly.Memory {
  try {
    return new WebAssembly.Memory({ initial: size / WASM_PAGE, maximum: MOST_PAGES });
  } catch (failure) {
    throw new Error(`there is no room for the ${size >> 20} MB of the snapshot: ${failure}`);
  }
}

function hooksOf({ snapshot, late, names, memory }: Opened): Hooks {
  const offset = (name: string) => Object.hasOwn(names().offsets, name) ? names().offsets[name] : late.offset(name);
  return { memory, fixedSlots: [...snapshot.fixedSlots], offset };
}

/** Right after the main instance is there: what its constructors would have made outside of the memory. */
function restoreMain(module: EmscriptenModule, { snapshot, late }: Opened, main: Exports): void {
  const known = module.LDSO.loadedLibsByName.__main__.exports;
  late.offer(known, module.wasmTable);
  fillTable(module, snapshot, known);
  referenceTables(main).forEach((table, k) => {
    const { length, maps } = snapshot.referenceTables[k];
    table.grow(length - table.length, null);
    for (const index of maps) table.set(index, new Map());
  });
}

/** The table gets its final length and all that is not a library's. */
function fillTable(module: EmscriptenModule, snapshot: Snapshot, known: Exports): void {
  const table = module.wasmTable;
  if (table.length !== snapshot.tableStart) throw new Error("the function table does not start as in the snapshot");
  table.grow(snapshot.tableLength - snapshot.tableStart);
  const imports = Object.fromEntries(snapshot.scriptSlots.map(([, name], k) => [k, known[name]]));
  const adapter = new WebAssembly.Module(Uint8Array.fromBase64(snapshot.adapter));
  const { exports } = new WebAssembly.Instance(adapter, { e: imports as WebAssembly.ModuleImports });
  snapshot.scriptSlots.forEach(([index], k) => table.set(index, exports[k] as CallableFunction));
}

/** Instantiate the libraries, which are linked already: what they share is handed over, and nothing is looked up but that. */
function relink(module: EmscriptenModule, opened: Opened, compiled: Libraries, env: WebAssembly.ModuleImports): void {
  const { snapshot, names, cold } = opened, { LDSO, wasmTable } = module;
  if (module.API.config.BUILD_ID !== snapshot.buildId) throw new Error("the snapshot is of another build of Pyodide");
  const main: WebAssembly.ModuleImports = {};
  for (const slot of snapshot.mainSlots) main[slot] = wasmTable.get(slot)!;
  snapshot.libraries.forEach(({ path, asked, given }, k) => {
    const library = module.newDSO(path, undefined, "loading");
    const imports: Record<string, WebAssembly.ModuleImports> = { [MAIN]: main, env: { ...given } };
    for (const name of asked) imports.env[name] = Object.hasOwn(env, name) ? env[name] : later(library, name);
    const code = compiled.get(path);
    if (!code) throw new Error(`there is no ${path} for the snapshot`);
    const { exports } = new WebAssembly.Instance(code, imports);
    cold.expect(1 + k, exports, imports);
    library.refcount = Infinity;
    library.global = false;
    library.exports = new LateNames(() => names().libraries[path]).added(exports, wasmTable);
  });
  for (const [handle, path] of snapshot.handles) LDSO.loadedLibsByHandle[handle] = LDSO.loadedLibsByName[path];
  module.freeTableIndexes.push(...snapshot.freeSlots);
  if (module.belljar?.fixedSlots?.length || wasmTable.length !== snapshot.tableLength) {
    throw new Error("the function table did not come out as in the snapshot");
  }
}

/** A function of the library itself that it imports; there is none before there is an instance. */
function later(library: Library, name: string): CallableFunction {
  let found: CallableFunction | undefined;
  return (...args: unknown[]) => {
    found ??= library.exports[name] as CallableFunction | undefined;
    if (!found) throw new Error(`${library.name} uses ${name}, which nobody has`);
    return found(...args);
  };
}

/** By another thread. The memory is all zero before, as nothing has run yet and the modules bring no data. */
async function fill(heap: Uint8Array, [start, length]: PageRun, file: Deno.FsFile): Promise<void> {
  file.seekSync(start, Deno.SeekMode.Start);
  for (let done = 0; done < length;) done += counted(await file.read(heap.subarray(start + done, start + length)));
  file.close();
}

function counted(bytes: number | null): number {
  if (!bytes) throw new Error("the snapshot is shorter than it says");
  return bytes;
}

/** Files that were open, at the same descriptors and positions. */
function reopen(module: EmscriptenModule, snapshot: Snapshot): void {
  const { FS } = module;
  for (const { fd, path, flags, position } of snapshot.files) {
    const stream = FS.open(path, flags & 0o3);
    if (stream.fd !== fd) {
      FS.closeStream(stream.fd);
      FS.createStream(stream, fd);
    }
    FS.streams[fd]!.position = position;
  }
}
