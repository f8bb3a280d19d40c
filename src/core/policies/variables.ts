import { dyn, int, listOf, mapOf, type StaticType, string, timestamp } from "./static-type.ts";

interface Variable {
  readonly type: StaticType;
}

const strings = mapOf(string, string);

/** Every variable of a condition. `docs/policies.md` describes them; a test compares the names. */
export const variables = {
  "request.method": { type: string },
  "request.host": { type: string },
  "request.path": { type: string },
  "request.raw_path": { type: string },
  "request.query": { type: mapOf(string, listOf(string)) },
  "request.headers": { type: strings },
  "request.body": { type: dyn },
  "request.size": { type: int },
  "request.time": { type: timestamp },
  "mcp.method": { type: string },
  "mcp.tool": { type: string },
  "mcp.arguments": { type: mapOf(string, dyn) },
  "caller.key": { type: string },
  "caller.session": { type: string },
  "caller.identity": { type: strings },
  "caller.script": { type: string },
  "caller.scopes": { type: listOf(string) },
  "integration.key": { type: string },
  "integration.provider": { type: string },
  "integration.environment": { type: string },
  "connection.id": { type: string },
  "connection.tags": { type: strings },
  "connection.metadata": { type: mapOf(string, dyn) },
} as const satisfies Readonly<Record<string, Variable>>;

export type PolicyVariable = keyof typeof variables;

export const isVariable = (name: string): name is PolicyVariable => Object.hasOwn(variables, name);

/** Names before the dot, with the fields of each. */
export const variableFields: ReadonlyMap<string, readonly string[]> = fieldsByRoot();

function fieldsByRoot(): Map<string, string[]> {
  const fields = new Map<string, string[]>();
  for (const name of Object.keys(variables)) {
    const [root = "", field = ""] = name.split(".");
    fields.set(root, [...(fields.get(root) ?? []), field]);
  }
  return fields;
}
