/** `structuredClone` for the types that scripts have: data, dates, maps, sets, bytes, errors, and cycles of them. */
export function structuredClone<T>(value: T): T {
  return clone(value, new Map()) as T;
}

function clone(value: unknown, seen: Map<object, unknown>): unknown {
  if (typeof value === "function" || typeof value === "symbol") {
    throw new DOMException(`a ${typeof value} cannot be cloned`, "DataCloneError");
  }
  if (typeof value !== "object" || value === null) return value;
  const before = seen.get(value);
  if (before !== undefined) return before;
  const keep = <M extends object>(made: M): M => {
    seen.set(value, made);
    return made;
  };
  if (value instanceof Date) return keep(new Date(value));
  if (value instanceof RegExp) return keep(new RegExp(value));
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return keep((value as Uint8Array).slice());
  if (value instanceof Map) {
    const made = keep(new Map<unknown, unknown>());
    for (const [key, one] of value) made.set(clone(key, seen), clone(one, seen));
    return made;
  }
  if (value instanceof Set) {
    const made = keep(new Set<unknown>());
    for (const one of value) made.add(clone(one, seen));
    return made;
  }
  if (value instanceof Error) {
    const made = keep(new Error(value.message));
    Object.defineProperty(made, "stack", { value: value.stack, writable: true, configurable: true });
    made.name = value.name;
    return made;
  }
  const made = keep<object>(Array.isArray(value) ? new Array(value.length) : {});
  for (const key of Object.keys(value)) {
    const one = clone((value as Record<string, unknown>)[key], seen);
    Object.defineProperty(made, key, { value: one, writable: true, enumerable: true, configurable: true });
  }
  return made;
}

declare const DOMException: new (message: string, name: string) => Error;
