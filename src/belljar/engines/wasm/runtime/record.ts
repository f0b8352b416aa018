/** Watches how a module is linked while it boots and imports, and writes all of it down. Refuses what it cannot explain. */
import { adapterModule } from "./adapter.ts";
import type { EmscriptenModule, Export, Exports, Hooks } from "./emscripten.ts";
import { type LinkedLibrary, memoryDigest, type Snapshot, tableDigest } from "./snapshot.ts";

type Slots = Pick<Snapshot, "librarySlots" | "mainSlots" | "scriptSlots" | "fixedSlots">;

const PAGE = 4096, TOUCHED = 256; // pages

export class Recorder {
  #libraries: LinkedLibrary[] = [];
  #slots: [number, Export][] = [];
  #main: Exports = {};
  #tableStart = 0;
  #slotsOfBoot = 0;
  #module!: EmscriptenModule;

  /** Be told of what the linker does from here on. */
  attach(module: EmscriptenModule): void {
    this.#module = module;
    const hooks: Hooks = {
      memoryBase: (path, size) => {
        const memory = module.getMemory(size);
        this.#libraries.push({ path, memory, memorySize: size, table: 0, tableSize: 0 });
        return memory;
      },
      tableBase: (path, base, size) => {
        let library = this.#libraries.at(-1);
        if (library?.path !== path) {
          library = { path, memory: 0, memorySize: 0, table: 0, tableSize: 0 };
          this.#libraries.push(library);
        }
        Object.assign(library, { table: base, tableSize: size });
        return base;
      },
      recordMain: (exports) => {
        this.#main = exports;
        this.#tableStart = module.wasmTable.length;
      },
      recordSlot: (index, func) => void this.#slots.push([index, func]),
    };
    module.belljar = hooks;
  }

  /** The boot is over: the slots after these belong to imports. */
  markBooted(): void {
    this.#slotsOfBoot = this.#slots.length;
  }

  /** Everything that a restore needs, and the pages of memory that are not zero. */
  async snapshot(): Promise<{ snapshot: Snapshot; pages: Uint8Array<ArrayBuffer> }> {
    const module = this.#module, { LDSO, FS } = module;
    const slots = this.#explainSlots();
    const runs = this.#usedPages();
    const named = Object.entries(LDSO.loadedLibsByHandle).filter(([handle]) => handle !== "0");
    const open = FS.streams.filter((stream) => stream && stream.fd > 2).map((stream) => stream!);
    const snapshot: Snapshot = {
      buildId: module.API.config.BUILD_ID,
      tableStart: this.#tableStart,
      tableLength: module.wasmTable.length,
      libraries: this.#libraries,
      ...slots,
      freeSlots: [...module.freeTableIndexes],
      adapter: adapterModule(slots.scriptSlots.map(([, , signature]) => signature)).toBase64(),
      offsets: Object.fromEntries(Object.entries(module.GOT).map(([name, global]) => [name, global.value])),
      handles: named.map(([handle, library]) => [Number(handle), library.name]),
      files: open.map(({ fd, path, flags, position }) => ({ fd, path, flags, position })),
      references: module.API.serializeHiwireState(),
      memorySize: module.HEAPU8.length,
      pages: runs,
      memoryDigest: await memoryDigest(module.HEAPU8),
      tableDigest: await tableDigest(module.wasmTable, slots.scriptSlots),
    };
    return { snapshot, pages: collect(module.HEAPU8, runs) };
  }

  #explainSlots(): Slots {
    const libraries = Object.entries(this.#module.LDSO.loadedLibsByName);
    const ofLibraries = new Map<unknown, [string, string]>();
    for (const [path, { exports }] of libraries) {
      if (path === "__main__") continue;
      for (const [name, value] of Object.entries(exports)) {
        if (!ofLibraries.has(value)) ofLibraries.set(value, [path, name]);
      }
    }
    const ofMain = byFunction(this.#main);
    const ofScript = byFunction(this.#module.LDSO.loadedLibsByName.__main__.exports);
    const slots: Slots = { librarySlots: [], mainSlots: [], scriptSlots: [], fixedSlots: [] };
    for (const [index, func] of this.#slots) {
      const inLibrary = ofLibraries.get(func), inMain = ofMain.get(func), inScript = ofScript.get(func);
      if (inMain !== undefined) slots.mainSlots.push([index, inMain]);
      else if (inLibrary) slots.librarySlots.push([index, ...inLibrary]);
      else if (inScript !== undefined && func.sig) slots.scriptSlots.push([index, inScript, func.sig]);
      else slots.fixedSlots.push(index);
    }
    // CPython's call trampoline asks for one slot on every boot, the last; nothing else may be unknown.
    const expected = this.#tableStart + this.#slotsOfBoot - 1;
    if (slots.fixedSlots.length !== 1 || slots.fixedSlots[0] !== expected) {
      throw new Error(`the function table has slots that nobody explains: ${slots.fixedSlots}`);
    }
    return slots;
  }

  /** Runs of pages that are not zero, and always those that a fresh instance may fill: its data and the libraries'. */
  #usedPages(): [number, number][] {
    const heap = this.#module.HEAPU8, base = this.#module.___heap_base;
    const always = new Uint8Array(heap.length / PAGE);
    const mark = (start: number, end: number) => always.fill(1, Math.floor(start / PAGE), Math.ceil(end / PAGE));
    mark(0, Number(typeof base === "number" ? base : base.value) + (1 << 20));
    for (const { memory, memorySize } of this.#libraries) if (memorySize) mark(memory, memory + memorySize + 64);
    const words = new BigUint64Array(heap.buffer), runs: [number, number][] = [];
    const isZero = Uint8Array.from(always, (_, page) => {
      const start = page * (PAGE / 8);
      return words.subarray(start, start + PAGE / 8).every((word) => word === 0n) ? 1 : 0;
    });
    // Of the stack, a boot touches the end that it begins at, and no more.
    for (let page = 0; page < always.length;) {
      const end = isZero[page] ? nextOf(isZero, 0, page) : nextOf(isZero, 1, page);
      if (isZero[page]) always.fill(0, page, Math.max(page, end - TOUCHED));
      page = end;
    }
    for (let page = 0; page < always.length; page++) {
      if (!always[page] && isZero[page]) continue;
      const last = runs.at(-1);
      if (last && last[0] + last[1] === page * PAGE) last[1] += PAGE;
      else runs.push([page * PAGE, PAGE]);
    }
    return runs;
  }
}

function nextOf(pages: Uint8Array, kind: 0 | 1, from: number): number {
  const found = pages.indexOf(kind, from);
  return found < 0 ? pages.length : found;
}

function byFunction(exports: Exports): Map<unknown, string> {
  const names = new Map<unknown, string>();
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value === "function" && !names.has(value)) names.set(value, name);
  }
  return names;
}

function collect(heap: Uint8Array, runs: [number, number][]): Uint8Array<ArrayBuffer> {
  const pages = new Uint8Array(runs.reduce((sum, [, length]) => sum + length, 0));
  let at = 0;
  for (const [start, length] of runs) {
    pages.set(heap.subarray(start, start + length), at);
    at += length;
  }
  return pages;
}
