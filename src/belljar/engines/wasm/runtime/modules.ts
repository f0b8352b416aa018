/** Compiles what a boot instantiates. Done beside it, by another thread: a compiled module can be handed over. */
import { FOLDER } from "./places.ts";

export interface Modules {
  main: WebAssembly.Module;
  /** By the path under which Python loads them. */
  libraries: Map<string, WebAssembly.Module>;
}

/** A line of `NAME.libraries.json`: which bytes of the pack of packages are a library of the snapshot. */
export type LibraryPlace = [path: string, offset: number, length: number];

/** The main module and, for a snapshot, its libraries. */
export async function compileModules(snapshot: string | null): Promise<Modules> {
  const main = WebAssembly.compile(Deno.readFileSync(`${FOLDER}/pyodide.asm.wasm`));
  const libraries = new Map<string, WebAssembly.Module>();
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
  return { main: await main, libraries };
}
