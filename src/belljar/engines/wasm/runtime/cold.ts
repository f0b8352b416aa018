/**
 * The cold halves of a snapshot's modules: functions that usual code does not call (see split.py). One is loaded when any of
 * its functions is called. Made of what was there before any user code.
 */
import { adapterModule } from "./adapter.ts";
import type { Exports } from "./emscripten.ts";
import { subarray } from "./genuine.ts";
import { FOLDER } from "./places.ts";

/** What the cold half imports from, and the table in it that both share. */
const HOT = "belljar_hot", TABLE = "belljar_hot_table", LOADER = 0;
/** The namespace of constants that it imports, each called as its value. */
const CONSTANT = "belljar_constant", VALUES = new Proxy({}, { get: (_, value) => Number(value) });
const { Module, Instance } = WebAssembly, Bytes = Uint8Array;

type Place = [offset: number, length: number];

/** A hot half, with what it imported itself. */
interface Waiting {
  hot: Exports;
  imports: WebAssembly.Imports;
}

export class ColdHalves {
  #places: Place[];
  #waiting: (Waiting | undefined)[] = [];
  #read: (place: Place) => Uint8Array<ArrayBuffer>;
  #loader: unknown;

  /** Those of a snapshot, which are read much later than anything else can be read. */
  constructor(snapshot: string) {
    this.#places = JSON.parse(Deno.readTextFileSync(`${FOLDER}/${snapshot}.cold.json`));
    const file = Deno.openSync(`${FOLDER}/${snapshot}.cold.bin`);
    const seek = file.seekSync.bind(file), readInto = file.readSync.bind(file);
    const end = Math.max(0, ...this.#places.map(([offset, length]) => offset + length));
    if (file.statSync().size < end) throw new Error(`${snapshot}.cold.bin is shorter than its index says`);
    this.#read = (place) => {
      const length = place[1], bytes = new Bytes(length);
      seek(place[0], 0);
      for (let done = 0; done < length;) {
        const count = readInto(subarray(bytes, done));
        if (!count) throw new Error(`${snapshot}.cold.bin is shorter than its index says`);
        done += count;
      }
      return bytes;
    };
    const load = (number: number) => this.load(number);
    this.#loader = new Instance(new Module(adapterModule(["vi"])), { e: { 0: load } }).exports[0];
  }

  /** A hot half is there. Main is number 0, libraries follow in the order of the snapshot. */
  expect(number: number, hot: Exports, imports: WebAssembly.Imports): void {
    if (!hot[TABLE]) return; // it was not split
    if (!this.#places[number]) throw new Error(`there is no cold half of module ${number}`);
    hot[TABLE].set(LOADER, this.#loader);
    this.#waiting[number] = { hot, imports };
  }

  /** Load one now. Its elements put its functions into the table. */
  load(number: number): void {
    const waiting = this.#waiting[number];
    if (!waiting) return;
    const cold = new Module(this.#read(this.#places[number]));
    new Instance(cold, { ...waiting.imports, [HOT]: waiting.hot, [CONSTANT]: VALUES });
    this.#waiting[number] = undefined; // not before: what failed for lack of room may be tried again
  }

  /** Load all that are not there yet, for a sandbox that has the time. */
  loadAll(): void {
    for (let number = 0; number < this.#places.length; number++) this.load(number);
  }
}
