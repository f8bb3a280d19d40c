import { lowerCase } from "../../base/http/field-name.ts";

/** How the caller of a held request wants to wait (RFC 7240). */
export interface WaitPreference {
  /** `respond-async`: answer at once. */
  readonly isAsync: boolean;
  /** `wait`; undefined: as the policy says. */
  readonly waitMs: number | undefined;
}

const maxWaitSeconds = 600;

/** Returns the preferences in a `Prefer` header. Others, and those that are not valid, are not ours to judge. */
export function waitPreference(value: string | undefined): WaitPreference {
  let isAsync = false;
  let waitMs: number | undefined;
  for (const part of value?.split(",") ?? []) {
    const preference = ownPreference(part);
    if (preference === "respond-async") isAsync = true;
    else if (preference !== undefined) waitMs ??= preference * 1_000;
  }
  return { isAsync, waitMs };
}

function ownPreference(part: string): "respond-async" | number | undefined {
  const text = part.trim().toLowerCase();
  if (text === "respond-async") return text;
  const [, seconds] = /^wait\s*=\s*"?(\d{1,6})"?$/.exec(text) ?? [];
  return seconds === undefined ? undefined : Math.min(Number(seconds), maxWaitSeconds);
}

/** Returns the headers without these preferences, which are for Latchkey: a repeated request may wait otherwise. */
export function withoutWaitPreference(rawHeaders: readonly string[]): readonly string[] {
  const kept: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const value = rawHeaders[i + 1] ?? "";
    if (lowerCase(name) !== "prefer") {
      kept.push(name, value);
      continue;
    }
    const parts = value.split(",");
    const others = parts.filter((part) => ownPreference(part) === undefined);
    if (others.length === parts.length) kept.push(name, value);
    else if (others.length > 0) kept.push(name, others.join(",").trim());
  }
  return kept;
}
