/**
 * Plain Pyodide, as its documentation starts it: `pyodide.ts CORE WHEELS CODE`. Loads the packages that the code imports,
 * runs it, prints the result as one line of JSON, and stays until standard input ends.
 */
const [core, wheels, code] = Deno.args;
const { loadPyodide } = await import(`${core}/pyodide.mjs`);
const python = await loadPyodide({
  indexURL: `${core}/`,
  packageBaseUrl: `${wheels}/`,
  lockFileContents: JSON.parse(Deno.readTextFileSync(`${wheels}/pyodide-lock.json`)),
});
await python.loadPackagesFromImports(code, { messageCallback: () => {} });
console.log(JSON.stringify(String(await python.runPythonAsync(code))));
await Deno.stdin.read(new Uint8Array(1));
Deno.exit(0);
