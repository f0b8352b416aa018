/**
 * How the Python thread, which cannot be called while it runs, is reached all the same: a signal, a bell to wait for, and a
 * ring of bytes for messages. The control thread writes and the Python thread takes; what that one says of itself is not
 * trusted. Made of what was there before any user code.
 */
import { set, subarray } from "./genuine.ts";
import { BELL, FULL, ringOf, SIGNAL, SIZE, TAKEN, WRITTEN } from "./shared.ts";

/** Before each message: its length, with a mark when it is a reply to a call of this thread's own file systems. */
const LENGTH = 4, OWN = 1 << 31;

const { load, store, add, notify, wait, exchange } = Atomics, { min } = Math;
const now = performance.now.bind(performance);

const numberAt = (bytes: Uint8Array, at: number) =>
  bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];

/** The control thread's side. */
export class Outbox {
  #shared: Int32Array;
  #ring: Uint8Array;
  #written = 0;
  #later: [message: Uint8Array, isOwn: boolean][] = [];

  constructor(shared: Int32Array) {
    this.#shared = shared;
    this.#ring = ringOf(shared);
  }

  /** Raise a signal there. */
  signal(number: number): void {
    store(this.#shared, SIGNAL, number);
    this.#ringBell();
  }

  /** Send a reply; it waits here while there is no room. The host bounds how many there are. */
  put(message: Uint8Array, isOwn: boolean): void {
    this.#later.push([message, isOwn]);
    this.flush();
  }

  /** There may be room again. */
  flush(): void {
    while (this.#later.length) {
      if (!this.#write(...this.#later[0])) {
        store(this.#shared, FULL, 1); // the next message that is taken is announced; one may just have been taken
        if (!this.#write(...this.#later[0])) break;
      }
      this.#later.shift();
    }
    this.#ringBell();
  }

  #ringBell(): void {
    add(this.#shared, BELL, 1);
    notify(this.#shared, BELL);
  }

  #write(message: Uint8Array, isOwn: boolean): boolean {
    const size = message.length, used = (this.#written - load(this.#shared, TAKEN)) >>> 0;
    if (used + LENGTH + size > SIZE) return false;
    const head = isOwn ? size | OWN : size;
    this.#copy(Uint8Array.of(head >>> 24, head >>> 16, head >>> 8, head), this.#written);
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

export type Mailbox = ReturnType<typeof mailbox>;

/** The Python thread's side; `hasRoom` is called when a message was taken that others are waiting behind. */
export function mailbox(shared: Int32Array, hasRoom: () => void) {
  const ring = ringOf(shared);
  const aside: Uint8Array[] = []; // came while a reply to an own call was waited for
  let taken = 0, firstAside = 0, isOwn = false;

  const copy = (position: number, size: number): Uint8Array => {
    const bytes = new Uint8Array(size), at = position & (SIZE - 1), first = min(size, SIZE - at);
    set(bytes, subarray(ring, at, at + first), 0);
    set(bytes, subarray(ring, 0, size - first), first);
    return bytes;
  };

  const next = (): Uint8Array | undefined => {
    if (load(shared, WRITTEN) === taken) return undefined;
    const head = numberAt(copy(taken, LENGTH), 0), length = head & ~OWN, message = copy(taken + LENGTH, length);
    isOwn = head < 0;
    taken = (taken + LENGTH + length) | 0;
    store(shared, TAKEN, taken);
    if (exchange(shared, FULL, 0)) hasRoom();
    return message;
  };

  return {
    /** The next reply for Python, or nothing. */
    take(): Uint8Array | undefined {
      if (firstAside < aside.length) return aside[firstAside++];
      aside.length = firstAside = 0;
      let message = next();
      while (message && isOwn) message = next(); // one that came too late
      return message;
    },

    /** The next reply to an own call, which no signal keeps from coming; nothing when there is none in that time. */
    takeOwn(seconds: number): Uint8Array | undefined {
      const end = now() + seconds * 1000;
      while (true) {
        const bell = load(shared, BELL);
        for (let message = next(); message; message = next()) {
          if (isOwn) return message;
          aside[aside.length] = message;
        }
        const left = end - now();
        if (!(left > 0)) return undefined;
        wait(shared, BELL, bell, left);
      }
    },

    /** Wait for the time to pass, or for a message when asked; true when a signal ended it. */
    wait(seconds: number, forMessage = false): boolean {
      const end = now() + seconds * 1000;
      while (true) {
        const bell = load(shared, BELL);
        if (exchange(shared, SIGNAL, 0)) return true;
        if (forMessage && (firstAside < aside.length || load(shared, WRITTEN) !== taken)) return false;
        const left = end - now();
        if (!(left > 0)) return false;
        wait(shared, BELL, bell, left);
      }
    },
  };
}
