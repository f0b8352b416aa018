/** Drops the last permission, then tries what must not work. Any success is told to the host, which ends the process. */

/** Not written out in the import itself: Deno would follow it before any permission is asked for. */
const load = (address: string) => import(address);

type Trial = [name: string, attempt: () => unknown];

const TRIALS: Trial[] = [
  ["read", () => Deno.readTextFileSync("/etc/hostname")],
  ["read of the runtime", () => Deno.readDirSync(new URL(".", import.meta.url)).next()],
  ["write", () => Deno.writeTextFileSync("/tmp/belljar-self-test", "")],
  ["environment", () => Deno.env.toObject()],
  ["spawn", () => new Deno.Command("/bin/true").outputSync()],
  ["system", () => Deno.hostname()],
  ["native code", () => Deno.dlopen("libc.so.6", {})],
  ["listen", () => Deno.listen({ port: 0, hostname: "127.0.0.1" }).close()],
];
const LATER: Trial[] = [
  ["connect", () => Deno.connect({ hostname: "127.0.0.1", port: 49151 })], // fetch() asks for the same, and takes 5 ms to load
  ["name", () => Deno.resolveDns("belljar.invalid", "A", { nameServer: { ipAddr: "127.0.0.1", port: 49151 } })],
  ["import of a file", () => load("file:///etc/hostname")],
  ["import of the runtime", () => load(new URL("./build.js", import.meta.url).href)],
  ["import over the network", () => load("https://belljar.invalid/x.js")],
  ["import of a package", () => load("npm:belljar-self-test@1")],
  ["permission", async () => {
    const { state } = await Deno.permissions.request({ name: "read" });
    if (state !== "granted") throw new Deno.errors.NotCapable("denied");
  }],
];

/** The names of those that succeeded; empty when the walls hold. Denied by permission counts, failing otherwise does not. */
export async function breaches(memoryPages: number): Promise<string[]> {
  Deno.permissions.revokeSync({ name: "read" });
  const through: string[] = [];
  try {
    new WebAssembly.Memory({ initial: memoryPages + 1 });
    through.push("memory over the limit");
  } catch { /* as it should be */ }
  const judge = (name: string, failure: unknown) => {
    if (!isDenial(failure)) through.push(`${name}: ${failure}`);
  };
  for (const [name, attempt] of TRIALS) {
    try {
      attempt();
      through.push(name);
    } catch (failure) {
      judge(name, failure);
    }
  }
  await Promise.all(LATER.map(async ([name, attempt]) => {
    try {
      await attempt();
      through.push(name);
    } catch (failure) {
      judge(name, failure);
    }
  }));
  return through;
}

function isDenial(failure: unknown): boolean {
  if (failure instanceof Deno.errors.NotCapable || failure instanceof Deno.errors.PermissionDenied) return true;
  return failure instanceof TypeError &&
    /[Rr]equires|not capable|--no-remote|--no-npm|npm packages/.test(failure.message);
}
