import { hostFunctions } from "../../../src/scripts/machine/host-functions.ts";

// The guest's code takes its host from the global object, as in a script's machine, when it is first loaded.
Object.assign(globalThis, { __host: (name: string, a: string, b: string) => hostFunctions[name]?.(a, b) });

/** `nango.paginate` of scripts, outside their machine. */
export const { paginate } = await import("../../../src/scripts/guest/paginate.ts");
