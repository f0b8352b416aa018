/** The parts of Pyodide and Emscripten that this runtime touches. Types only. */

export type Export = CallableFunction & { sig?: string };
// deno-lint-ignore no-explicit-any -- functions, numbers and globals, as WebAssembly gives them
export type Exports = Record<string, any>;

export interface Stream {
  fd: number;
  path: string;
  flags: number;
  position: number;
  node: FileNode;
}

export interface FileNode {
  id: number;
  mode: number;
  name: string;
  parent: FileNode;
  contents: Uint8Array | Record<string, FileNode>;
  usedBytes: number;
  atime: number;
  mtime: number;
  ctime: number;
  node_ops: unknown;
  stream_ops: unknown;
  mounted?: unknown;
}

export interface Attributes {
  mode: number;
  size: number;
  mtime: Date;
}

export type Write = (
  stream: Stream,
  buffer: Uint8Array,
  offset: number,
  length: number,
  position: number,
  canOwn?: boolean,
) => number;

interface NodeOps {
  setattr(node: FileNode, attributes: { size?: number; mode?: number; mtime?: number }): void;
}

interface FolderOps extends NodeOps {
  rename(node: FileNode, parent: FileNode, name: string): void;
  unlink(parent: FileNode, name: string): void;
  rmdir(parent: FileNode, name: string): void;
  symlink(parent: FileNode, name: string, target: string): FileNode;
}

export interface MemoryFiles {
  createNode(parent: FileNode, name: string, mode: number, dev: number): FileNode;
  ops_table: {
    file: { stream: { write: Write }; node: NodeOps };
    dir: { node: FolderOps };
    link: { node: NodeOps };
  };
}

export interface FileSystem {
  streams: (Stream | null)[];
  filesystems: { MEMFS: MemoryFiles };
  ErrnoError: new (errno: number) => Error & { errno: number };
  createNode(parent: FileNode | null, name: string, mode: number, dev: number): FileNode;
  mount(type: { mount(): FileNode }, options: object, at: string): void;
  unmount(at: string): void;
  mkdirTree(path: string, mode?: number): void;
  mkdir(path: string, mode?: number): void;
  open(path: string, flags: number | string, mode?: number): Stream;
  close(stream: Stream): void;
  closeStream(fd: number): void;
  createStream(stream: Stream, fd: number): Stream;
  read(stream: Stream, buffer: Uint8Array, offset: number, length: number, position?: number): number;
  write(stream: Stream, buffer: Uint8Array, offset: number, length: number, position?: number): number;
  readFile(path: string): Uint8Array;
  lookupPath(path: string, options?: { follow?: boolean }): { path: string; node: FileNode };
  lstat(path: string): Attributes;
  stat(path: string): Attributes;
  readdir(path: string): string[];
  readlink(path: string): string;
  rename(from: string, to: string): void;
  unlink(path: string): void;
  rmdir(path: string): void;
  chmod(path: string, mode: number): void;
  utime(path: string, accessed: number, modified: number): void;
  symlink(target: string, path: string): void;
  isDir(mode: number): boolean;
  isFile(mode: number): boolean;
  isLink(mode: number): boolean;
}

export interface Library {
  name: string;
  global: boolean;
  refcount: number;
  exports: Exports;
}

/** What our patches of `pyodide.asm.mjs` call; each is optional there. */
export interface Hooks {
  memory?: WebAssembly.Memory;
  memoryBase?(library: string, size: number): number;
  tableBase?(library: string, base: number): number;
  recordMain?(exports: Exports): void;
  restoreMain?(exports: Exports, imports: WebAssembly.Imports): void;
  recordSlot?(index: number, func: Export): void;
  fixedSlots?: number[];
  offset?(name: string): number | undefined;
}

export interface EmscriptenModule {
  belljar?: Hooks;
  preRun: (() => void)[];
  addOnPostCtor(action: () => void): void;
  addRunDependency(name: string): void;
  removeRunDependency(name: string): void;
  HEAPU8: Uint8Array<ArrayBuffer>;
  FS: FileSystem;
  LDSO: { loadedLibsByName: Record<string, Library>; loadedLibsByHandle: Record<string, Library> };
  GOT: Record<string, WebAssembly.Global>;
  wasmTable: WebAssembly.Table;
  freeTableIndexes: number[];
  getMemory(size: number): number;
  newDSO(name: string, handle: undefined, state: string): Library;
  API: {
    config: { BUILD_ID: string };
    serializeHiwireState(): unknown;
    restoreSnapshot(bytes: Uint8Array): unknown;
  };
}

export interface PyCallable {
  (...args: unknown[]): unknown;
  destroy(): void;
}

export interface Pyodide {
  FS: FileSystem;
  loadedPackages: Record<string, string>;
  runPython(code: string): unknown;
  pyimport(name: string): unknown;
  setInterruptBuffer(buffer: Int32Array): void;
  setStdout(options: { write(bytes: Uint8Array): number; isatty: boolean }): void;
  setStderr(options: { write(bytes: Uint8Array): number; isatty: boolean }): void;
  setStdin(options: { stdin(): null }): void;
}

export interface LoadOptions {
  indexURL: string;
  packageBaseUrl: string;
  lockFileContents: unknown;
  env: Record<string, string>;
  fsInit(fs: FileSystem): Promise<void>;
  createPyodideModule(settings: EmscriptenModule): unknown;
  _sysExecutable: string;
  _makeSnapshot?: boolean;
  _loadSnapshot?: Uint8Array;
}
