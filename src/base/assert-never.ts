/**
 * Ends a `switch` that names every case: the compiler refuses the call as soon as there is a case that the switch does
 * not name.
 */
export function assertNever(value: never): never {
  // Only the case: other fields may hold a secret.
  const name = typeof value === "object" ? (value as { readonly case?: string }).case : value;
  throw new Error(`the case ${String(name)} is not handled`);
}
