/** The form of a snapshot: `name.json` says how to restore it, `name.bin` is its memory. See late.ts for `name.late.json`. */

/** A library in the order in which it was loaded, with the places that its data and its functions got. */
export interface RecordedLibrary {
  path: string;
  memory: number;
  table: number;
}

export interface OpenFile {
  fd: number;
  path: string;
  flags: number;
  position: number;
}

/** Pages that follow each other. */
export type PageRun = [start: number, length: number];

/** Empty, but for entries that are empty maps. */
export interface ReferenceTable {
  length: number;
  maps: number[];
}

/** What is left to do for a library that is linked ahead: what it asks for by name, and the addresses it is given. */
export interface Link {
  path: string;
  asked: string[];
  given: Record<string, number>;
}

/** `name.recorded.json`: what is known when it is recorded, and needed to link its libraries; see binding.py. */
export interface Recorded extends Omit<Snapshot, "libraries" | "mainSlots"> {
  libraries: RecordedLibrary[];
  /** Slots of the table that were handed out to functions of libraries. */
  librarySlots: [index: number, library: string, name: string][];
  /** By name: slots of the table and places in memory that libraries refer to, without the main module's own. */
  offsets: Record<string, number>;
}

export interface Snapshot {
  buildId: string;
  /** Length of the function table before the first library, and in the end. */
  tableStart: number;
  tableLength: number;
  libraries: Link[];
  /** Where in the table the functions are that libraries import from the main module. */
  mainSlots: number[];
  /** Slots of the table that were handed out one by one to functions of JavaScript. */
  scriptSlots: [index: number, name: string, signature: string][];
  fixedSlots: number[];
  freeSlots: number[];
  /** One small module, in base64, that makes WebAssembly functions of all the JavaScript ones. */
  adapter: string;
  handles: [handle: number, library: string][];
  files: OpenFile[];
  references: unknown;
  /** What the tables for the references are after the main module's constructors, which a restore does not run. */
  referenceTables: ReferenceTable[];
  memorySize: number;
  /** Few runs, which have all pages that are not zero. */
  pages: PageRun[];
  /** SHA-256 of the whole memory and of the names in the table; checked once, when the snapshot is built. */
  memoryDigest: string;
  tableDigest: string;
}

export async function memoryDigest(memory: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", memory)).toHex();
}

/** A digest of which function sits where. JavaScript's have no name that lasts, so their slots are left out. */
export async function tableDigest(table: WebAssembly.Table, scriptSlots: Snapshot["scriptSlots"]): Promise<string> {
  const skipped = new Set(scriptSlots.map(([index]) => index));
  const names: string[] = [];
  for (let index = 0; index < table.length; index++) {
    names.push(skipped.has(index) ? "" : (table.get(index) as CallableFunction | null)?.name ?? "");
  }
  const bytes = new TextEncoder().encode(names.join("\n"));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}
