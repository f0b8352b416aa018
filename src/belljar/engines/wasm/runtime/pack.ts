/**
 * A read-only file system over one file: a tree of names, and the bytes at their places. It lives on after user code has
 * patched the built-ins of JavaScript, so it holds on to those that it uses.
 */
import type { FileNode, FileSystem, Stream } from "./emscripten.ts";
import { set } from "./genuine.ts";
import { attributesOf, readOnly } from "./readonly.ts";

/** A folder, or the place and the length of a file. */
export type Entry = Tree | [offset: number, length: number];
export interface Tree {
  /** At the top of a pack, folders are JSON until somebody asks for them. */
  [name: string]: Entry | string;
}

export interface Pack {
  readonly tree: Tree;
  /** The bytes at a place; must not be written to. */
  read(offset: number, length: number): Uint8Array;
}

type PackNode = FileNode & { entry: Entry };

const ENOENT = 44, EINVAL = 28;
const ROOT: Tree = {};
const MODIFIED = Date.UTC(2024, 0, 1);
const { parse } = JSON, { isArray } = Array, { hasOwn, keys } = Object, { min } = Math;

/** Open a pack that was written to two files: `name.json` and `name.bin`. The file stays open. */
export function openPack(folder: string, name: string): Pack {
  const file = Deno.openSync(`${folder}/${name}.bin`);
  const seek = file.seekSync.bind(file), readInto = file.readSync.bind(file);
  const read = (offset: number, length: number): Uint8Array => {
    const bytes = new Uint8Array(length);
    seek(offset, 0);
    for (let done = 0; done < length;) {
      const count = readInto(bytes.subarray(done));
      if (!count) throw new Error(`${name}.bin is shorter than its index says`);
      done += count;
    }
    return bytes;
  };
  const text = Deno.readTextFileSync(`${folder}/${name}.json`);
  let tree: Tree | undefined;
  return {
    get tree() {
      return tree ??= parse(text) as Tree; // much of the time nobody asks
    },
    read,
  };
}

/** What has that name in a folder. */
export function entryOf(folder: Tree, name: string): Entry {
  const entry = folder[name];
  return typeof entry === "string" ? folder[name] = parse(entry) as Tree : entry;
}

/** Where one file of a pack is. */
export function placeOf(pack: Pack, path: string): [offset: number, length: number] {
  let entry: Entry = pack.tree;
  for (const name of path.split("/")) entry = entryOf(entry as Tree, name);
  return entry as [number, number];
}

/** Mount a pack; `at` must exist. */
export function mountPack(fs: FileSystem, pack: Pack, at: string): void {
  const { refuse, changes, folderStreams } = readOnly(fs);
  const make = (parent: PackNode | null, name: string, entry: Entry): PackNode => {
    const isFile = isArray(entry);
    const node = fs.createNode(parent, name, isFile ? 0o100444 : 0o40555, 0) as PackNode;
    node.node_ops = isFile ? fileOps : folderOps;
    node.stream_ops = isFile ? fileStreams : folderStreams;
    node.entry = entry;
    node.atime = node.mtime = node.ctime = MODIFIED;
    return node;
  };
  const getattr = (node: PackNode) => attributesOf(node, 77, isArray(node.entry) ? node.entry[1] : 4096, MODIFIED);
  const contents = (node: PackNode) => (node.entry === ROOT ? pack.tree : node.entry) as Tree;
  const fileOps = { getattr, setattr: refuse };
  const folderOps = {
    ...changes,
    getattr,
    lookup(parent: PackNode, name: string): PackNode {
      const folder = contents(parent);
      if (!hasOwn(folder, name)) throw new fs.ErrnoError(ENOENT);
      return make(parent, name, entryOf(folder, name));
    },
    readdir: (node: PackNode): string[] => [".", "..", ...keys(contents(node))],
  };
  const fileStreams = {
    read(stream: Stream, buffer: Uint8Array, at: number, length: number, position: number): number {
      const [offset, size] = (stream.node as PackNode).entry as [number, number];
      const count = min(length, size - position);
      if (count <= 0) return 0;
      set(buffer, pack.read(offset + position, count), at);
      return count;
    },
    llseek(stream: Stream, offset: number, whence: number): number {
      const size = ((stream.node as PackNode).entry as [number, number])[1];
      const position = offset + (whence === 1 ? stream.position : whence === 2 ? size : 0);
      if (position < 0) throw new fs.ErrnoError(EINVAL);
      return position;
    },
    write: refuse,
  };
  fs.mount({ mount: () => make(null, "/", ROOT) }, {}, at);
}
