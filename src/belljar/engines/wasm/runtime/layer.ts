/** Packages that are added to a sandbox: a pack that comes over the channel, in pieces, and is mounted in place of the last
 * one. Made of what was there before any user code. */
import type { FileSystem } from "./emscripten.ts";
import { bound, set } from "./genuine.ts";
import { mountPack } from "./pack.ts";
import { LAYER, type ProgramRequest } from "./protocol.ts";

export type LayerRequest = Extract<ProgramRequest, { type: `layer_${string}` }>;

const { parse } = JSON;
const fromBase64 = Uint8Array.fromBase64.bind(Uint8Array);
const slice = bound(Uint8Array.prototype.slice) as (bytes: Uint8Array, start: number, end: number) => Uint8Array;
let parts: Uint8Array[] = [], isMounted = false;

/** What the host gets for a request: nothing, or why it did not work. */
export function answerLayerRequest(fs: FileSystem, request: LayerRequest): Record<string, unknown> {
  try {
    if (request.type === "layer_part") parts[parts.length] = fromBase64(request.data);
    else mount(fs, request.tree ?? null);
    return {};
  } catch (failure) {
    parts = [];
    const errno = (failure as { errno?: number }).errno;
    return { failure: errno === undefined ? `${failure}` : `errno ${errno}` };
  }
}

function mount(fs: FileSystem, tree: string | null): void {
  if (isMounted) fs.unmount(LAYER);
  isMounted = false;
  const bytes = joined();
  if (tree === null) return;
  mountPack(fs, { tree: parse(tree), read: (offset, length) => slice(bytes, offset, offset + length) }, LAYER);
  isMounted = true;
}

function joined(): Uint8Array {
  let size = 0;
  for (let k = 0; k < parts.length; k++) size += parts[k].length;
  const whole = new Uint8Array(size);
  for (let k = 0, at = 0; k < parts.length; at += parts[k++].length) set(whole, parts[k], at);
  parts = [];
  return whole;
}
