/** Compiles what a boot instantiates. Done beside it, by another thread: a compiled module can be handed over. */
import { FOLDER } from "./places.ts";

/** By the path under which Python loads them. */
export type Libraries = Map<string, WebAssembly.Module>;

export interface Modules {
  main: Promise<WebAssembly.Module>;
  libraries: Promise<Libraries>;
}

/** A line of `NAME.libraries.json`: which bytes are a library of the snapshot. */
export type LibraryPlace = [path: string, offset: number, length: number];

/** The bytes of the main module; for a snapshot, the one whose data and names come with the snapshot. */
export function readMain(snapshot: string | null): Promise<Uint8Array<ArrayBuffer>> {
  return Deno.readFile(`${FOLDER}/${snapshot ? "restored" : "pyodide.asm"}.wasm`);
}

export async function compileMain(snapshot: string | null): Promise<WebAssembly.Module> {
  return await WebAssembly.compile(await readMain(snapshot));
}

/** The libraries of a snapshot: reads one after the other, and compiles in the background. */
export async function compileLibraries(snapshot: string | null): Promise<Libraries> {
  const places: LibraryPlace[] = snapshot
    ? JSON.parse(Deno.readTextFileSync(`${FOLDER}/${snapshot}.libraries.json`))
    : [];
  if (!places.length) return new Map();
  const file = Deno.openSync(`${FOLDER}/${snapshot}.libraries.bin`);
  const compiling = places.map(async ([path, offset, length]) => {
    const bytes = new Uint8Array(length);
    file.seekSync(offset, Deno.SeekMode.Start);
    for (let done = 0; done < length;) done += file.readSync(bytes.subarray(done)) ?? NaN;
    return [path, await WebAssembly.compile(bytes)] as const;
  });
  file.close();
  return new Map(await Promise.all(compiling));
}
