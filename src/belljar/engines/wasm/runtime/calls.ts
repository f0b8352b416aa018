/**
 * Calls of the Python thread's own file systems, one at a time: each asks by an event and waits for the reply in the mailbox.
 * Their numbers are below zero, as Python's are above. Made of what was there before any user code.
 */
import { send } from "./channel.ts";
import { subarray } from "./genuine.ts";
import type { Mailbox } from "./mailbox.ts";

const PATIENCE_S = 60, NEWLINE = 10;

export type Arguments = Record<string, string | number>;

/** A value, or the name of an error. */
export interface Reply {
  // deno-lint-ignore no-explicit-any -- what the host replies is known by the call
  value?: any;
  error?: { name: string };
}

const { parse } = JSON;
const decoder = new TextDecoder();
const decode = decoder.decode.bind(decoder);

/** What calls the host and waits; nothing when the host does not reply. */
export function caller(mail: Mailbox, openRequest: () => number): (name: string, args: Arguments) => Reply | undefined {
  let number = 0;
  return (name, args) => {
    send({ type: "call", id: openRequest(), call_id: --number, name, args });
    while (true) {
      const message = mail.takeOwn(PATIENCE_S);
      if (!message) return undefined;
      const reply = understood(message);
      if (reply.call_id === number) return reply; // any other came too late
    }
  };
}

/** The JSON of a reply, and the bytes in a line after it as `data` of its value. */
function understood(message: Uint8Array): Reply & { call_id: number } {
  let end = 0;
  while (end < message.length && message[end] !== NEWLINE) end++;
  const reply = parse(decode(subarray(message, 0, end)));
  if (end < message.length) reply.value.data = subarray(message, end + 1);
  return reply;
}
