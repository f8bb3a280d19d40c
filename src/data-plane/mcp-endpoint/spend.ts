/** Counts a call in the budget of its caller, without a promise if this process may. */
export type Spend = () => Promise<void> | undefined;
