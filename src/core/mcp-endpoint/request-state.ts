import type { JsonValue } from "@bufbuild/protobuf";

/** The state by which a client that calls again names an approval. It grants nothing: the call is compared again. */
const approvalPrefix = "latchkey-approval:";

export const approvalState = (id: string): string => `${approvalPrefix}${id}`;

/** Returns the ID of the approval that a state names; empty: none. */
export const approvalIn = (state: JsonValue | undefined): string =>
  typeof state === "string" && state.startsWith(approvalPrefix) ? state.slice(approvalPrefix.length) : "";
