import type { World } from "../../base/world.ts";

/** Tells callers and operators which fields of a request were not understood. */
export interface IgnoredFields {
  /** Counts and logs the names. Returns the header for the response; undefined if there are none. */
  report(route: string, names: readonly string[]): Readonly<Record<string, string>> | undefined;
}

const everyMs = 60_000;
const maxNames = 20;
const maxNameLength = 64;

export function createIgnoredFields({ log, metrics, now }: Pick<World, "log" | "metrics" | "now">): IgnoredFields {
  /** Time of the last warning, by route. */
  const warnedAt = new Map<string, number>();
  return {
    report(route, names) {
      if (names.length === 0) return undefined;
      metrics.ignoredFields.inc({ route }, names.length);
      const fields = names
        .slice(0, maxNames)
        .map((name) => encoded(name.slice(0, maxNameLength)))
        .join(", ");
      const at = now();
      if (Math.abs(at - (warnedAt.get(route) ?? -everyMs)) >= everyMs) {
        warnedAt.set(route, at);
        log.warn("ignored unknown fields of a request", { route, fields });
      }
      return { "latchkey-ignored-fields": fields };
    },
  };
}

/** Percent-encodes what a header or a log line should not hold. */
const encoded = (name: string): string =>
  name.toWellFormed().replace(/[^\w.[\]-]/gu, (character) => encodeURIComponent(character));
