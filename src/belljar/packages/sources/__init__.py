"""Where the files of the wasm engine come from: one small interface, several sources, and no trust in any of them."""
