import { describe, expect, it } from "vitest";
import type { Misstep } from "../../../../src/dev/sandbox/behaviour.ts";
import { seeded } from "../../../support/runner/seeded.ts";
import { hourMs, State } from "../channels.ts";
import { kinds, startKinds } from "./kinds.ts";

/** The number of lives of each kind. More: `CHANNEL_LIVES=200`. */
const lives = Number(process.env["CHANNEL_LIVES"] ?? 8);
const connections = 4;
const stepsPerLife = 6;
const endless = 24 * hourMs;
/** A failed request is tried again within a fiftieth of a life: the scheduler looks after each of these parts of a step. */
const shares = [1 / stepsPerLife - 0.06, 0.02, 0.02, 0.02];

/** Fails one call in twenty, in one of several ways. */
function fateOf(random: () => number): Misstep {
  if (random() >= 0.05) return { kind: "ordinary" };
  const fate = random();
  const error = { kind: "error" as const, description: "", headers: {} };
  if (fate < 0.3) return { ...error, status: 503, error: "backendError" };
  if (fate < 0.5) return { ...error, status: 429, error: "rateLimitExceeded" };
  return { kind: fate < 0.75 ? "drop-answer" : "reset-after-reading" };
}

const endpoints = ["watch", "renew", "stop", "list"] as const;

describe("channels of the catalogue, at a provider that fails one call in twenty", () => {
  it.each(kinds.map((kind) => [`${kind.provider} ${kind.resourceKind}`, kind] as const))(
    "live without a gap that is not told, and leave no orphan: %s",
    { timeout: 600_000 },
    async (_, kind) => {
      const world = await startKinds([kind.provider]);
      const { sandbox, clock, keep, rpc } = world;
      const random = seeded(11);
      const row = () => Array.from({ length: 40 }, () => ({ ...fateOf(random), times: 1 }));
      await world.integrate(kind, kind.provider === "strava" ? { channels: { automatic: true } } : {});
      const isOfApp = kind.provider === "strava";
      const resources = kind.resources.length === 0 ? [""] : kind.resources;
      const ids = Array.from({ length: connections }, (_, i) => `c${i}`);
      for (const id of ids) {
        await world.connect(kind, id);
        if (isOfApp) continue;
        for (const named of resources) {
          const resource = kind.isShared ? `${named}${id}` : named;
          await rpc().createChannel({ connection: world.ref(kind, id), resourceKind: kind.resourceKind, resource });
        }
      }
      const settle = async () => {
        await keep();
        await sandbox.subscriptions.settled();
        await keep();
      };
      await settle();
      const wanted = isOfApp ? 1 : connections * resources.length;
      const live = () => sandbox.subscriptions.live();
      expect(live()).toHaveLength(wanted);

      // A channel without an end lives until it is stopped; then it is created again.
      const isRestarted = kind.lifeMs === undefined && kind.provider !== "asana";
      const restart = async (isEnd: boolean) => {
        for (const id of isOfApp ? ids.slice(0, 1) : ids) {
          const own = (await world.channels(kind.provider)).filter(
            ({ connection }) => isOfApp || connection?.id === id,
          );
          const current = own.find(({ state }) => state === State.ACTIVE);
          const isWanted = current !== undefined || own.some(({ state }) => state === State.CREATING);
          if (isEnd && current !== undefined) await rpc().stopChannel({ environment: "dev", id: current.id });
          // A failure is told to the caller, who tries again.
          if (isEnd || !isWanted)
            await rpc()
              .createChannel({ connection: world.ref(kind, id) })
              .catch(() => {});
        }
      };
      const steps = Math.ceil((lives / connections) * stepsPerLife);
      let missing = 0;
      let most = 0;
      for (let step = 0; step < steps; step += 1) {
        sandbox.behave({ answers: Object.fromEntries(endpoints.map((name) => [name, row()])) });
        // The provider ends one that has no end of its own, and says nothing.
        const [victim] = live();
        if (kind.provider === "asana" && step % stepsPerLife === 3 && victim !== undefined)
          sandbox.subscriptions.drop(victim.id);
        if (isRestarted) await restart(step % stepsPerLife === 3);
        for (const share of shares) {
          clock.pass((kind.lifeMs ?? endless) * share);
          if (!isRestarted) missing += wanted - slotsOf(live()).size;
          await settle();
          most = Math.max(most, ...slotsOf(live()).values());
        }
      }
      sandbox.behave({ answers: Object.fromEntries(endpoints.map((name) => [name, []])) });
      for (let hour = 0; hour < 30; hour += 1) {
        if (isRestarted) await restart(false);
        clock.pass((kind.lifeMs ?? endless) / 400);
        await settle();
      }
      // No orphan, and no connection without a channel.
      expect([...slotsOf(live()).values()]).toEqual(Array.from({ length: wanted }, () => 1));
      const channels = await world.channels(kind.provider);
      const current = channels.filter(({ state }) => state === State.ACTIVE || state === State.RENEWING);
      expect(current).toHaveLength(wanted);
      // One at a time, beyond the overlap with a successor, or with one whose response was lost.
      expect(most).toBeLessThanOrEqual(3);
      // Every gap is told: that a channel ended, or that its heartbeat stopped.
      const isGap = ({ operation, error }: { operation: string; error?: { type: string } }) =>
        operation === "expired" || error?.type === "no_heartbeat";
      const gaps = () => world.forwards("channel").filter(isGap).length;
      if (missing > 0) await expect.poll(gaps).toBeGreaterThan(0);
      const told = gaps();
      if (kind.provider !== "asana") expect(missing).toBeLessThanOrEqual(told);
      console.log({
        kind: kind.provider,
        of: kind.resourceKind,
        steps,
        missing,
        told,
        most,
        ...sandbox.seen().requests,
      });
    },
  );
});

/** The number of subscriptions of each resource of each account. */
function slotsOf(all: readonly { readonly owner: string; readonly resource: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { owner, resource } of all) {
    const slot = `${owner} ${resource}`;
    counts.set(slot, (counts.get(slot) ?? 0) + 1);
  }
  return counts;
}
