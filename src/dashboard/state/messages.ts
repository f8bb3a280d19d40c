/** Short messages about what was just done. They go by themselves; failures stay until closed. */
import { signal } from "@preact/signals";
import { faultOf } from "./fault.ts";

export interface ShortMessage {
  readonly id: number;
  readonly text: string;
  readonly isBad: boolean;
}

export const messages = signal<readonly ShortMessage[]>([]);
const shownMs = 5_000;
const mostShown = 4;
let lastId = 0;

export function say(text: string): void {
  const id = add(text, false);
  setTimeout(() => closeMessage(id), shownMs);
}

export function sayFault(error: unknown): void {
  const { message, hint } = faultOf(error);
  add(hint === undefined ? message : `${message} ${hint}`, true);
}

function add(text: string, isBad: boolean): number {
  lastId += 1;
  messages.value = [...messages.value, { id: lastId, text, isBad }].slice(-mostShown);
  return lastId;
}

export function closeMessage(id: number): void {
  messages.value = messages.value.filter((one) => one.id !== id);
}
