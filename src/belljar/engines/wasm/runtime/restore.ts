/** Boots from a snapshot: links the same libraries at the same places, then puts the memory back as it was. */
import { boot, type Parts } from "./boot.ts";
import type { EmscriptenModule, Exports, Hooks, Pyodide } from "./emscripten.ts";
import type { Libraries, Modules } from "./modules.ts";
import { FOLDER } from "./places.ts";
import type { Snapshot } from "./snapshot.ts";

const LIBRARIES = "belljar-libraries";

export type Look = (module: EmscriptenModule) => void;

/** A snapshot that is ready to be restored: its description is read, its pages are open. */
export interface Opened {
  snapshot: Snapshot;
  pages: Deno.FsFile;
}

/** Open a snapshot of the runtime folder. */
export function openSnapshot(name: string): Opened {
  return {
    snapshot: JSON.parse(Deno.readTextFileSync(`${FOLDER}/${name}.json`)),
    pages: Deno.openSync(`${FOLDER}/${name}.bin`),
  };
}

/** Restore; `look` sees the module when its memory is back and nothing has run yet. */
export async function restore(parts: Parts, opened: Opened, modules: Modules, look?: Look): Promise<Pyodide> {
  const { snapshot, pages } = opened, { promise: failed, reject } = Promise.withResolvers<never>();
  const booted = boot(parts, await modules.main, (module) => {
    const hooks = module.belljar = hooksOf(module, snapshot);
    const link = (libraries: Libraries) => {
      hooks.library = (path) => libraries.get(path);
      relink(module, snapshot, libraries);
      delete hooks.memoryBase; // from here on libraries are loaded as ever
      delete hooks.tableBase;
      module.API.restoreSnapshot = () => {
        fill(module.HEAPU8, snapshot.pages, pages);
        reopen(module, snapshot);
        look?.(module);
        return snapshot.references;
      };
      module.removeRunDependency(LIBRARIES);
    };
    module.preRun.push(() => {
      module.addRunDependency(LIBRARIES); // it goes on when that is removed
      modules.libraries.then(link).catch(reject);
    });
  }, { _loadSnapshot: new Uint8Array(16) });
  const { py, module } = await Promise.race([booted, failed]);
  pages.close();
  module.belljar = { offsets: module.belljar?.offsets };
  return py;
}

function hooksOf(module: EmscriptenModule, snapshot: Snapshot): Hooks {
  const byPath = new Map(snapshot.libraries.map((library) => [library.path, library]));
  const recorded = (path: string, kind: "memory" | "table", size: number): number => {
    const library = byPath.get(path);
    if (library?.[`${kind}Size`] !== size) throw new Error(`${path} is not the library of the snapshot`);
    return library[kind];
  };
  return {
    memoryBase: (path, size) => recorded(path, "memory", size),
    tableBase: (path, _, size) => recorded(path, "table", size),
    needed(name, by) {
      const found = snapshot.libraries.filter(({ path }) => path.endsWith(`/${name}`));
      if (found.length !== 1) throw new Error(`${by} needs ${name}, of which the snapshot has ${found.length}`);
      return module.LDSO.loadedLibsByName[found[0].path].exports;
    },
    restoreMain(exports) {
      fillTable(module, snapshot, exports);
    },
    fixedSlots: [...snapshot.fixedSlots],
    offsets: Object.assign(Object.create(null), snapshot.offsets),
  };
}

/** Right after the main instance is there: the table gets its final length and all that is not a library's. */
function fillTable(module: EmscriptenModule, snapshot: Snapshot, main: Exports): void {
  const table = module.wasmTable;
  if (table.length !== snapshot.tableStart) throw new Error("the function table does not start as in the snapshot");
  table.grow(snapshot.tableLength - snapshot.tableStart);
  for (const [index, name] of snapshot.mainSlots) table.set(index, main[name]);
  const scripts = module.LDSO.loadedLibsByName.__main__.exports;
  const imports = Object.fromEntries(snapshot.scriptSlots.map(([, name], k) => [k, scripts[name]]));
  const adapter = new WebAssembly.Module(Uint8Array.fromBase64(snapshot.adapter));
  const { exports } = new WebAssembly.Instance(adapter, { e: imports as WebAssembly.ModuleImports });
  snapshot.scriptSlots.forEach(([index], k) => table.set(index, exports[k] as CallableFunction));
}

function relink(module: EmscriptenModule, snapshot: Snapshot, compiled: Libraries): void {
  if (module.API.config.BUILD_ID !== snapshot.buildId) throw new Error("the snapshot is of another build of Pyodide");
  if (!module.growMemory(snapshot.memorySize) || module.HEAPU8.length !== snapshot.memorySize) {
    throw new Error(`the memory limit is below the ${snapshot.memorySize >> 20} MB of the snapshot`);
  }
  const { LDSO, wasmTable } = module;
  for (const { path } of snapshot.libraries) {
    const library = module.newDSO(path, undefined, "loading");
    library.refcount = Infinity;
    library.global = false;
    library.exports = module.loadWebAssemblyModule(compiled.get(path)!, { replay: true, nodelete: true }, path, {});
  }
  for (const [index, path, name] of snapshot.librarySlots) {
    wasmTable.set(index, LDSO.loadedLibsByName[path].exports[name]);
  }
  for (const [handle, path] of snapshot.handles) LDSO.loadedLibsByHandle[handle] = LDSO.loadedLibsByName[path];
  module.freeTableIndexes.push(...snapshot.freeSlots);
  if (module.belljar?.fixedSlots?.length || wasmTable.length !== snapshot.tableLength) {
    throw new Error("the function table did not come out as in the snapshot");
  }
}

function fill(heap: Uint8Array, runs: Snapshot["pages"], pages: Deno.FsFile): void {
  for (const [start, length] of runs) {
    for (let done = 0; done < length;) {
      const count = pages.readSync(heap.subarray(start + done, start + length));
      if (!count) throw new Error("the snapshot is shorter than it says");
      done += count;
    }
  }
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
