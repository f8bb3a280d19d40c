import { create } from "@bufbuild/protobuf";
import type { Mistake } from "../../base/fault.ts";
import { type AccessLimits, AccessLimitsSchema, type LimitedConnection } from "../../gen/latchkey/v1/access_pb.ts";
import { coversPath } from "./path-pattern.ts";
import { coversTool } from "./tool-pattern.ts";

/** Limits within those of a creator, and the entries that reach beyond them. */
export interface NarrowedLimits {
  readonly limits: AccessLimits;
  readonly mistakes: readonly Mistake[];
}

/** Returns the wanted limits, where an empty field takes the entries of the wider limits. */
export function narrowLimits(wanted: AccessLimits, wider: AccessLimits | undefined): NarrowedLimits {
  if (wider === undefined) return { limits: wanted, mistakes: [] };
  const mistakes: Mistake[] = [];
  function narrow<T>(field: string, wanted: readonly T[], wider: readonly T[], covers: (wide: T, one: T) => boolean) {
    if (wider.length === 0) return [...wanted];
    if (wanted.length === 0) return [...wider];
    for (const [i, one] of wanted.entries()) {
      if (wider.some((wide) => covers(wide, one))) continue;
      mistakes.push({ path: ["limits", field, String(i)], message: "must be within the limits of the key" });
    }
    return [...wanted];
  }
  const limits = create(AccessLimitsSchema, {
    connections: narrow("connections", wanted.connections, wider.connections, coversConnection),
    methods: narrow("methods", wanted.methods, wider.methods, (wide, one) => wide === one),
    paths: narrow("paths", wanted.paths, wider.paths, coversPath),
    hosts: narrow("hosts", wanted.hosts, wider.hosts, coversHost),
    tools: narrow("tools", wanted.tools, wider.tools, coversTool),
  });
  return { limits, mistakes };
}

/** Returns whether an entry admits every connection that another one admits. */
export const coversConnection = (wide: LimitedConnection, one: LimitedConnection): boolean =>
  wide.integration === one.integration && (wide.id === "" || wide.id === one.id);

/** Returns whether a pattern of hosts admits every host that another one admits. */
export function coversHost(wide: string, one: string): boolean {
  if (wide === one) return true;
  const ending = wide.slice(1);
  const host = one.startsWith("*.") ? one.slice(1) : one;
  return wide.startsWith("*.") && host.length > ending.length && host.endsWith(ending);
}
