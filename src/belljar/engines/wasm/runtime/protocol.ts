/** The part of belljar_kernel/protocol.py that the runtime needs. Written by tools/protocol_ts.py: change it there. */
/** The sandbox's own files. */
export const WORKSPACE = "/workspace";
/** Its home folder. */
export const HOME = "/home/sandbox";
/** Folders of the sandbox's own, which share its disk limit. */
export const OWN = ["/workspace", "/tmp", "/home/sandbox"];
/** Packages that were added. */
export const LAYER = "/packages/site";
/** Packages of the environment. */
export const SITE = "/lib/python3.14/site-packages";
/** The folder that the kernel is imported from. */
export const KERNEL = "/lib/belljar";
/** Of a file that is read. */
export const FILE_PIECE_BYTES = 1048576;
/** Of a file that is handed over. */
export const HANDED_PIECE_BYTES = 8388608;
/** Of a file in a mounted folder that is read. */
export const MOUNT_PIECE_BYTES = 524288;
/** Of folders within folders. */
export const FOLDER_LEVELS = 128;

/** Why an act on a file did not work. */
export type FileFailure = "missing" | "full" | "through" | "folder" | "special" | "large" | "deep" | "many" | "unknown";

/** Requests that the program answers itself. */
export type ProgramRequest =
  | { type: "file_write"; id: number; path: string; fresh: string; data: string; append: boolean; last: boolean }
  | { type: "file_read"; id: number; path: string; offset: number; max: number }
  | { type: "file_list"; id: number; path: string; max: number }
  | { type: "file_delete"; id: number; path: string }
  | {
    type: "file_restore";
    id: number;
    path: string;
    mode: number;
    modified: number;
    target?: string | null;
    data: string;
    append: boolean;
  }
  | { type: "file_mode"; id: number; path: string; mode: number }
  | { type: "layer_part"; id: number; data: string }
  | { type: "layer_mount"; id: number; tree?: string | null };

/** What the host takes. */
export type Event =
  | { type: "hello"; id: number; protocol: number; digest: string; python: string }
  | { type: "stdout"; id: number; text: string }
  | { type: "stderr"; id: number; text: string }
  | { type: "result"; id: number; data: object; metadata: object; main: boolean }
  | { type: "state"; id: number; part: number; data: string }
  | { type: "denial"; id: number; kind: string; target: string; rule: string; hint: string }
  | { type: "call"; id: number; call_id: number; name: string; args: object }
  | { type: "done"; id: number; [field: string]: unknown }
  | { type: "ended"; id: number; code: number }
  | {
    type: "file";
    id: number;
    path: string;
    mode: number;
    modified: number;
    target?: string | null;
    data: string;
    append: boolean;
  }
  | { type: "left"; id: number };
