/** Writes one WebAssembly module that imports JavaScript functions and exports them again: what a function table takes. */

const TYPES: Record<string, number> = { i: 0x7f, p: 0x7f, j: 0x7e, f: 0x7d, d: 0x7c, e: 0x6f };

/** The bytes of the module; function number k is imported as `e.k` and exported as `k`. Signatures are Emscripten's. */
export function adapterModule(signatures: string[]): Uint8Array<ArrayBuffer> {
  const types = [...new Set(signatures)];
  const imports = signatures.map((
    signature,
    k,
  ) => [...text("e"), ...text(`${k}`), 0, ...leb(types.indexOf(signature))]);
  const exports = signatures.map((_, k) => [...text(`${k}`), 0, ...leb(k)]);
  const sections = [section(1, types.map(functionType)), section(2, imports), section(7, exports)];
  return Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, ...sections.flat()]);
}

function functionType(signature: string): number[] {
  const [result, ...parameters] = [...signature].map((letter) => TYPES[letter]);
  return [0x60, ...leb(parameters.length), ...parameters, ...(signature[0] === "v" ? [0] : [1, result])];
}

function section(id: number, items: number[][]): number[] {
  const body = [...leb(items.length), ...items.flat()];
  return [id, ...leb(body.length), ...body];
}

function text(value: string): number[] {
  const bytes = [...new TextEncoder().encode(value)];
  return [...leb(bytes.length), ...bytes];
}

function leb(value: number): number[] {
  const bytes: number[] = [];
  do {
    const low = value & 0x7f;
    value >>>= 7;
    bytes.push(value ? low | 0x80 : low);
  } while (value);
  return bytes;
}
