import { create } from "@bufbuild/protobuf";
import { type AccessLimits, AccessLimitsSchema, type LimitedConnection } from "../../gen/latchkey/v1/access_pb.ts";
import { coversConnection, coversHost } from "./narrower-limits.ts";
import { commonPath, coversPath } from "./path-pattern.ts";
import { coversTool } from "./tool-pattern.ts";

/** No integration has an empty key, so this admits no connection. An empty list would admit every one. */
const noConnection: LimitedConnection = {
  $typeName: "latchkey.v1.LimitedConnection",
  integration: "",
  id: "",
};

/** No tool has this name. */
const noTool = "\0";

/** Returns whether limits admit no tool at all. */
export const admitsNoTool = ({ tools }: Pick<AccessLimits, "tools">): boolean =>
  tools.length === 1 && tools[0] === noTool;

/** Returns the limits that admit exactly what both admit. Undefined limits admit everything. */
export function intersectLimits(a: AccessLimits | undefined, b: AccessLimits | undefined): AccessLimits | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const connections = common(a.connections, b.connections, commonConnection, coversConnection);
  const methods = common(a.methods, b.methods, (x, y) => (x === y ? x : undefined), isSame);
  const paths = common(a.paths, b.paths, commonPath, coversPath);
  const hosts = common(a.hosts, b.hosts, narrowerBy(coversHost), coversHost);
  const fields = [
    [connections, a.connections, b.connections],
    [methods, a.methods, b.methods],
    [paths, a.paths, b.paths],
    [hosts, a.hosts, b.hosts],
  ] as const;
  // Both limit the field, and have nothing in common.
  const isEmpty = fields.some(([both, x, y]) => both.length === 0 && x.length > 0 && y.length > 0);
  const tools = common(a.tools, b.tools, narrowerBy(coversTool), coversTool);
  const hasNoTool = tools.length === 0 && a.tools.length > 0 && b.tools.length > 0;
  return create(AccessLimitsSchema, {
    connections: isEmpty ? [noConnection] : connections,
    methods,
    paths,
    hosts,
    // Limits of tools leave other requests alone.
    tools: hasNoTool ? [noTool] : tools,
  });
}

type Covers<T> = (wide: T, one: T) => boolean;

const isSame = (a: string, b: string) => a === b;
const commonConnection = (a: LimitedConnection, b: LimitedConnection) => narrowerBy(coversConnection)(a, b);

/** For entries of which one always includes the other, or both have nothing in common. */
const narrowerBy =
  <T>(covers: Covers<T>) =>
  (a: T, b: T): T | undefined =>
    covers(a, b) ? b : covers(b, a) ? a : undefined;

/** Returns entries that admit what both lists admit. An empty list admits everything. */
function common<T>(a: readonly T[], b: readonly T[], meet: (x: T, y: T) => T | undefined, covers: Covers<T>): T[] {
  if (a.length === 0 || b.length === 0) return [...a, ...b];
  const kept = new Set<T>();
  for (const x of a) {
    // The usual case: an entry of a session is within one of its key.
    const met = b.some((y) => covers(y, x)) ? [x] : b.map((y) => meet(x, y));
    for (const one of met) if (one !== undefined) kept.add(one);
  }
  return [...kept];
}
