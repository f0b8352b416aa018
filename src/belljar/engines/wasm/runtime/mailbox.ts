/**
 * How the Python thread, which cannot be called while it runs, is reached all the same: a signal, a bell to wait for, and a
 * ring of bytes for messages. The control thread writes and the Python thread takes; what that one says of itself is not
 * trusted. Made of what was there before any user code.
 */

/** Places of the shared integers. Pyodide itself looks at the first. */
const SIGNAL = 0, BELL = 1, WRITTEN = 2, TAKEN = 3, FULL = 4;
const INTEGERS = 16, START = 4 * INTEGERS;
/** A power of two, and more than the largest message that the host sends. */
const SIZE = 1 << 20;
const LENGTH = 4;

const { load, store, add, notify, wait, exchange } = Atomics, { min } = Math;
const now = performance.now.bind(performance);
const bound = Function.prototype.bind.bind(Function.prototype.call);
const set = bound(Object.getPrototypeOf(Uint8Array.prototype).set) as (
  into: Uint8Array,
  from: Uint8Array,
  at: number,
) => void;
const subarray = bound(Uint8Array.prototype.subarray) as (bytes: Uint8Array, start: number, end: number) => Uint8Array;

/** The shared integers, with room for the ring behind them. */
export function sharedMemory(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(START + SIZE), 0, INTEGERS);
}

const ringOf = (shared: Int32Array) => new Uint8Array(shared.buffer, START, SIZE);

/** The control thread's side. */
export class Outbox {
  #shared: Int32Array;
  #ring: Uint8Array;
  #written = 0;
  #later: Uint8Array[] = [];

  constructor(shared: Int32Array) {
    this.#shared = shared;
    this.#ring = ringOf(shared);
  }

  /** Raise a signal there. */
  signal(number: number): void {
    store(this.#shared, SIGNAL, number);
    this.#ringBell();
  }

  /** Send a message; it waits here while there is no room. The host bounds how many there are. */
  put(message: Uint8Array): void {
    this.#later.push(message);
    this.flush();
  }

  /** There may be room again. */
  flush(): void {
    while (this.#later.length) {
      if (!this.#write(this.#later[0])) {
        store(this.#shared, FULL, 1); // whoever takes a message from now on says so; one may just have been taken
        if (!this.#write(this.#later[0])) break;
      }
      this.#later.shift();
    }
    this.#ringBell();
  }

  #ringBell(): void {
    add(this.#shared, BELL, 1);
    notify(this.#shared, BELL);
  }

  #write(message: Uint8Array): boolean {
    const size = message.length, used = (this.#written - load(this.#shared, TAKEN)) >>> 0;
    if (used + LENGTH + size > SIZE) return false;
    this.#copy(Uint8Array.of(size >>> 24, size >>> 16, size >>> 8, size), this.#written);
    this.#copy(message, this.#written + LENGTH);
    this.#written = (this.#written + LENGTH + size) | 0;
    store(this.#shared, WRITTEN, this.#written);
    return true;
  }

  #copy(bytes: Uint8Array, position: number): void {
    const at = position & (SIZE - 1), first = Math.min(bytes.length, SIZE - at);
    this.#ring.set(bytes.subarray(0, first), at);
    this.#ring.set(bytes.subarray(first), 0);
  }
}

/** The Python thread's side; `hasRoom` is called when a message was taken that others are waiting behind. */
export function mailbox(shared: Int32Array, hasRoom: () => void) {
  const ring = ringOf(shared);
  let taken = 0;

  const copy = (position: number, size: number): Uint8Array => {
    const bytes = new Uint8Array(size), at = position & (SIZE - 1), first = min(size, SIZE - at);
    set(bytes, subarray(ring, at, at + first), 0);
    set(bytes, subarray(ring, 0, size - first), first);
    return bytes;
  };

  return {
    /** The next message, or nothing. */
    take(): Uint8Array | undefined {
      if (load(shared, WRITTEN) === taken) return undefined;
      const size = copy(taken, LENGTH), length = size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
      const message = copy(taken + LENGTH, length);
      taken = (taken + LENGTH + length) | 0;
      store(shared, TAKEN, taken);
      if (exchange(shared, FULL, 0)) hasRoom();
      return message;
    },

    /** Wait for the time to pass, or for a message when asked; true when a signal ended it. */
    wait(seconds: number, forMessage = false): boolean {
      const end = now() + seconds * 1000;
      while (true) {
        const bell = load(shared, BELL);
        if (exchange(shared, SIGNAL, 0)) return true;
        if (forMessage && load(shared, WRITTEN) !== taken) return false;
        const left = end - now();
        if (!(left > 0)) return false;
        wait(shared, BELL, bell, left);
      }
    },
  };
}
