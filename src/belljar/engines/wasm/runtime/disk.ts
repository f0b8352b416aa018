/** Holds the sandbox's files, which live in memory, to their limits. Code that reaches JavaScript can get around it; what
 * bounds the process as a whole is outside. */
import type { FileNode, FileSystem } from "./emscripten.ts";

const ENOSPC = 51;
const BYTES_PER_FILE = 16 * 1024;

/** Refuse to grow beyond `limit` bytes. Counts what was added, and looks at what is really there when that is too much. */
export function limitDisk(fs: FileSystem, folders: string[], limit: number): void {
  const { MEMFS } = fs.filesystems, { file } = MEMFS.ops_table;
  const write = file.stream.write, setattr = file.node.setattr, createNode = MEMFS.createNode;
  const maxFiles = Math.max(1024, Math.floor(limit / BYTES_PER_FILE) * 4);
  let bytes = 0, files = 0;

  const count = (node: FileNode): void => {
    files++;
    if (fs.isFile(node.mode)) bytes += node.usedBytes;
    else if (fs.isDir(node.mode) && !node.mounted) {
      Object.values(node.contents as Record<string, FileNode>).forEach(count);
    }
  };
  const recount = (): void => {
    bytes = files = 0;
    for (const folder of folders) count(fs.lookupPath(folder, { follow: true }).node);
  };
  const reserve = (more: number): void => {
    if (more <= 0) return;
    if (bytes + more > limit) recount();
    if (bytes + more > limit) throw new fs.ErrnoError(ENOSPC);
    bytes += more;
  };
  file.stream.write = (stream, buffer, offset, length, position, canOwn) => {
    reserve(position + length - stream.node.usedBytes);
    return write(stream, buffer, offset, length, position, canOwn);
  };
  file.node.setattr = (node, attributes) => {
    if (attributes.size !== undefined) reserve(attributes.size - node.usedBytes);
    setattr(node, attributes);
  };
  MEMFS.createNode = (parent, name, mode, dev) => {
    if (files >= maxFiles) recount();
    if (files >= maxFiles) throw new fs.ErrnoError(ENOSPC);
    files++;
    return createNode(parent, name, mode, dev);
  };
}
