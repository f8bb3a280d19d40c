import { expect, it } from "vitest";
import { sessionTimesOf } from "../../../../src/config/access/session-times.ts";

function read(given: { readonly default_life?: string; readonly longest_life?: string }) {
  const mistakes: string[] = [];
  const { usualMs, longestMs } = sessionTimesOf({ file: { access_sessions: given }, refuse: (m) => mistakes.push(m) });
  return mistakes.length === 0 ? [usualMs, longestMs] : mistakes;
}

it.each([
  [{}, [3_600_000, 86_400_000]],
  [{ default_life: "5m", longest_life: "10m" }, [300_000, 600_000]],
  [{ longest_life: "10m" }, [600_000, 600_000]],
  [{ longest_life: "2d" }, [3_600_000, 172_800_000]],
  [{ longest_life: "31d" }, ["access_sessions.longest_life: must be from 1m to 30d"]],
  [{ longest_life: "59s" }, ["access_sessions.longest_life: must be from 1m to 30d"]],
  [{ default_life: "2h", longest_life: "1h" }, ["access_sessions.default_life: must be from 1m to 1h"]],
])("reads the life of access sessions: %j", (given, expected) => {
  expect(read(given)).toEqual(expected);
});
