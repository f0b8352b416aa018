/**
 * What the modules of a restore no longer export, and give when they are asked for: to make all of the main module's 8,500
 * exports takes longer than to restore the memory. See binary.py and binding.py for how they got into the table.
 */
import type { Exports } from "./emscripten.ts";
import { FOLDER } from "./places.ts";

/** The slots of functions, and the places of data. */
export interface Late {
  functions: Record<string, number>;
  data: Record<string, number>;
}

/** `NAME.late.json`: the same of a snapshot's libraries by path, and names that got another place than the main module's. */
export interface LateOfSnapshot {
  offsets: Record<string, number>;
  libraries: Record<string, Late>;
}

/** What a file of the runtime folder says. It is read now, and parsed when somebody asks. */
export function lazily<T>(name: string): () => T {
  const text = Deno.readTextFileSync(`${FOLDER}/${name}`);
  let parsed: T | undefined;
  return () => parsed ??= JSON.parse(text) as T;
}

/** Those names of one module. */
export class LateNames {
  #tell: () => Late;
  #told?: { slots: Map<string, number>; places: Map<string, number> };

  constructor(tell: () => Late) {
    this.#tell = tell;
  }

  get #names() {
    if (this.#told) return this.#told;
    const { functions, data } = this.#tell();
    return this.#told = { slots: new Map(Object.entries(functions)), places: new Map(Object.entries(data)) };
  }

  /** What a library that refers to the name is given: a slot of the table or a place in memory. */
  offset(name: string): number | undefined {
    const { slots, places } = this.#names;
    return slots.get(name) ?? places.get(name);
  }

  #find(name: string | symbol, table: WebAssembly.Table) {
    const offset = typeof name === "string" ? this.offset(name) : undefined;
    if (offset === undefined) return undefined;
    const isFunction = this.#names.slots.has(name as string);
    return isFunction ? table.get(offset) : new WebAssembly.Global({ value: "i32" }, offset);
  }

  /** Let look-ups find them among what libraries can import. */
  offer(known: Exports, table: WebAssembly.Table): void {
    const has = (_: Exports, name: string | symbol) => typeof name === "string" && this.offset(name) !== undefined;
    const get = (_: Exports, name: string | symbol) => {
      const found = this.#find(name, table);
      if (found) known[name as string] = found;
      return found;
    };
    Object.setPrototypeOf(known, new Proxy(Object.create(null), { get, has }));
  }

  /** The exports with these among them, made when one is looked up or all are gone through. */
  added(exports: Exports, table: WebAssembly.Table): Exports {
    const made: Exports = Object.assign(Object.create(null), exports);
    const one = (name: string | symbol) => name in made ? made[name as string] : this.#find(name, table);
    const all = () => {
      const { slots, places } = this.#names;
      for (const name of [...slots.keys(), ...places.keys()]) made[name] = one(name);
      return made;
    };
    return new Proxy(made, {
      get: (_, name) => one(name),
      has: (_, name) => one(name) !== undefined,
      ownKeys: () => Reflect.ownKeys(all()),
      getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(all(), name),
    });
  }
}

/** A table of references to JavaScript's objects; TypeScript knows tables of functions only. */
export interface References {
  readonly length: number;
  get(index: number): unknown;
  set(index: number, value: unknown): void;
  grow(by: number, value: unknown): number;
}

/** Those of the main module. */
export function referenceTables(main: Exports): References[] {
  return Object.keys(main).filter((name) => name.startsWith("belljar_references_")).sort().map((name) => main[name]);
}
