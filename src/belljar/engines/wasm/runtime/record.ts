/** Watches how a module is linked while it boots and imports, and writes all of it down. Refuses what it cannot explain. */
import { adapterModule } from "./adapter.ts";
import type { EmscriptenModule, Export, Exports, Hooks } from "./emscripten.ts";
import { type Late, LateNames, lazily, type References, referenceTables } from "./late.ts";
import {
  memoryDigest,
  type PageRun,
  type Recorded,
  type RecordedLibrary,
  type ReferenceTable,
  tableDigest,
} from "./snapshot.ts";

type Slots = Pick<Recorded, "librarySlots" | "scriptSlots" | "fixedSlots">;

const PAGE = 4096, WORDS = PAGE / 8;
const SMALL_GAP = 1 << 20; // reading zeros is cheaper than another read

export class Recorder {
  #libraries: RecordedLibrary[] = [];
  #slots: [number, Export][] = [];
  #referenceTables: ReferenceTable[] = [];
  #tableStart = 0;
  #slotsOfBoot = 0;
  #module!: EmscriptenModule;

  /** Be told of what the linker does from here on. */
  attach(module: EmscriptenModule): void {
    this.#module = module;
    const hooks: Hooks = {
      memoryBase: (path, size) => {
        const memory = module.getMemory(size);
        this.#libraries.push({ path, memory, table: 0 });
        return memory;
      },
      tableBase: (path, base) => {
        let library = this.#libraries.at(-1);
        if (library?.path !== path) {
          library = { path, memory: 0, table: 0 };
          this.#libraries.push(library);
        }
        library.table = base;
        return base;
      },
      recordMain: (exports) => {
        this.#tableStart = module.wasmTable.length;
        const tables = referenceTables(exports);
        module.addOnPostCtor(() => this.#referenceTables = tables.map(describe));
      },
      recordSlot: (index, func) => void this.#slots.push([index, func]),
    };
    module.belljar = hooks;
  }

  /** The boot is over: the slots after these belong to imports. */
  markBooted(): void {
    this.#slotsOfBoot = this.#slots.length;
  }

  /** Everything that linking and a restore need. */
  async snapshot(): Promise<{ snapshot: Recorded; memory: Uint8Array }> {
    const module = this.#module, { LDSO, FS } = module;
    const slots = this.#explainSlots();
    const named = Object.entries(LDSO.loadedLibsByHandle).filter(([handle]) => handle !== "0");
    const open = FS.streams.filter((stream) => stream && stream.fd > 2).map((stream) => stream!);
    const snapshot: Recorded = {
      buildId: module.API.config.BUILD_ID,
      tableStart: this.#tableStart,
      tableLength: module.wasmTable.length,
      libraries: this.#libraries,
      ...slots,
      freeSlots: [...module.freeTableIndexes],
      adapter: adapterModule(slots.scriptSlots.map(([, , signature]) => signature)).toBase64(),
      offsets: this.#offsets(),
      handles: named.map(([handle, library]) => [Number(handle), library.name]),
      files: open.map(({ fd, path, flags, position }) => ({ fd, path, flags, position })),
      references: module.API.serializeHiwireState(),
      referenceTables: this.#referenceTables,
      memorySize: module.HEAPU8.length,
      pages: this.#usedPages(),
      memoryDigest: await memoryDigest(module.HEAPU8),
      tableDigest: await tableDigest(module.wasmTable, slots.scriptSlots),
    };
    return { snapshot, memory: module.HEAPU8 };
  }

  #offsets(): Record<string, number> {
    const late = new LateNames(lazily<Late>("late.json"));
    const all = Object.entries(this.#module.GOT).map(([name, global]) => [name, global.value]);
    return Object.fromEntries(all.filter(([name, offset]) => late.offset(name) !== offset));
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
    const ofScript = byFunction(this.#module.LDSO.loadedLibsByName.__main__.exports);
    const slots: Slots = { librarySlots: [], scriptSlots: [], fixedSlots: [] };
    for (const [index, func] of this.#slots) {
      const inLibrary = ofLibraries.get(func), inScript = ofScript.get(func);
      if (inLibrary) slots.librarySlots.push([index, ...inLibrary]);
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

  /** Which pages are not zero: in a restore nothing is in the memory before them. */
  #usedPages(): PageRun[] {
    const words = new BigUint64Array(this.#module.HEAPU8.buffer), pages: PageRun[] = [];
    for (let page = 0; page < words.length / WORDS; page++) {
      if (words.subarray(page * WORDS, (page + 1) * WORDS).some((word) => word !== 0n)) append(pages, page * PAGE);
    }
    return pages;
  }
}

/** One page more: part of the last run, when there is no more than a small gap between them. */
function append(runs: PageRun[], start: number): void {
  const last = runs.at(-1);
  if (last && start - (last[0] + last[1]) <= SMALL_GAP) last[1] = start + PAGE - last[0];
  else runs.push([start, PAGE]);
}

function describe(table: References): ReferenceTable {
  const entries = Array.from({ length: table.length }, (_, index) => table.get(index));
  const maps = entries.flatMap((entry, index) => entry instanceof Map && !entry.size ? [index] : []);
  const others = entries.filter((entry, index) => entry !== null && !maps.includes(index));
  if (others.length) throw new Error(`the constructors make references that nobody explains: ${others}`);
  return { length: table.length, maps };
}

function byFunction(exports: Exports): Map<unknown, string> {
  const names = new Map<unknown, string>();
  for (const [name, value] of Object.entries(exports)) {
    if (typeof value === "function" && !names.has(value)) names.set(value, name);
  }
  return names;
}
