/**
 * What the main module of a restore no longer exports, and gives when it is asked for: to make all of its 8,500 exports
 * takes longer than to restore the memory. See binary.py for how they got into the table.
 */
import type { Exports } from "./emscripten.ts";

/** The slots of functions, and the places of data. */
interface Late {
  functions: Record<string, number>;
  data: Record<string, number>;
}

/** Those names. The text that tells them is not even parsed before somebody asks. */
export class LateNames {
  #text: string;
  #slots?: Map<string, number>;
  #places = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
  }

  /** What a library that refers to the name is given: a slot of the table or a place in memory. */
  offset(name: string): number | undefined {
    if (!this.#slots) {
      const late: Late = JSON.parse(this.#text);
      this.#slots = new Map(Object.entries(late.functions));
      this.#places = new Map(Object.entries(late.data));
    }
    return this.#slots.get(name) ?? this.#places.get(name);
  }

  /** Let look-ups find them among what libraries can import. */
  offer(known: Exports, table: WebAssembly.Table): void {
    const find = (name: string | symbol) => {
      const offset = typeof name === "string" ? this.offset(name) : undefined;
      if (offset === undefined) return undefined;
      return this.#slots!.has(name as string) ? table.get(offset) : new WebAssembly.Global({ value: "i32" }, offset);
    };
    const has = (_: Exports, name: string | symbol) => typeof name === "string" && this.offset(name) !== undefined;
    const get = (_: Exports, name: string | symbol) => {
      const found = find(name);
      if (found) known[name as string] = found;
      return found;
    };
    Object.setPrototypeOf(known, new Proxy(Object.create(null), { get, has }));
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
