/** NUL parts the keys of the store: nothing is ever filed under a name that holds it, so that nothing is found there. */
export const namesNothing = (...names: readonly string[]): boolean => names.some((name) => name.includes("\0"));
