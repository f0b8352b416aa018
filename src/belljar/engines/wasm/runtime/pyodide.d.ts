/** Pyodide's loader, as far as this runtime uses it; the script itself is not part of this repository. */
import type { LoadOptions, Pyodide } from "./emscripten.ts";

export function loadPyodide(options: LoadOptions): Promise<Pyodide>;
