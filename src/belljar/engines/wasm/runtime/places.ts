/** Where things are, outside and inside. */

/** All parts of the runtime are beside this module. */
export const FOLDER = import.meta.dirname!;
export const SITE = "/lib/python3.14/site-packages";
export const KERNEL = "/lib/belljar";
/** Folders of the sandbox's own, which share its disk limit. */
export const OWN = ["/workspace", "/tmp", "/home/sandbox"];
/** Packages that were added. */
export const LAYER = "/packages/site";
