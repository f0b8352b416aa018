/**
 * The process's main thread: `control.js OPTIONS`. Reads frames from standard input, hands Requests to the thread that runs
 * Python, and raises interrupts there, also while it is busy. Hands the files over when that thread has to be ended, and
 * ends the process when the host lets go.
 */
import { send, sendBytes, takeOutput } from "./channel.ts";
import { Kept } from "./kept.ts";
import { Outbox } from "./mailbox.ts";
import { compileLibraries, readMain } from "./modules.ts";
import { HANDED_PIECE_BYTES } from "./protocol.ts";
import { sharedMemory } from "./shared.ts";

const SIGINT = 2;
/** How a reply begins. Those to calls of a file system have numbers below zero. */
const REPLY = /^\{"type": ?"reply", ?"call_id": ?(-?)\d/, BEGINNING = 64;
const shared = sharedMemory();
const outbox = new Outbox(shared);
const options = JSON.parse(Deno.args[0]);
const changes = new MessageChannel();
const kept = new Kept(changes.port1, shared);
const loaded = Promise.withResolvers<void>();
let isUp = false;
const bytes = readMain(options.snapshot); // beside the start of the other thread, which soon waits for it
const python = new Worker(new URL("./python.js", import.meta.url), { type: "module" });

python.onerror = (event) => {
  event.preventDefault();
  complain(event.message);
  if (!isUp) Deno.exit(70);
  send({ type: "ended", id: 0, code: 70 });
};
python.onmessage = ({ data }: MessageEvent<"loaded" | "up" | "room" | number>) => {
  if (data === "up") isUp = true;
  else if (data === "room") outbox.flush();
  else if (data === "loaded") loaded.resolve();
  else if (typeof data === "number") send({ type: "ended", id: 0, code: data });
};
python.postMessage({ shared, options, changes: changes.port2 }, [changes.port2]);
python.postMessage(await WebAssembly.compile(await bytes)); // while the other thread loads its scripts
await loaded.promise;
const libraries = compileLibraries(options.snapshot); // not before: others are busy with scripts and memory
Deno.permissions.revokeSync({ name: "read" });
python.postMessage("closed");
python.postMessage(await libraries);

function complain(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

/** End the Python thread and hand over the files. That thread may run on for a moment, but what it writes does not come
 * after the marker that the host chose, and what it told before is known. */
async function leave(marker: string): Promise<never> {
  python.terminate();
  await takeOutput(shared);
  sendBytes(Uint8Array.fromHex(marker));
  await kept.arrived();
  for (const { data, ...facts } of kept.files()) {
    for (let start = 0; start === 0 || start < data.length; start += HANDED_PIECE_BYTES) {
      const chunk = new Uint8Array(data.subarray(start, start + HANDED_PIECE_BYTES)).toBase64();
      send({ type: "file", id: 0, ...facts, append: start > 0, data: chunk });
    }
  }
  send({ type: "left", id: 0 });
  Deno.exit(0);
}

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
  const frame = await read(size);
  const reply = REPLY.exec(decoder.decode(frame.subarray(0, BEGINNING)));
  if (reply) {
    outbox.put(frame, reply[1] !== "");
    continue;
  }
  const text = decoder.decode(frame);
  const order = size < 256 ? JSON.parse(text) : {};
  if (order.type === "leave") await leave(order.marker);
  else if (order.type === "interrupt") outbox.signal(SIGINT);
  else python.postMessage(text);
}
