/** What is the same in every file system that only gives. Made of what was there before any user code. */
import type { FileNode, FileSystem, Stream } from "./emscripten.ts";

const EROFS = 69;
const Time = Date;

/** The operations that all of them have. */
export function readOnly(fs: FileSystem) {
  const refuse = (): never => {
    throw new fs.ErrnoError(EROFS);
  };
  return {
    refuse,
    /** Of folders, those that would change something. */
    changes: { setattr: refuse, mknod: refuse, unlink: refuse, rmdir: refuse, rename: refuse, symlink: refuse },
    folderStreams: {
      llseek: (stream: Stream, offset: number, whence: number) => (whence === 1 ? stream.position : 0) + offset,
    },
  };
}

/** What `stat` says of a node. */
export function attributesOf(node: FileNode, dev: number, size: number, modified: number) {
  const date = new Time(modified), times = { atime: date, mtime: date, ctime: date };
  const blocks = { size, blksize: 4096, blocks: (size + 511) / 512 | 0 };
  return { dev, ino: node.id, mode: node.mode, nlink: 1, uid: 0, gid: 0, rdev: 0, ...blocks, ...times };
}
