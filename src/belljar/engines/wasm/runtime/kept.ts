/** The files of the sandbox as the control thread knows them: enough to hand them on when the thread that runs Python has
 * to be ended. What it is told comes from that thread, and is not trusted to make sense. Changes have a port of their own,
 * because what was posted to a worker's owner is gone when the worker is terminated, and what is in a port is not. */
import { FOLDER_LEVELS } from "./protocol.ts";
import { TOLD } from "./shared.ts";

/** Facts are shared: size, modification time in milliseconds, mode. */
export type Change =
  | [what: "make", id: number, parent: number, name: string, facts: Float64Array]
  | [what: "data", id: number, data: SharedArrayBuffer]
  | [what: "link", id: number, target: string]
  | [what: "move", id: number, parent: number, name: string]
  | [what: "drop", id: number];

interface Node {
  parent: number;
  name: string;
  facts: Float64Array;
  data?: SharedArrayBuffer;
  target?: string;
}

export interface KeptFile {
  path: string;
  mode: number;
  modified: number;
  target?: string;
  data: Uint8Array;
}

const NOTHING = new Uint8Array(0);
const { add, load } = Atomics;

/** The Python thread's side: says a change, and counts it. What that thread then answers comes after both. */
export function teller(port: MessagePort, shared: Int32Array): (change: Change) => void {
  const post = port.postMessage.bind(port) as (change: Change) => void;
  return (change) => {
    post(change);
    add(shared, TOLD, 1);
  };
}

export class Kept {
  #nodes = new Map<number, Node>();
  #shared: Int32Array;
  #taken = 0;
  #onTaken = () => {};

  constructor(port: MessagePort, shared: Int32Array) {
    this.#shared = shared;
    port.onmessage = ({ data }) => {
      if (Array.isArray(data)) this.#take(data as Change);
      this.#taken++;
      this.#onTaken();
    };
  }

  /** When every change has arrived that was told before. Whoever counts more than he tells is waited for until the host
   * gives up. */
  arrived(): Promise<void> {
    const told = load(this.#shared, TOLD);
    return new Promise((resolve) => {
      this.#onTaken = () => ((told - this.#taken) | 0) <= 0 && resolve();
      this.#onTaken();
    });
  }

  #take(change: Change): void {
    const [what, id] = change, node = this.#nodes.get(id);
    if (what === "make") this.#nodes.set(id, { parent: change[2], name: change[3], facts: change[4] });
    else if (what === "drop") this.#nodes.delete(id);
    else if (!node) return;
    else if (what === "data") node.data = change[2];
    else if (what === "link") node.target = change[2];
    else if (what === "move") [node.parent, node.name] = [change[2], change[3]];
  }

  /** Everything but the roots, folders before what is in them. */
  *files(): Generator<KeptFile> {
    const known = [...this.#nodes.values()].filter((node) => node.parent !== 0);
    const paths = new Map(known.map((node) => [node, this.#path(node)]));
    const depth = (node: Node) => paths.get(node)!.split("/").length;
    for (const node of known.filter((node) => paths.get(node)).sort((a, b) => depth(a) - depth(b))) {
      const [size, modified, mode] = node.facts;
      const data = node.data ? new Uint8Array(node.data).subarray(0, size) : NOTHING;
      yield { path: paths.get(node)!, mode, modified, target: node.target, data };
    }
  }

  #path(node: Node): string {
    let path = node.name, above = this.#nodes.get(node.parent);
    for (let steps = 0; above && steps < FOLDER_LEVELS; steps++) {
      path = `${above.name}/${path}`;
      if (above.parent === 0) return path;
      above = this.#nodes.get(above.parent);
    }
    return ""; // in a folder that is gone
  }
}
