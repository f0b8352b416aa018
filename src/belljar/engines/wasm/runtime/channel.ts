/** Frames on the process's own standard output, four bytes of length and JSON; all of it made of what was there before any
 * user code. */
import { set, subarray } from "./genuine.ts";
import { OUTPUT } from "./shared.ts";

const encoder = new TextEncoder();
const encode = encoder.encode.bind(encoder), write = Deno.stdout.writeSync.bind(Deno.stdout);
const { stringify } = JSON, { compareExchange, wait } = Atomics;
const FREE = 0, BUSY = 1, TAKEN_OVER = 2;
const POLL_MS = 1;
/** In the Python thread only, which may write until the output is taken over. */
let leased: Int32Array | undefined;

/** For the Python thread: its output can be taken over from now on. */
export function leaseOutput(shared: Int32Array): void {
  leased = shared;
}

/** For the control thread: when the other has said what it was saying, and says no more, whatever it still runs. */
export async function takeOutput(shared: Int32Array): Promise<void> {
  while (compareExchange(shared, OUTPUT, FREE, TAKEN_OVER) === BUSY) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Write a document that is JSON already. Waits while the host is not reading: whoever floods, floods himself. */
export function sendText(text: string): void {
  const body = encode(text), frame = new Uint8Array(body.length + 4), size = body.length;
  frame[0] = size >>> 24;
  frame[1] = size >>> 16;
  frame[2] = size >>> 8;
  frame[3] = size;
  set(frame, body, 4);
  sendBytes(frame);
}

/** Write bytes as they are, whole. */
export function sendBytes(bytes: Uint8Array): void {
  if (leased && compareExchange(leased, OUTPUT, FREE, BUSY) === TAKEN_OVER) wait(leased, OUTPUT, TAKEN_OVER); // for good
  for (let done = 0; done < bytes.length;) done += write(subarray(bytes, done));
  if (leased) compareExchange(leased, OUTPUT, BUSY, FREE);
}

/** Write a document. */
export function send(document: Record<string, unknown>): void {
  sendText(stringify(document));
}
