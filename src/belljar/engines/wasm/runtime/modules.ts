/** Compiles what a boot instantiates. Done beside it, by another thread: a compiled module can be handed over. */
import { FOLDER } from "./places.ts";

/** By the path under which Python loads them. */
export type Libraries = Map<string, WebAssembly.Module>;

/** The main module is ready first, and takes a while to instantiate. */
export interface Modules {
  main: Promise<WebAssembly.Module>;
  libraries: Promise<Libraries>;
}

/** A line of `NAME.libraries.json`: which bytes of the pack of packages are a library of the snapshot. */
export type LibraryPlace = [path: string, offset: number, length: number];

/** The main module and, for a snapshot, its libraries. Reads all of it at once, and compiles in the background. */
export function compileModules(snapshot: string | null): Modules {
  const main = WebAssembly.compile(Deno.readFileSync(`${FOLDER}/pyodide.asm.wasm`));
  return { main, libraries: compileLibraries(snapshot) };
}

async function compileLibraries(snapshot: string | null): Promise<Libraries> {
  const libraries: Libraries = new Map();
  const places: LibraryPlace[] = snapshot
    ? JSON.parse(Deno.readTextFileSync(`${FOLDER}/${snapshot}.libraries.json`))
    : [];
  if (places.length) {
    const file = Deno.openSync(`${FOLDER}/packages.bin`);
    const compiling = places.map(([path, offset, length]) => {
      const bytes = new Uint8Array(length);
      file.seekSync(offset, Deno.SeekMode.Start);
      for (let done = 0; done < length;) done += file.readSync(bytes.subarray(done)) ?? NaN;
      return [path, WebAssembly.compile(bytes)] as const;
    });
    file.close();
    for (const [path, module] of compiling) libraries.set(path, await module);
  }
  return libraries;
}
