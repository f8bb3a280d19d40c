import type { Mistake } from "../base/fault.ts";

/** Creates a mistake from a dotted path. */
export const mistake = (path: string, message: string): Mistake => ({ path: path.split("."), message });
