/**
 * Folders of the host, read-only: every look at them is a call to the host, so they are seen as they are now. Links
 * come as links, and lead wherever they lead in here. It lives on after user code has patched the built-ins of JavaScript.
 */
import type { FileNode, FileSystem, Stream } from "./emscripten.ts";
import { bound, set, subarray } from "./genuine.ts";
import type { Arguments, Reply } from "./calls.ts";
import { MOUNT_PIECE_BYTES } from "./protocol.ts";
import { attributesOf, readOnly } from "./readonly.ts";

type Call = (name: string, args: Arguments) => Reply | undefined;
type Facts = [kind: string, size: number, modified: number, target: string];
type Row = [name: string, ...Facts];
type MountNode = FileNode & { mountAt: number; where: string; listed?: Map<string, Facts>; listedAt: number };
type MountStream = Stream & { file: { handle: number; users: number; at: number; block: Uint8Array } };

const EACCES = 2, EBADF = 8, EINVAL = 28, EIO = 29, EMFILE = 33, ENOENT = 44, ELOOP = 32;
const ERRNO: Record<string, number> = { missing: ENOENT, refused: EACCES, many: EMFILE, handle: EBADF, link: ELOOP };
const MODES: Record<string, number> = { file: 0o100644, directory: 0o40755, symlink: 0o120777, other: 0o10644 };
const LISTED_MS = 500; // a listing is followed by a look at each name: those are not asked for again

const lookedUp = bound(Map.prototype.get) as (map: Map<string, Facts>, name: string) => Facts | undefined;
const put = bound(Map.prototype.set) as (map: Map<string, Facts>, name: string, facts: Facts) => void;
const now = performance.now.bind(performance);
const { min } = Math, Time = Date, Bytes = Uint8Array, Listed = Map;

/** Mount the host's folders, in their order, at these places. */
export function mountFolders(fs: FileSystem, places: string[], call: Call): void {
  const asked = (act: string, args: Arguments) => {
    const reply = call(`mount.${act}`, args);
    if (!reply) throw new fs.ErrnoError(EIO);
    if (reply.error) throw new fs.ErrnoError(ERRNO[reply.error.name] ?? EIO);
    return reply.value;
  };
  const about = (node: MountNode): Arguments => ({ mount: node.mountAt, path: node.where });
  const { refuse, changes, folderStreams } = readOnly(fs);
  const beneath = (node: MountNode, name: string) => node.where ? `${node.where}/${name}` : name;

  const become = (node: MountNode, [kind, , modified]: Facts): MountNode => {
    node.mode = MODES[kind] ?? MODES.other;
    node.node_ops = kind === "directory" ? folderOps : fileOps;
    node.stream_ops = kind === "directory" ? folderStreams : fileStreams;
    node.atime = node.mtime = node.ctime = modified;
    return node;
  };
  const attributes = (node: MountNode, facts: Facts) => {
    become(node, facts);
    return attributesOf(node, 78 + node.mountAt, facts[1], facts[2]);
  };
  const facts = (act: string, args: Arguments): Facts => asked(act, args).facts;
  const make = (parent: MountNode | null, name: string, mountAt: number, where: string, found: Facts): MountNode => {
    const node = fs.createNode(parent, name, MODES.directory, 0) as MountNode;
    node.mountAt = mountAt;
    node.where = where;
    return become(node, found);
  };

  const justListed = ({ listed, listedAt }: MountNode, name: string): Facts | undefined =>
    listed && now() - listedAt < LISTED_MS ? lookedUp(listed, name) : undefined;

  const fileOps = {
    getattr: (node: MountNode) =>
      attributes(node, justListed(node.parent as MountNode, node.name) ?? facts("look", about(node))),
    setattr: refuse,
    readlink: (node: MountNode) => facts("look", about(node))[3],
  };
  const folderOps = {
    ...fileOps,
    ...changes,
    lookup(parent: MountNode, name: string): MountNode {
      const where = beneath(parent, name), args = { mount: parent.mountAt, path: where };
      return make(parent, name, parent.mountAt, where, justListed(parent, name) ?? facts("look", args));
    },
    readdir(node: MountNode): string[] {
      const names = [".", ".."], listed = new Listed<string, Facts>();
      let page = asked("list", about(node));
      while (true) {
        const rows: Row[] = page.rows;
        for (let k = 0; k < rows.length; k++) {
          names[names.length] = rows[k][0];
          put(listed, rows[k][0], [rows[k][1], rows[k][2], rows[k][3], rows[k][4]]);
        }
        if (typeof page.handle !== "number") break;
        page = asked("more", { handle: page.handle });
      }
      node.listed = listed;
      node.listedAt = now();
      return names;
    },
  };
  const fileStreams = {
    open(stream: MountStream): void {
      if (stream.flags & 3) refuse();
      const { handle } = asked("open", about(stream.node as MountNode));
      stream.file = { handle, users: 1, at: 0, block: new Bytes(0) };
    },
    dup: (stream: MountStream) => void stream.file.users++,
    close(stream: MountStream): void {
      if (!--stream.file.users) asked("close", { handle: stream.file.handle });
    },
    getattr: (stream: MountStream) =>
      attributes(stream.node as MountNode, facts("size", { handle: stream.file.handle })),
    read({ file }: MountStream, buffer: Uint8Array, at: number, length: number, position: number): number {
      if (position < file.at || position >= file.at + file.block.length) {
        file.block = asked("read", { handle: file.handle, offset: position, size: MOUNT_PIECE_BYTES }).data;
        file.at = position;
      }
      const start = position - file.at, count = min(length, file.block.length - start);
      if (count > 0) set(buffer, subarray(file.block, start, start + count), at);
      return count;
    },
    llseek(stream: MountStream, offset: number, whence: number): number {
      const size = whence === 2 ? facts("size", { handle: stream.file.handle })[1] : 0;
      const position = offset + (whence === 1 ? stream.position : size);
      if (position < 0) throw new fs.ErrnoError(EINVAL);
      return position;
    },
    write: refuse,
  };

  for (let k = 0; k < places.length; k++) {
    fs.mkdirTree(places[k]);
    fs.mount({ mount: () => make(null, "/", k, "", ["directory", 4096, Time.now(), ""]) }, {}, places[k]);
  }
}
