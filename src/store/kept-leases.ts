import type { Store } from "./contract.ts";

/** The leases that this process tries to keep of each store, by name, with whether it holds each now. */
const keptOf = new WeakMap<Store, Map<string, () => boolean>>();

/** Adds a lease to those that this process may hold. */
export function noteKeptLease(store: Store, name: string, isHeld: () => boolean): void {
  const kept = keptOf.get(store) ?? new Map<string, () => boolean>();
  keptOf.set(store, kept.set(name, isHeld));
}

/** Returns the names of the leases of a store that this process holds now. */
export const heldLeases = (store: Store): readonly string[] =>
  [...(keptOf.get(store) ?? [])].filter(([, isHeld]) => isHeld()).map(([name]) => name);
