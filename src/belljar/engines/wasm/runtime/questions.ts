/**
 * Questions of the Python thread to the host, one at a time: it asks by an event, and waits for the answer in its mailbox.
 * Made of what was there before any user code.
 */
import { send } from "./channel.ts";
import { type Mailbox, numberAt } from "./mailbox.ts";

/** An answer begins with its kind and the number of its question, as every message; then comes the length of the facts. */
const LENGTH_AT = 5, START = 9;
const PATIENCE_S = 60;

export type Question = { act: string; [fact: string]: string | number };

/** An answer: some facts, and bytes if there are any. */
export interface Answer {
  head: Record<string, unknown>;
  data: Uint8Array;
}

const { parse } = JSON, Bytes = Uint8Array;
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);

/** What asks the host and waits; nothing when the host does not answer. */
export function asker(mail: Mailbox, openRequest: () => number): (question: Question) => Answer | undefined {
  let number = 0;
  return (question) => {
    number = (number + 1) & 0x3fffffff;
    send({ type: "mount", id: openRequest(), number, ...question });
    const answer = mail.answer(number, PATIENCE_S);
    if (!answer) return undefined;
    const size = numberAt(answer, LENGTH_AT);
    const head = parse(decode(new Bytes(answer.buffer, START, size)));
    return { head, data: new Bytes(answer.buffer, START + size) };
  };
}
