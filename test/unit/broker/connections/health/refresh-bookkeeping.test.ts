import { create, toBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import type { TokenFailureKind } from "../../../../../src/auth/oauth2/tokens.ts";
import {
  afterFailure,
  afterIntent,
  afterReplacement,
  afterSuccess,
  coolDownMs,
  exhaustedAfterMs,
  isEmptyRecord,
  isExhausted,
  nextAttemptMs,
} from "../../../../../src/broker/connections/health/refresh-bookkeeping.ts";
import { type RefreshRecord, RefreshRecordSchema } from "../../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { below, seeded } from "../../../../support/runner/seeded.ts";

const hour = 3_600_000;
const start = Date.parse("2026-01-01T00:00:00Z");
const fresh = (): RefreshRecord =>
  create(RefreshRecordSchema, { environment: "dev", integration: "calendar", connectionId: "ada" });

interface Step {
  readonly kind?: TokenFailureKind;
  readonly atMs?: number;
  readonly random?: number;
  readonly retryAfterMs?: number;
}

const failed = (before: RefreshRecord, { kind = "passing", atMs = start, random = 1, retryAfterMs }: Step = {}) =>
  afterFailure(before, { failure: { kind, code: "server_error", retryAfterMs }, nowMs: atMs, random, logId: "l" });
const begun = (before: RefreshRecord, token = "rt-1", attemptId = "a") =>
  afterIntent(before, { attemptId, token, nowMs: start });
const waits = (record: RefreshRecord, atMs = start) =>
  (nextAttemptMs(record, { isForced: false, nowMs: atMs }) ?? 0) - atMs;

describe("after failures", () => {
  it("waits twice as long each time, from half a minute up to an hour, and never less than half of that", () => {
    let most = fresh();
    let least = fresh();
    const seen: number[] = [];
    for (let i = 0; i < 12; i += 1) {
      most = failed(most);
      least = failed(least, { random: 0 });
      expect(waits(least)).toBe(waits(most) / 2);
      seen.push(waits(most));
    }
    expect(seen.slice(0, 4)).toEqual([30_000, 60_000, 120_000, 240_000]);
    expect(seen.slice(-3)).toEqual([hour, hour, hour]);
  });

  it("tries once a day when it has failed for three days, however often it was tried", () => {
    const once = failed(fresh());
    const late = failed(once, { atMs: start + exhaustedAfterMs });
    expect([isExhausted(once, start + exhaustedAfterMs - 1), isExhausted(late, start + exhaustedAfterMs)]).toEqual([
      false,
      true,
    ]);
    expect(waits(late, start + exhaustedAfterMs)).toBe(24 * hour);
    let often = fresh();
    for (let i = 0; i < 1_000; i += 1) often = failed(often);
    expect(isExhausted(often, start)).toBe(false);
  });

  it.each([
    ["as the provider asks", { retryAfterMs: 2 * hour }, 2 * hour],
    ["no less than its own measure", { retryAfterMs: 1 }, 30_000],
    ["no longer than a day", { retryAfterMs: 1e15 }, 24 * hour],
  ])("waits %s", (_what, step, expected) => {
    expect(waits(failed(fresh(), step))).toBe(expected);
  });

  it.each(["client_refused", "misconfigured"] as const)("waits five minutes at most where it is %s", (kind) => {
    let record = fresh();
    for (let i = 0; i < 20; i += 1) record = failed(record, { kind });
    expect(waits(record)).toBe(300_000);
  });

  it("remembers when the first one was, and when it was last good", () => {
    const good = afterSuccess(fresh(), { nowMs: start });
    const record = failed(failed(good, { atMs: start + hour }), { atMs: start + 2 * hour, kind: "uncertain" });
    const at = (time: RefreshRecord["lastFailedAt"]) => (time === undefined ? undefined : timestampMs(time) - start);
    expect(record.failures).toBe(2);
    expect([at(record.firstFailedAt), at(record.lastFailedAt), at(record.lastSucceededAt)]).toEqual([
      hour,
      2 * hour,
      0,
    ]);
    expect(record.lastFailure).toBe("uncertain");
  });
});

describe("an attempt whose answer never came", () => {
  it("is sent once more at once with the same token, and then like any other", () => {
    const first = failed(begun(fresh()), { kind: "uncertain" });
    expect(waits(first)).toBe(0);
    const second = failed(begun(first), { kind: "uncertain" });
    expect(waits(second)).toBe(60_000);
  });

  it.each([
    ["answered at last: nothing is open", ["passing"], undefined],
    ["lost", ["uncertain"], 0],
    ["lost twice", ["uncertain", "uncertain"], 1],
    ["lost, and then one that certainly did nothing", ["uncertain", "passing"], 0],
    ["unusable: it may have been acted on", ["unusable"], 0],
  ] as const)("%s", (_what, kinds, unanswered) => {
    let record = fresh();
    for (const kind of kinds) record = failed(begun(record), { kind });
    expect(record.intent?.unanswered).toBe(unanswered);
  });

  it("is found by a restarted process, and counts for its own token only", () => {
    const crashed = begun(fresh());
    expect(begun(crashed, "rt-1", "b").intent).toMatchObject({ attemptId: "b", unanswered: 1 });
    expect(begun(crashed, "rt-2", "b").intent).toMatchObject({ attemptId: "b", unanswered: 0 });
    expect(Buffer.from(toBinary(RefreshRecordSchema, crashed)).includes("rt-1")).toBe(false);
  });
});

describe("afterwards", () => {
  const failing = () => failed(begun(fresh()), { kind: "uncertain" });

  it("clears all failures after a refresh", () => {
    const record = afterSuccess({ ...failing(), deadReason: "revoked" }, { nowMs: start + hour });
    expect(record).toMatchObject({ failures: 0, lastFailure: "", deadReason: "", logId: "" });
    expect([record.intent, record.notBefore, record.firstFailedAt]).toEqual([undefined, undefined, undefined]);
  });

  it("keeps nothing of replaced credentials", () => {
    expect(isEmptyRecord(afterReplacement(failing(), { grantedAtMs: undefined }))).toBe(true);
    expect(isEmptyRecord(afterReplacement(failing(), { grantedAtMs: start }))).toBe(false);
  });

  it.each([
    ["nothing is remembered", undefined, false, 0],
    ["it is dead", { ...fresh(), deadReason: "revoked" }, true, undefined],
    [
      "it was renewed just now, and somebody wants it again",
      afterSuccess(fresh(), { nowMs: start }),
      true,
      start + coolDownMs,
    ],
    ["it was renewed just now, and is due", afterSuccess(fresh(), { nowMs: start }), false, 0],
    ["it failed just now, and somebody wants it again", failed(fresh(), { random: 0 }), true, start + coolDownMs],
  ])("says when the next attempt may be: %s", (_what, record, isForced, expected) => {
    expect(nextAttemptMs(record, { isForced, nowMs: start })).toBe(expected);
  });
});

it.each([
  ["failed", failed(fresh(), { retryAfterMs: 24 * hour })],
  ["was renewed", afterSuccess(fresh(), { nowMs: start })],
])(
  "waits for no clock that was turned back since it %s, and bears with one that is a little behind",
  (_what, record) => {
    const asked = (nowMs: number) => nextAttemptMs(record, { isForced: true, nowMs }) ?? 0;
    expect(asked(start - 24 * hour)).toBe(0);
    expect(asked(start - 60_000)).toBeGreaterThan(start);
  },
);

it("never schedules before now or beyond a day, in any order of events", () => {
  const kinds: readonly TokenFailureKind[] = ["passing", "uncertain", "unusable", "client_refused", "misconfigured"];
  const random = seeded(1);
  for (let round = 0; round < 300; round += 1) {
    let record = fresh();
    let nowMs = start;
    for (let i = 0; i < 40; i += 1) {
      nowMs += below(random, 10 * hour);
      record = begun(record, `rt-${below(random, 2)}`);
      const kind = kinds[below(random, kinds.length)];
      record =
        random() < 0.1
          ? afterSuccess(record, { nowMs })
          : failed(record, { kind: kind ?? "passing", atMs: nowMs, random: random() });
      const wait = waits(record, nowMs);
      if (record.failures === 0) expect(nextAttemptMs(record, { isForced: false, nowMs })).toBe(0);
      else if (wait < 0 || wait > 24 * hour) throw new Error(`waits ${wait} ms`);
    }
  }
});
