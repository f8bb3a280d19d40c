import type { Entry } from "../../../src/store/contract.ts";
import { areSame } from "./model-state.ts";

/** Bytes as letters, and long ones not at all. */
export const show = (what: unknown): string =>
  JSON.stringify(what, (_key, value: unknown) => {
    if (typeof value === "string") return brief(value);
    // A Buffer arrives in its JSON form.
    const bytes = value instanceof Uint8Array ? value : (value as { readonly data?: Uint8Array } | null)?.data;
    return bytes === undefined ? value : brief(Buffer.from(bytes).toString("latin1"));
  });

const brief = (text: string): string => (text.length > 40 ? `${text.length} letters` : text);

type Entries = readonly (Entry | undefined)[];

export function showDifference(is: Entries, wanted: Entries): string {
  const others = (of: Entries, than: Entries) => of.filter((one) => !than.some((other) => areSame([one], [other])));
  return `there is ${show(others(is, wanted))} where ${show(others(wanted, is))} should be, or in another order`;
}
