type JsonMembers = Readonly<Record<string, unknown>>;

/**
 * Returns the text of an answer to `tools/list` with only the tools that `mayCall` admits; undefined if the text is no
 * such answer. The answer is always written again: a duplicate key could hide tools from this reader alone.
 */
export function withTools(text: string, mayCall: (tool: string) => boolean): string | undefined {
  const value = parsed(text);
  if (!Array.isArray(value)) {
    const changed = changedMessage(value, mayCall);
    return changed === undefined ? undefined : JSON.stringify(changed);
  }
  // Servers of 2025-03-26 may answer with a list of messages.
  const changed = value.map((message) => changedMessage(message, mayCall));
  if (changed.every((message) => message === undefined)) return undefined;
  return JSON.stringify(changed.map((message, i) => message ?? value[i]));
}

/** Returns whether a text is JSON. What is not could list tools for another reader. */
export const isJson = (text: string): boolean => parsed(text) !== undefined;

function changedMessage(message: unknown, mayCall: (tool: string) => boolean): JsonMembers | undefined {
  if (!isObject(message)) return undefined;
  const result = message["result"];
  if (!isObject(result) || !Array.isArray(result["tools"])) return undefined;
  const tools = result["tools"].filter((tool) => isObject(tool) && isText(tool["name"]) && mayCall(tool["name"]));
  // The list of one caller must not be given to another.
  const scope = result["cacheScope"] === undefined ? {} : { cacheScope: "private" };
  return { ...message, result: { ...result, tools, ...scope } };
}

/** Numbers keep their text: schemas may hold more digits than a double. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text, (_, one: unknown, context?: { readonly source?: string }) =>
      typeof one === "number" && context?.source !== undefined ? rawNumber(context.source) : one,
    );
  } catch {
    // Clients cannot read the text either.
    return undefined;
  }
}

/** Not in TypeScript's library yet. */
const { rawJSON } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };
const rawNumber = (source: string): unknown => rawJSON(source);

const isObject = (value: unknown): value is JsonMembers =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string => typeof value === "string";
