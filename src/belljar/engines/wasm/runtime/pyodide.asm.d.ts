/** Emscripten's module factory; the script itself is not part of this repository. */
import type { EmscriptenModule } from "./emscripten.ts";

export default function create(settings: EmscriptenModule): unknown;
