/** The host's requests about files of the workspace. Paths are relative to it; none leads out of it, or through a link
 * that does. */
import type { FileSystem } from "./emscripten.ts";
import { FILE_PIECE_BYTES, type FileFailure, FOLDER_LEVELS, type ProgramRequest, WORKSPACE } from "./protocol.ts";

const APPEND = 0o2001, REPLACE = 0o1101; // O_WRONLY with O_APPEND, or with O_CREAT and O_TRUNC
const ERRNO: Record<number, FileFailure> = {
  44: "missing",
  51: "full",
  54: "through",
  32: "through",
  31: "folder",
  37: "deep",
};

export type FileRequest = Extract<ProgramRequest, { type: `file_${string}` }>;
type Asked<Type extends FileRequest["type"]> = Extract<FileRequest, { type: Type }>;

type Answer = { failure?: FileFailure; [field: string]: unknown };

/** What the host gets for a request; failures are told by a word, for which it has the sentence. */
export function answerFileRequest(fs: FileSystem, request: FileRequest): Answer {
  try {
    checkNames(request);
    switch (request.type) {
      case "file_write":
        return write(fs, request);
      case "file_read":
        return read(fs, request);
      case "file_list":
        return list(fs, request);
      case "file_delete":
        return remove(fs, request);
      case "file_restore":
        return restore(fs, request);
      case "file_mode":
        fs.chmod(request.path, request.mode);
        return {};
    }
  } catch (failure) {
    if (failure instanceof Refused) return { failure: failure.why };
    const errno = (failure as { errno?: number }).errno;
    if (errno === undefined) return { failure: "unknown", detail: `${failure}`.slice(0, 200) };
    return { failure: ERRNO[errno] ?? "unknown", detail: `errno ${errno}` };
  }
}

class Refused extends Error {
  constructor(readonly why: FileFailure) {
    super(why);
  }
}

/** Refuse a path that is not made of names alone. The root of the workspace has none, and can only be listed. */
function checkNames({ type, path }: FileRequest): void {
  if (type === "file_restore" || type === "file_mode") return; // the host sends these with full paths of its own
  if (type === "file_list" && !path) return;
  if (path.split("/").some((part) => ["", ".", ".."].includes(part))) throw new Refused("through");
}

function write(fs: FileSystem, { path, fresh: temporary, data, append, last }: Asked<"file_write">): Answer {
  const names = path.split("/"), name = names.pop()!;
  const folder = [WORKSPACE, ...names].reduce((above, below) => makeFolder(fs, above, below));
  const fresh = `${folder}/${temporary}`, bytes = Uint8Array.fromBase64(data);
  try {
    const stream = fs.open(fresh, append ? APPEND : REPLACE, 0o644);
    try {
      if (bytes.length) fs.write(stream, bytes, 0, bytes.length);
    } finally {
      fs.close(stream);
    }
    if (last) {
      const target = `${folder}/${name}`;
      if (exists(fs, target) && fs.isDir(fs.lstat(target).mode)) throw new Refused("folder");
      fs.rename(fresh, target);
    }
  } catch (failure) {
    if (exists(fs, fresh)) fs.unlink(fresh);
    throw failure;
  }
  return {};
}

function makeFolder(fs: FileSystem, above: string, below: string): string {
  const path = `${above}/${below}`;
  if (!exists(fs, path)) fs.mkdir(path, 0o755);
  if (!fs.isDir(fs.lstat(path).mode)) throw new Refused("through");
  return path;
}

function read(fs: FileSystem, { path, offset, max }: Asked<"file_read">): Answer {
  const real = beneath(fs, path), facts = fs.stat(real);
  if (fs.isDir(facts.mode)) throw new Refused("folder");
  if (!fs.isFile(facts.mode)) throw new Refused("special");
  if (facts.size > max) return { failure: "large", size: facts.size };
  const bytes = new Uint8Array(Math.min(FILE_PIECE_BYTES, Math.max(0, facts.size - offset)));
  const stream = fs.open(real, 0);
  try {
    const count = fs.read(stream, bytes, 0, bytes.length, offset);
    return { data: bytes.subarray(0, count).toBase64(), end: offset + count >= facts.size };
  } finally {
    fs.close(stream);
  }
}

function list(fs: FileSystem, { path, max }: Asked<"file_list">): Answer {
  const root = beneath(fs, path || ".");
  if (!fs.isDir(fs.stat(root).mode)) throw new Refused("through");
  const entries: unknown[] = [];
  const walk = (folder: string, prefix: string, levels: number): void => {
    const names = fs.readdir(folder).filter((name) => name !== "." && name !== "..").sort(byCodePoint);
    for (const name of names) {
      if (entries.length >= max) throw new Refused("many");
      const facts = fs.lstat(`${folder}/${name}`);
      entries.push([prefix + name, kind(fs, facts.mode), facts.size, facts.mtime.getTime() / 1000]);
      if (fs.isDir(facts.mode) && levels) walk(`${folder}/${name}`, `${prefix}${name}/`, levels - 1);
    }
  };
  walk(root, path ? `${path}/` : "", FOLDER_LEVELS);
  return { entries };
}

function remove(fs: FileSystem, { path }: Asked<"file_delete">): Answer {
  const names = path.split("/"), name = names.pop()!;
  const folder = beneath(fs, names.join("/") || ".");
  const clear = (target: string): void => {
    if (!fs.isDir(fs.lstat(target).mode)) return fs.unlink(target);
    for (const child of fs.readdir(target)) if (child !== "." && child !== "..") clear(`${target}/${child}`);
    fs.rmdir(target);
  };
  clear(`${folder}/${name}`);
  return {};
}

/** Put back, by its full path, what an earlier process had; folders come before what is in them. */
function restore(
  fs: FileSystem,
  { path, data, append, mode, modified, target }: Asked<"file_restore">,
): Answer {
  if (typeof target === "string") fs.symlink(target, path);
  else if (fs.isDir(mode)) fs.mkdir(path, 0o755);
  else {
    const bytes = Uint8Array.fromBase64(data);
    const stream = fs.open(path, append ? APPEND : REPLACE, 0o644);
    if (bytes.length) fs.write(stream, bytes, 0, bytes.length);
    fs.close(stream);
    fs.utime(path, modified, modified);
  }
  return {};
}

/** The real path of something in the workspace; a link may lead elsewhere in it, but not out and not by a full path. */
function beneath(fs: FileSystem, path: string): string {
  let real = WORKSPACE, left = path.split("/").filter((name) => name && name !== "."), links = 0;
  while (left.length) {
    const [name, ...rest] = left;
    left = rest;
    if (name === "..") {
      if (real === WORKSPACE) throw new Refused("through");
      real = real.slice(0, real.lastIndexOf("/"));
      continue;
    }
    const next = `${real}/${name}`;
    if (!fs.isLink(fs.lstat(next).mode)) {
      real = next;
      continue;
    }
    const target = fs.readlink(next);
    if (target.startsWith("/") || ++links > 40) throw new Refused("through");
    left = [...target.split("/").filter((part) => part && part !== "."), ...left];
  }
  return real;
}

function exists(fs: FileSystem, path: string): boolean {
  try {
    fs.lstat(path);
    return true;
  } catch {
    return false;
  }
}

function kind(fs: FileSystem, mode: number): string {
  return fs.isFile(mode) ? "file" : fs.isDir(mode) ? "directory" : fs.isLink(mode) ? "symlink" : "other";
}

function byCodePoint(a: string, b: string): number {
  const [left, right] = [[...a], [...b]];
  for (let k = 0; k < Math.min(left.length, right.length); k++) {
    const difference = left[k].codePointAt(0)! - right[k].codePointAt(0)!;
    if (difference) return difference;
  }
  return left.length - right.length;
}
