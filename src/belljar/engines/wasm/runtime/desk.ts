/**
 * Questions of the Python thread to the host, one at a time: it asks by an event, and waits in shared memory for the answer,
 * which the control thread puts there. Made of what was there before any user code.
 */
import { send } from "./channel.ts";

/** Places of the shared integers: the number of the question that was answered last, and how long the answer is. */
const ANSWERED = 0, LENGTH = 1;
const START = 64;
/** More than the host ever answers with. */
const SIZE = 1 << 20;
const PATIENCE_MS = 60_000;

export type Question = Record<string, string | number>;

/** An answer: some facts, and bytes if there are any. */
export interface Answer {
  head: Record<string, unknown>;
  data: Uint8Array;
}

const { load, store, notify, wait } = Atomics, { parse } = JSON, Bytes = Uint8Array;
const bound = Function.prototype.bind.bind(Function.prototype.call);
const slice = bound(Uint8Array.prototype.slice) as (bytes: Uint8Array, start: number, end: number) => Uint8Array;
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);
const now = performance.now.bind(performance);

export function sharedDesk(): Int32Array {
  return new Int32Array(new SharedArrayBuffer(START + SIZE), 0, 2);
}

/** Put an answer there: a byte that tells it from other frames, the number of its question, and the answer itself. */
export function putAnswer(desk: Int32Array, frame: Uint8Array): void {
  const answer = frame.subarray(5, 5 + SIZE);
  new Uint8Array(desk.buffer, START).set(answer);
  store(desk, LENGTH, answer.length);
  store(desk, ANSWERED, new DataView(frame.buffer, frame.byteOffset).getInt32(1));
  notify(desk, ANSWERED);
}

/** What asks the host and waits; nothing when the host does not answer. */
export function asker(desk: Int32Array, openRequest: () => number): (question: Question) => Answer | undefined {
  const shared = new Uint8Array(desk.buffer, START);
  let number = 0;
  return (question) => {
    const end = now() + PATIENCE_MS;
    number = (number + 1) & 0x3fffffff;
    send({ type: "mount", id: openRequest(), number, ...question });
    for (let last = load(desk, ANSWERED); last !== number; last = load(desk, ANSWERED)) {
      const left = end - now();
      if (!(left > 0)) return undefined;
      wait(desk, ANSWERED, last, left);
    }
    const bytes = slice(shared, 0, load(desk, LENGTH)); // a copy of our own, not shared
    const size = bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    const head = parse(decode(new Bytes(bytes.buffer, 4, size)));
    return { head, data: new Bytes(bytes.buffer, 4 + size) };
  };
}
