import * as v from "valibot";
import type { AccessSessionTimes } from "../../broker/access-sessions/new-session.ts";
import { durationForm, millisecondsIn } from "../../core/duration.ts";
import type { Refuse } from "../values.ts";

const life = v.pipe(v.string(), v.regex(durationForm, "must be a duration such as 500ms, 1s, 15m, 24h or 7d"));

export const sessionTimes = v.pipe(
  v.strictObject({
    default_life: v.optional(
      v.pipe(life, v.description("Life of an access session whose creator names none: a minute to `longest_life`.")),
    ),
    longest_life: v.optional(
      v.pipe(life, v.description("Longest life of an access session: a minute to 30 days; a day if left out.")),
    ),
  }),
  v.description("How long access sessions can be used. Read at the start."),
);

const minuteMs = 60_000;
const dayMs = 86_400_000;
const mostMs = 30 * dayMs;

interface SessionTimesSource {
  readonly file: { readonly access_sessions?: v.InferOutput<typeof sessionTimes> | undefined };
  readonly refuse: Refuse;
}

export function sessionTimesOf({
  file: { access_sessions: given = {} },
  refuse,
}: SessionTimesSource): AccessSessionTimes {
  const longestMs = millisecondsIn(given.longest_life ?? "") ?? dayMs;
  if (longestMs < minuteMs || longestMs > mostMs) {
    refuse("access_sessions.longest_life: must be from 1m to 30d");
    return { usualMs: longestMs, longestMs };
  }
  const usualMs = millisecondsIn(given.default_life ?? "") ?? Math.min(3_600_000, longestMs);
  if (usualMs < minuteMs || usualMs > longestMs) {
    refuse(`access_sessions.default_life: must be from 1m to ${given.longest_life ?? "24h"}`);
  }
  return { usualMs, longestMs };
}
