import type { Mistake } from "../base/fault.ts";

/** By the path as a person writes it, with dots. */
export const mistake = (path: string, message: string): Mistake => ({ path: path.split("."), message });
