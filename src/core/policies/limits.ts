/**
 * Limits that keep a request's policies fast, whatever is written or sent. What exceeds one when a policy is written is
 * refused; what exceeds one when a request comes is an error, which counts against the request.
 */
export const policyLimits = {
  /** Characters of a condition. */
  text: 4_096,
  /** Nodes of a parsed condition. */
  nodes: 1_000,
  depth: 64,
  /** Macros such as `exists` inside each other. */
  nestedMacros: 2,
  patternText: 256,
  /** Instructions of a compiled pattern. */
  patternSize: 256,
  /** Characters that a pattern is matched with. */
  matchedText: 2_048,
  /** Steps of all conditions of a request, where a step is a node in a loop or 64 characters. */
  steps: 100_000,
  headers: 200,
  queryValues: 1_000,
  bodyBytes: 64 * 1_024,
  bodyDepth: 32,
  /** Bytes of an MCP message that is read for its method and its tool. */
  messageBytes: 1_024 * 1_024,
  /** Policies of an environment. */
  policies: 1_000,
} as const;
