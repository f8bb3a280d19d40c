import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ConnectionImportSchema, ConnectionService } from "../../src/gen/latchkey/v1/connection_pb.ts";
import { dayMs, hourMs, provider, startWatching } from "./channels.ts";

const days = Number(process.env["CHANNEL_DAYS"] ?? 30);
const many = Number(process.env["CHANNEL_CONNECTIONS"] ?? 40);

it(`lives through ${days} days with ${many} connections and a provider that fails 2 % of calls, and nobody is without a channel`, {
  timeout: 1_200_000,
}, async () => {
  let failing = 0;
  const watching = await startWatching({ automatic: true });
  const { sandbox, clock, keep, live, requests, sidecar } = watching;
  sandbox.behave({ accessTokenLifetimeS: 400 * 86_400, maxRefreshTokens: 1_000 });
  const { access_token, refresh_token } = sandbox.grant();
  const connections = Array.from({ length: many }, (_, i) =>
    create(ConnectionImportSchema, {
      environment: "dev",
      integration: provider,
      id: `c${i}`,
      credentials: { kind: { case: "oauth2", value: { accessToken: access_token, refreshToken: refresh_token } } },
    }),
  );
  await sidecar.client(ConnectionService).batchImportConnections({ connections });
  await keep();
  expect(live()).toHaveLength(many);
  let without = 0;
  let most = 0;
  const random = dice(7);
  /** One call in fifty, of either kind, in one way or another. */
  const misbehave = () => {
    const row = (length: number) =>
      Array.from({ length }, () => {
        if (random() >= 0.02) return { kind: "ordinary" as const, times: 1 };
        failing += 1;
        const fate = random();
        if (fate < 0.4) return { kind: "error" as const, status: 503, error: "backendError", times: 1 };
        if (fate < 0.7) return { kind: "error" as const, status: 429, error: "rateLimitExceeded", times: 1 };
        return { kind: "drop-answer" as const, times: 1 };
      });
    sandbox.behave({ answers: { watch: row(200), stop: row(200) } });
  };
  /** By their connections: one each. */
  async function currents(): Promise<readonly string[]> {
    const { channels } = await watching.rpc().listChannels({ environment: "dev", states: [2, 3], pageSize: 1_000 });
    return [...new Map(channels.map(({ connection, id }) => [connection?.id, id])).values()];
  }
  const hours = days * 24;
  for (let hour = 0; hour < hours; hour += 2) {
    misbehave();
    // A provider that is away for half a day, once a fortnight: less than the margin.
    if (hour % 336 >= 324) {
      sandbox.behave({ answers: { watch: [{ kind: "error", status: 503, error: "backendError" }] } });
    }
    clock.pass(2 * hourMs);
    await keep();
    const alive = new Set(live().map(({ id }) => id));
    without += many - (await currents()).filter((id) => alive.has(id)).length;
    most = Math.max(most, alive.size);
  }
  expect(without).toBe(0);
  expect(await sidecar.metric('latchkey_channel_alerts_total{kind="expired"}')).toBeUndefined();
  const made = (await sidecar.metric('latchkey_channel_watches_total{outcome="made"}')) ?? 0;
  const away = Math.floor(hours / 336);
  const planned = many * (1 + (days * dayMs) / (0.8 * 7 * dayMs));
  console.log({
    days,
    many,
    made,
    planned,
    watches: requests("watch"),
    stops: requests("stop"),
    failing,
    most,
    away,
    without,
  });
  expect(made).toBeLessThanOrEqual(planned * 1.1);
  if (away === 0) expect(requests("watch")).toBeLessThanOrEqual(planned * 1.1);
});

function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
