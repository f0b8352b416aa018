/** The thread that runs Python: restores a snapshot, gives up its permissions, proves that, and then answers Requests. */
import { boot, openParts } from "./boot.ts";
import { leaseOutput, send, sendText } from "./channel.ts";
import type { ColdHalves } from "./cold.ts";
import { ownDisk } from "./disk.ts";
import type { PyCallable, Pyodide } from "./emscripten.ts";
import { answerFileRequest } from "./files.ts";
import { subarray } from "./genuine.ts";
import { type Change, teller } from "./kept.ts";
import { answerLayerRequest } from "./layer.ts";
import { type Mailbox, mailbox } from "./mailbox.ts";
import type { Libraries, Modules } from "./modules.ts";
import { mountFolders } from "./mounts.ts";
import { caller } from "./calls.ts";
import { OWN } from "./protocol.ts";
import { openSnapshot, restore } from "./restore.ts";
import { SIGNAL } from "./shared.ts";
import { breaches } from "./walls.ts";

export interface Options {
  /** The name of a snapshot, or null to boot plainly. */
  snapshot: string | null;
  packages: boolean;
  memoryPages: number;
  /** Whether Deno has the scripts compiled. */
  areCompiled: boolean;
  diskBytes: number;
  /** Where the host's folders are, in here. */
  mounts: string[];
}

interface Bridge {
  start(
    send: (text: string) => void,
    wait: (seconds: number, forMessage: boolean) => boolean,
    take: () => Uint8Array | undefined,
  ): string;
  handle: PyCallable;
}

const { parse } = JSON, { store } = Atomics;
const tell = self.postMessage.bind(self) as (word: "loaded" | "up" | "room" | number) => void;
const LARGEST_WRITE = 1 << 20;
let openRequest = 0, isBroken = false;

/** What arrives before Python is there. */
class Inbox {
  closed = Promise.withResolvers<void>();
  main = Promise.withResolvers<WebAssembly.Module>();
  libraries = Promise.withResolvers<Libraries>();
  requests: string[] = [];

  take(message: "closed" | WebAssembly.Module | Libraries | string): void {
    if (message === "closed") this.closed.resolve();
    else if (typeof message === "string") this.requests.push(message);
    else if (message instanceof Map) this.libraries.resolve(message);
    else this.main.resolve(message);
  }

  get modules(): Modules {
    return { main: this.main.promise, libraries: this.libraries.promise };
  }
}

self.onmessage = async ({ data: { shared, options, changes } }) => {
  leaseOutput(shared);
  const inbox = new Inbox();
  self.onmessage = ({ data }) => inbox.take(data);
  const opened = options.snapshot ? openSnapshot(options.snapshot) : null; // its memory is filled meanwhile
  const parts = await openParts(options.packages, options.areCompiled);
  tell("loaded");
  const trials = inbox.closed.promise.then(() => breaches(options.memoryPages)); // while Python boots
  const { modules } = inbox, mail = mailbox(shared, () => tell("room"));
  const py = opened ? await restore(parts, opened, modules) : (await boot(parts, await modules.main)).py;
  const bridge = connect(py, shared, mail, options, teller(changes, shared)), through = await trials;
  if (through.length) {
    Deno.stderr.writeSync(new TextEncoder().encode(`the wall does not hold: ${through.join("; ")}\n`));
    return tell(71);
  }
  Object.assign(globalThis, { fetch: refuse, WebSocket: refuse, XMLHttpRequest: refuse });
  sendText(bridge.start(sendText, mail.wait, mail.take));
  const handle = (text: string) => answer(py, bridge.handle, shared, text, opened?.cold);
  // From here on, what code leaves in JavaScript's own loop, such as a promise that nobody awaits, ends nothing.
  for (const kind of ["unhandledrejection", "error"]) self.addEventListener(kind, (event) => event.preventDefault());
  tell("up");
  self.onmessage = ({ data }) => handle(data);
  inbox.requests.forEach(handle);
};

function connect(
  py: Pyodide,
  shared: Int32Array,
  mail: Mailbox,
  options: Options,
  tellChange: (change: Change) => void,
): Bridge {
  py.setInterruptBuffer(shared);
  py.setStdin({ stdin: () => null });
  py.setStdout(output("stdout"));
  py.setStderr(output("stderr"));
  mountFolders(py.FS, options.mounts, caller(mail, () => openRequest));
  ownDisk(py.FS, OWN, options.diskBytes, tellChange);
  const bridge = py.pyimport("belljar_kernel.bridge") as Bridge;
  Object.assign(console, { log: say, info: say, debug: say, warn: () => {}, error: lament });
  return bridge;
}

/** What Python and C write to a descriptor becomes events; half a character waits for its other half. */
function output(type: "stdout" | "stderr") {
  const decoder = new TextDecoder();
  const decode = decoder.decode.bind(decoder);
  return {
    isatty: false,
    write(bytes: Uint8Array): number {
      const piece = subarray(bytes, 0, LARGEST_WRITE); // a frame has an end; Python writes the rest again
      const text = decode(piece, { stream: true });
      if (text && openRequest && !isBroken) send({ type, id: openRequest, text });
      return piece.length;
    },
  };
}

/** Pyodide has a few lines for the case that it breaks down, with the frames of our own code; the host tells it better. */
function lament(...words: unknown[]): void {
  isBroken ||= `${words[0]}`.startsWith("Pyodide has suffered a fatal error");
}

/** The permissions refuse it anyway; this says what to do about it. */
function refuse(target: unknown): never {
  const rule = "JavaScript has no network here", asked = `${target ?? "a request of JavaScript"}`;
  const hint = "use requests, httpx, urllib or pyodide.http, and allow hosts with Policy(network=[...])";
  if (openRequest) send({ type: "denial", id: openRequest, kind: "network", target: asked, rule, hint });
  throw new TypeError(`${asked} was refused: ${rule}; ${hint}`);
}

function say(...words: unknown[]): void {
  if (openRequest) send({ type: "stdout", id: openRequest, text: `${words.map(String).join(" ")}\n` });
}

function answer(py: Pyodide, handle: PyCallable, shared: Int32Array, text: string, cold?: ColdHalves): void {
  const request = parse(text);
  openRequest = request.id;
  store(shared, SIGNAL, 0);
  if (typeof request.type === "string" && request.type.startsWith("file_")) {
    send({ type: "done", id: request.id, ...answerFileRequest(py.FS, request) });
    openRequest = 0;
    return;
  }
  if (typeof request.type === "string" && request.type.startsWith("layer_")) {
    send({ type: "done", id: request.id, ...answerLayerRequest(py.FS, request) });
    return;
  }
  try {
    if (request.warm) cold?.loadAll();
    handle(text);
    openRequest = 0; // what is said between Requests is for nobody
  } catch (failure) {
    const status = (failure as { status?: unknown }).status;
    if (typeof status !== "number") Deno.stderr.writeSync(new TextEncoder().encode(`${failure}\n`));
    tell(typeof status === "number" ? status & 255 : 134);
  }
}
