/** The memory that both threads share: a few integers, by their places, and room for a ring of bytes behind them. */

/** A signal that waits to be delivered. Pyodide itself looks at this place. */
export const SIGNAL = 0;
/** Rings when there is something to look at. */
export const BELL = 1;
/** The ring: how far it is written, how far it is taken, and whether somebody waits for room. */
export const WRITTEN = 2;
export const TAKEN = 3;
export const FULL = 4;
/** How many changes of files were told. */
export const TOLD = 5;
/** Who writes to standard output; see channel.ts. */
export const OUTPUT = 6;

const INTEGERS = 16, START = 4 * INTEGERS;
/** Of the ring: a power of two, and more than the largest message that the host sends. */
export const SIZE = 1 << 21;

/** The integers, with the ring behind them. */
export function sharedMemory(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(START + SIZE), 0, INTEGERS);
}

/** The ring behind the integers. */
export function ringOf(shared: Int32Array): Uint8Array {
  return new Uint8Array(shared.buffer, START, SIZE);
}
