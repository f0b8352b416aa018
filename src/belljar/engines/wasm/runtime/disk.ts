/**
 * The sandbox's own folders. They are held to their limits, all else is read-only, and every change is told to the control
 * thread, which so has all files when this thread has to be ended. Code that reaches JavaScript can get around it; what
 * bounds the process as a whole is outside.
 */
import type { FileNode, FileSystem } from "./emscripten.ts";
import { set } from "./genuine.ts";
import type { Change } from "./kept.ts";
import { FOLDER_LEVELS } from "./protocol.ts";

const ENOSPC = 51, EROFS = 69, ENAMETOOLONG = 37;
const BYTES_PER_FILE = 4096;
const LEAST_FILES = 1024;
const DOUBLED_UP_TO = 1 << 20;
const LONGEST_PATH = 4000;
const FILE = 0o100000, DIRECTORY = 0o40000, KIND = 0o170000;

/** A node of ours has its facts in shared memory: size, modification time, mode. */
type OwnNode = FileNode & { facts?: Float64Array };

const { now } = Date, { max, min, floor } = Math, { values } = Object;
const Shared = SharedArrayBuffer, Bytes = Uint8Array, Numbers = Float64Array;

/** Take over the file system. `folders` must exist, and be empty. */
export function ownDisk(fs: FileSystem, folders: string[], limit: number, tell: (change: Change) => void): void {
  const { MEMFS } = fs.filesystems, { createNode } = MEMFS, { file, dir, link } = MEMFS.ops_table;
  const { rename, unlink, rmdir, symlink } = dir.node;
  const most = max(LEAST_FILES, floor(limit / BYTES_PER_FILE));
  const roots: OwnNode[] = [];
  let bytes = 0, files = 0;

  const own = (node: OwnNode, parent: number, name: string): void => {
    node.facts = new Numbers(new Shared(24));
    note(node);
    tell(["make", node.id, parent, name, node.facts]);
  };
  const note = ({ facts, usedBytes, mtime, mode }: OwnNode): void => {
    if (facts) [facts[0], facts[1], facts[2]] = [(mode & KIND) === FILE ? usedBytes : 0, mtime, mode];
  };
  let seen = new Set<OwnNode>();
  const count = (node: OwnNode): void => {
    if (seen.has(node)) return;
    seen.add(node);
    files++;
    if ((node.mode & KIND) === FILE) bytes += node.usedBytes;
    if ((node.mode & KIND) === DIRECTORY) values(node.contents as Record<string, OwnNode>).forEach(count);
  };
  const reserve = (more: number, moreFiles: number): void => {
    if (more <= 0 && !moreFiles) return;
    if (bytes + more > limit || files + moreFiles > most) {
      bytes = files = 0; // what was deleted since is not counted: look at what is really there
      seen = new Set();
      roots.forEach(count);
      for (const stream of fs.streams) if ((stream?.node as OwnNode | undefined)?.facts) count(stream!.node);
    }
    if (bytes + more > limit || files + moreFiles > most) throw new fs.ErrnoError(ENOSPC);
    bytes += more;
    files += moreFiles;
  };
  const resize = (node: OwnNode, size: number): void => {
    const old = node.contents as Uint8Array;
    if (size > old.length) {
      const room = max(size, floor(old.length * (old.length < DOUBLED_UP_TO ? 2 : 1.125)));
      const data = new Shared(min(room, max(size, limit)));
      node.contents = new Bytes(data);
      set(node.contents, old.subarray(0, node.usedBytes), 0);
      tell(["data", node.id, data]);
    } else if (size < node.usedBytes) old.fill(0, size, node.usedBytes);
    node.usedBytes = size;
  };
  const refuse = (node: OwnNode): void => {
    if (!node.facts) throw new fs.ErrnoError(EROFS);
  };
  /** Refuse paths that would take too long to put back, one by one, in the next process. */
  const reach = (parent: OwnNode, levels: number, letters: number): void => {
    for (let above = parent; above.facts; above = above.parent) {
      levels++;
      letters += above.name.length + 1;
    }
    if (levels > FOLDER_LEVELS || letters > LONGEST_PATH) throw new fs.ErrnoError(ENAMETOOLONG);
  };
  const below = (node: OwnNode): { levels: number; letters: number } => {
    const most = { levels: 0, letters: 0 };
    if ((node.mode & KIND) !== DIRECTORY) return most;
    values(node.contents as Record<string, OwnNode>).forEach((child) => {
      const { levels, letters } = below(child);
      most.levels = max(most.levels, levels + 1);
      most.letters = max(most.letters, letters + child.name.length + 1);
    });
    return most;
  };

  for (const folder of folders) {
    const node = fs.lookupPath(folder, { follow: true }).node;
    roots.push(node);
    own(node, 0, folder);
  }
  MEMFS.createNode = (parent: OwnNode, name, mode, dev) => {
    if (!parent?.facts) throw new fs.ErrnoError(EROFS);
    reach(parent, 1, name.length);
    reserve(0, 1);
    const node = createNode(parent, name, mode, dev);
    own(node, parent.id, name);
    return node;
  };
  file.stream.write = (stream, buffer, offset, length, position) => {
    const node: OwnNode = stream.node;
    if (!length) return 0;
    refuse(node);
    reserve(position + length - node.usedBytes, 0);
    if (position + length > node.usedBytes) resize(node, position + length);
    set(node.contents as Uint8Array, new Bytes(buffer.buffer, buffer.byteOffset + offset, length), position);
    node.mtime = node.ctime = now();
    note(node);
    return length;
  };
  for (const ops of [file.node, dir.node, link.node]) {
    const { setattr } = ops;
    ops.setattr = (node, attributes) => {
      refuse(node);
      const { size, ...others } = attributes;
      if (size !== undefined) {
        reserve(size - node.usedBytes, 0);
        resize(node, size);
        node.mtime = node.ctime = now();
      }
      setattr(node, others);
      note(node);
    };
  }
  dir.node.symlink = (parent, name, target) => {
    const node = symlink(parent, name, target);
    tell(["link", node.id, target]);
    return node;
  };
  dir.node.rename = (node, parent: OwnNode, name) => {
    refuse(node);
    refuse(parent);
    const { levels, letters } = below(node);
    reach(parent, levels + 1, letters + name.length);
    const replaced = (parent.contents as Record<string, FileNode>)[name];
    rename(node, parent, name);
    if (replaced && replaced !== node) tell(["drop", replaced.id]);
    tell(["move", node.id, parent.id, name]);
  };
  dir.node.unlink = (parent, name) => drop(unlink, parent, name);
  dir.node.rmdir = (parent, name) => drop(rmdir, parent, name);

  function drop(remove: (parent: FileNode, name: string) => void, parent: OwnNode, name: string): void {
    refuse(parent);
    const node = (parent.contents as Record<string, FileNode>)[name];
    remove(parent, name);
    if (node) tell(["drop", node.id]);
  }
}
