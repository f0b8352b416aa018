/** Frames on the process's own standard output, four bytes of length and JSON; all of it made of what was there before any
 * user code. */
import { set, subarray } from "./genuine.ts";
import type { Event } from "./protocol.ts";
import { OUTPUT } from "./shared.ts";

const encoder = new TextEncoder();
const encode = encoder.encode.bind(encoder), write = Deno.stdout.writeSync.bind(Deno.stdout);
const { stringify } = JSON, { and, load, or, wait } = Atomics;
/** Of the place OUTPUT: the Python thread writes; it is to write no more. */
const WRITING = 1, TAKEN_OVER = 2;
const POLL_MS = 1;
/** Two seconds after it was terminated, a thread has ended whatever it was doing, and perhaps not said that it has. */
const PATIENCE_MS = 2500;
/** In the Python thread only, which may write until the output is taken over. */
let leased: Int32Array | undefined;

/** For the Python thread: its output can be taken over from now on. */
export function leaseOutput(shared: Int32Array): void {
  leased = shared;
}

/** For the control thread, once it has terminated the other: when that has said what it was saying. It says no more then, whatever it still runs;
 * only code that reaches JavaScript can get around that, to its own harm. */
export async function takeOutput(shared: Int32Array): Promise<void> {
  or(shared, OUTPUT, TAKEN_OVER);
  const end = performance.now() + PATIENCE_MS;
  while (load(shared, OUTPUT) & WRITING && performance.now() < end) {
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
  if (leased) begin(leased);
  try {
    for (let done = 0; done < bytes.length;) done += write(subarray(bytes, done));
  } finally {
    if (leased) and(leased, OUTPUT, ~WRITING);
  }
}

function begin(shared: Int32Array): void {
  if (!(or(shared, OUTPUT, WRITING) & TAKEN_OVER)) return;
  and(shared, OUTPUT, ~WRITING);
  while (true) wait(shared, OUTPUT, TAKEN_OVER);
}

/** Write an Event. */
export function send(event: Event): void {
  sendText(stringify(event));
}
