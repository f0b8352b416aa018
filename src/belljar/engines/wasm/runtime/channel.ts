/** Frames on the process's own standard output, four bytes of length and JSON; all of it made of what was there before any
 * user code. */
import { set, subarray } from "./genuine.ts";

const encoder = new TextEncoder();
const encode = encoder.encode.bind(encoder), write = Deno.stdout.writeSync.bind(Deno.stdout);
const { stringify } = JSON;

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
  for (let done = 0; done < bytes.length;) done += write(subarray(bytes, done));
}

/** Write a document. */
export function send(document: Record<string, unknown>): void {
  sendText(stringify(document));
}
