/** Where the runtime is outside. All its parts are beside this module. Places inside are in protocol.ts. */
export const FOLDER = import.meta.dirname!;
