/** Methods of the built-ins as they were before any user code, called with their object first. */
// deno-lint-ignore no-explicit-any
type Method = (this: any, ...given: any[]) => unknown;

/** The method as a function that needs no method of anybody to be called. */
export const bound = Function.prototype.bind.bind(Function.prototype.call) as (method: Method) => unknown;

export const set = bound(Uint8Array.prototype.set) as (into: Uint8Array, from: Uint8Array, at: number) => void;
export const subarray = bound(Uint8Array.prototype.subarray) as (
  bytes: Uint8Array,
  start: number,
  end?: number,
) => Uint8Array;
