"""Our changes to Pyodide's own scripts, so that a boot is quick, and can be recorded and replayed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from belljar.errors import StartFailed

# Each becomes a module that exports one function. Where Deno has no cache, it is evaluated as text: to import it, Deno
# would search all of it for imports. In it there is neither Deno nor Node, so Pyodide takes itself to be in a worker
# of no special kind and loads nothing of theirs.
# The first of Deno's timers that is looked up brings all of Node's with it, in 20 ms: it is done when one is set.
_TIMERS = ("setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate", "clearImmediate")
_OPENING = (
    'export default ((Deno,process,Buffer,require,navigator={userAgent:"Cloudflare-Workers"},location=new URL("file:///"),'
    + ",".join(f"{name}=(...given)=>globalThis.{name}(...given)" for name in _TIMERS)
    + ")=>{"
)
_CLOSING = "})"

_MODULE = [
    ("async function _createPyodideModule(moduleArg={}){", "return(async function(moduleArg={}){"),
    ("export default _createPyodideModule;", ")"),
    ("ENVIRONMENT_IS_WORKER=!!globalThis.WorkerGlobalScope", "ENVIRONMENT_IS_WORKER=true"),
    (
        "ENVIRONMENT_IS_NODE=globalThis.process?.versions?.node&&globalThis.process?.type",
        "ENVIRONMENT_IS_NODE=false&&process",
    ),
    ("createRequire(import.meta.url)", "createRequire(location.href)"),
    ("var _scriptName=import.meta.url", "var _scriptName=location.href"),
    ('new URL("pyodide.asm.wasm",import.meta.url)', 'new URL("pyodide.asm.wasm",location.href)'),
    ("if(globalThis.setImmediate){emSetImmediate=", "if(setImmediate){emSetImmediate="),
    # Where a library's data and functions go is recorded.
    (
        "alignMemory(getMemory(metadata.memorySize+memAlign),memAlign)",
        "alignMemory(Module.belljar?.memoryBase?.(libName,metadata.memorySize+memAlign)"
        "??getMemory(metadata.memorySize+memAlign),memAlign)",
    ),
    (
        "var tableBase=metadata.tableSize?wasmTable.length:0;",
        "var tableBase=metadata.tableSize?wasmTable.length:0;"
        "tableBase=Module.belljar?.tableBase?.(libName,tableBase)??tableBase;",
    ),
    # A restore brings the memory, which is being filled.
    (
        "var imports={env:wasmImports,wasi_snapshot_preview1:wasmImports,",
        "if(Module.belljar?.memory)wasmImports.memory=Module.belljar.memory;"
        "var imports={env:wasmImports,wasi_snapshot_preview1:wasmImports,",
    ),
    # The main module: recorded once, then filled in without a walk over its 8,500 exports, and without constructors.
    (
        "updateGOT(origExports);LDSO.init();loadDylibs();",
        "if(Module.belljar?.restoreMain){LDSO.init();Module.belljar.restoreMain(origExports,info)}"
        "else{Module.belljar?.recordMain?.(origExports);updateGOT(origExports);LDSO.init();loadDylibs()}",
    ),
    ('wasmExports["__wasm_call_ctors"]();', 'Module.belljar?.restoreMain||wasmExports["__wasm_call_ctors"]();'),
    # A name may have to be asked for before it is among the keys; see late.ts.
    (
        "newSymIndex=Object.keys(lib.exports).indexOf(symbol)",
        "lib.exports[symbol];newSymIndex=Object.keys(lib.exports).indexOf(symbol)",
    ),
    (
        'rtn=GOT[symName]=new WebAssembly.Global({value:"i32",mutable:true},-1)',
        'rtn=GOT[symName]=new WebAssembly.Global({value:"i32",mutable:true},Module.belljar?.offset?.(symName)??-1)',
    ),
    (
        "var existingEntry=GOT[symName]&&GOT[symName].value!=-1;",
        "var existingEntry=GOT[symName]&&GOT[symName].value!=-1||Module.belljar?.offset?.(symName)!==undefined;",
    ),
    # CPython's call trampoline asks for a slot on every boot: the recorded one.
    (
        "var addFunction=(func,sig)=>{var rtn=getFunctionAddress(func);",
        "var addFunction=(func,sig)=>{if(Module.belljar?.fixedSlots?.length){"
        "var slot=Module.belljar.fixedSlots.shift();wasmTable.set(slot,func);return slot}"
        "var rtn=getFunctionAddress(func);",
    ),
    (
        "functionsInTableMap.set(func,ret);return ret};var updateGOT",
        "functionsInTableMap.set(func,ret);Module.belljar?.recordSlot?.(ret,func);return ret};var updateGOT",
    ),
    # In a restore, what is imported, compiled and run here has been: modules are where Python keeps them.
    (
        'let[r,n]=API.rawRun("import _pyodide_core");r&&API.fatal_loading_error(`Failed to import _pyodide_core\\n`,n),'
        'API.runPythonInternal_dict=API._pyodide._base.eval_code("{}"),'
        'API.importlib=API.runPythonInternal("import importlib; importlib");let o=API.importlib.import_module;'
        'API.sys=o("sys"),API.os=o("os");let i=API.runPythonInternal("import __main__; __main__.__dict__"),'
        's=API.runPythonInternal("import builtins; builtins.__dict__");',
        "let o,i,s;if(t){let kept=API._pyodide._importhook.sys.modules;o=name=>kept.get(name),"
        'API.importlib=o("importlib"),i=o("__main__").__dict__,s=o("builtins").__dict__,API.runPythonInternal_dict=s.get("dict")()}'
        'else{let[r,n]=API.rawRun("import _pyodide_core");'
        "r&&API.fatal_loading_error(`Failed to import _pyodide_core\\n`,n);"
        'API.runPythonInternal_dict=API._pyodide._base.eval_code("{}"),'
        'API.importlib=API.runPythonInternal("import importlib; importlib"),o=API.importlib.import_module,'
        'i=API.runPythonInternal("import __main__; __main__.__dict__"),'
        's=API.runPythonInternal("import builtins; builtins.__dict__")}'
        'API.sys=o("sys"),API.os=o("os");',
    ),
    (
        'API.os.environ.__setitem__("LD_LIBRARY_PATH",API.defaultLdLibraryPath.join(":"))',
        't||API.os.environ.__setitem__("LD_LIBRARY_PATH",API.defaultLdLibraryPath.join(":"))',
    ),
    (
        "API.package_loader.init_loaded_packages()",
        "Module.belljar?.restoreMain||API.package_loader.init_loaded_packages()",
    ),
]
_LOADER = [
    ("export{dt as loadPyodide,U as version};", "return dt"),
    # The main module, already compiled, and the standard library, already read.
    (
        'let{binary:t,response:n}=_(e+"pyodide.asm.wasm")',
        "let{binary:t,response:n}=globalThis.belljarParts"
        '?{binary:globalThis.belljarParts.main}:_(e+"pyodide.asm.wasm")',
    ),
    (
        "let{instance:d,module:u}=l;r(d,u)",
        "let{instance:d,module:u}=l instanceof WebAssembly.Instance?{instance:l,module:await t}:l;r(d,u)",
    ),
    (
        "function he(e){let t=j(e);",
        "function he(e){let t=globalThis.belljarParts?Promise.resolve(globalThis.belljarParts.stdlib):j(e);",
    ),
]
PATCHES = {"pyodide.asm.mjs": _MODULE, "pyodide.mjs": _LOADER}

_NAME = re.compile(r"[A-Za-z0-9_$]+")
_EXPORT = re.compile(r"(?<=[;{])([A-Za-z0-9_$]+)=Module\[\"\1\"\]=wasmExports\[\"[A-Za-z0-9_$]+\"\];")
_ALIAS = re.compile(r"(?<=[;}])Module\[\"(_[A-Za-z0-9_$]+)\"\]=\1;")
_DECLARED = re.compile(r"var ((?:[A-Za-z0-9_$]+,){200,}[A-Za-z0-9_$]+);")


def patched(name: str, script: str) -> str:
    """The script with our changes, as a module whose default is a function that returns what the script exports.

    Raises:
        StartFailed: when it is not the script that they were written for.
    """
    for old, new in PATCHES[name]:
        if (count := script.count(old)) != 1:
            raise StartFailed(f"{name} is not the one of the pinned Pyodide: {old[:60]!r} is in it {count} times")
        script = script.replace(old, new)
    return f"{_OPENING}{_trimmed(script)}\n{_CLOSING}"


def named(script: str, names: Collection[str]) -> set[str]:
    """Those of the names that a script has in it, as a word."""
    return set(_NAME.findall(script)).intersection(names)


def _trimmed(script: str) -> str:
    """Without the names that it gives to exports and uses nowhere: a third of the text, read at every start."""
    uses = Counter(_NAME.findall(script))
    declared, assigned, quoted = 1, 1, 1
    script = _EXPORT.sub(lambda found: "" if uses[found[1]] == declared + assigned + quoted else found[0], script)
    members = set(re.findall(r"\.(_[A-Za-z0-9_$]+)", script))
    script = _ALIAS.sub(lambda found: found[0] if found[1] in members else "", script)
    uses = Counter(_NAME.findall(script))
    return _DECLARED.sub(lambda found: f"var {','.join(n for n in found[1].split(',') if uses[n] > 1)};", script)
