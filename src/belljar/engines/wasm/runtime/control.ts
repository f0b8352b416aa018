/**
 * The process's main thread: `control.js OPTIONS`. Reads frames from standard input, hands Requests to the thread that runs
 * Python, and raises interrupts there, also while it is busy. Ends the process when the host lets go.
 */

import { compileModules } from "./modules.ts";

/** Shared with the Python thread: a signal that waits to be delivered. */
const signal = new Int32Array(new SharedArrayBuffer(8));
const SIGINT = 2;
const python = new Worker(new URL("./python.js", import.meta.url), { type: "module" });
python.onerror = (event) => {
  event.preventDefault();
  Deno.stderr.writeSync(new TextEncoder().encode(`${event.message}\n`));
  Deno.exit(70);
};
python.onmessage = ({ data }) => {
  if (data !== "loaded") Deno.exit(data);
  Deno.permissions.revokeSync({ name: "read" });
  python.postMessage("closed");
};
const options = JSON.parse(Deno.args[0]);
python.postMessage({ signal, options });
python.postMessage(await compileModules(options.snapshot)); // while the other thread loads its scripts

const decoder = new TextDecoder();
const reader = Deno.stdin.readable.getReader({ mode: "byob" });

async function read(size: number): Promise<Uint8Array> {
  let bytes = new Uint8Array(size), done = 0;
  while (done < size) {
    const { value } = await reader.read(new Uint8Array(bytes.buffer, done, size - done));
    if (!value?.length) Deno.exit(0);
    bytes = new Uint8Array(value.buffer, 0, size);
    done += value.length;
  }
  return bytes;
}

while (true) {
  const size = new DataView((await read(4)).buffer).getUint32(0);
  const text = decoder.decode(await read(size));
  if (size < 64 && JSON.parse(text).type === "interrupt") {
    Atomics.store(signal, 0, SIGINT);
    Atomics.notify(signal, 0);
  } else python.postMessage(text);
}
