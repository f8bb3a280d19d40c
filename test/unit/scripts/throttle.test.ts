import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { action, failure, type Hosted, hosted, output } from "./hosting.ts";

/** Reports its start and then spins, unless its input says otherwise. */
const spins = action("await nango.getMetadata(); if (input.spins) for (;;); return 'done';");
const busyMs = 150;
/** Ten times as long as the run took, less clock rounding. */
const restMs = busyMs * 9;

/** Runs it, and returns when it started. */
async function run({ run }: Hosted, input: { readonly spins: boolean }, signal = new AbortController().signal) {
  let beganAt = Number.NaN;
  const ran = await run("it", {
    input,
    signal,
    limits: { busyMs },
    tool() {
      beganAt = performance.now();
      return {};
    },
  });
  return { ...ran, beganAt };
}

async function resting(): Promise<Hosted> {
  const at = await hosted({ "calendar/actions/it.ts": spins, "calendar/actions/other.ts": action("return 'other';") });
  for (let i = 0; i < 2; i += 1) expect(failure(await run(at, { spins: true }))).toMatchObject({ code: "busy" });
  return at;
}

it("throttles a script that repeatedly exceeds its limits, one run at a time, and no other", async () => {
  const at = await resting();
  expect(at.logged.join("\n")).toContain('throttling its runs {"integration":"calendar","script":"it"}');
  const since = performance.now();
  const elapsed = startStopwatch();
  const both = Promise.all([run(at, { spins: true }), run(at, { spins: true })]);
  expect(output(await at.run("other"))).toBe("other");
  expect(elapsed.ms).toBeLessThan(restMs);
  const [first, second] = await both;
  expect(first.beganAt - since).toBeGreaterThan(restMs);
  expect(second.beganAt - first.beganAt).toBeGreaterThan(restMs);
});

it("ends the throttle after another outcome, or with another file of that name", async () => {
  const at = await resting();
  expect(output(await run(at, { spins: false }))).toBe("done");
  const elapsed = startStopwatch();
  expect(output(await run(at, { spins: false }))).toBe("done");
  expect(elapsed.ms).toBeLessThan(restMs);
  for (let i = 0; i < 2; i += 1) await run(at, { spins: true });
  const version = () => at.host.find({ integration: "calendar", kind: "action", name: "it" })?.version;
  const before = version();
  await at.write("calendar/actions/it.ts", action("return 'changed';"));
  await expect.poll(version).not.toBe(before);
  const afterwards = startStopwatch();
  expect(output(await at.run("it"))).toBe("changed");
  expect(afterwards.ms).toBeLessThan(restMs);
});

it("removes a queued run whose caller has left, without delaying the next", async () => {
  const at = await resting();
  const leaving = new AbortController();
  const since = performance.now();
  const elapsed = startStopwatch();
  const left = [run(at, { spins: false }, leaving.signal), run(at, { spins: false }, leaving.signal)];
  const stays = run(at, { spins: false });
  leaving.abort();
  for (const one of left) expect(failure(await one)).toMatchObject({ code: "cancelled" });
  expect(elapsed.ms).toBeLessThan(restMs);
  expect((await stays).beganAt - since).toBeGreaterThan(restMs / 2);
});

it("gives the reason to a queued run that never started", async () => {
  const at = await resting();
  const late = await at.run("it", { input: { spins: false }, limits: { deadlineMs: 50 } });
  expect(failure(late)).toEqual({
    code: "deadline",
    message: "did not start within 50 ms; the script is throttled because it exceeded limits",
    stack: [],
  });
});
