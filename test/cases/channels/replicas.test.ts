import { create } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { type Postgres, startPostgres } from "../../support/postgres/postgres.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { dayMs, provider, State, startWatching } from "./channels.ts";

const many = 12;

describe.skipIf(lacks("postgres"))("replicas that keep channels over PostgreSQL", () => {
  let server: Postgres;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.stop());

  it("C12 renew each channel once, although both scan and both are called at once", async () => {
    const env = { LATCHKEY_STORE: server.storeUrl("channels") };
    const watching = await startWatching({ automatic: true, env });
    const { sandbox, clock, keep, live, requests, sidecar } = watching;
    const other = await watching.start();
    sandbox.behave({ accessTokenLifetimeS: 100 * 86_400, maxRefreshTokens: 100 });
    const { access_token, refresh_token } = sandbox.grant();
    const connections = Array.from({ length: many }, (_, i) =>
      create(ConnectionImportSchema, {
        ...{ environment: "dev", integration: provider, id: `c${i}` },
        credentials: { kind: { case: "oauth2", value: { accessToken: access_token, refreshToken: refresh_token } } },
      }),
    );
    await sidecar.client(ConnectionService).batchImportConnections({ connections });
    const both = () => Promise.all([keep(), other.sidecar.broker.keepChannels()]);
    await both();
    // The housekeeping of the replica that holds the lease does it.
    await expect.poll(() => live().length).toBe(many);
    expect(requests("watch")).toBe(many);
    const first = await watching.channels([State.ACTIVE]);

    sandbox.behave({ answers: { watch: [{ kind: "ordinary", holdMs: 100 }] } });
    clock.pass(6 * dayMs);
    const asked = first.flatMap(({ id }) =>
      [sidecar, other].map((replica) => replica.client(ChannelService).renewChannel({ environment: "dev", id })),
    );
    const outcomes = await Promise.allSettled([both(), both(), ...asked]);
    expect(outcomes.slice(0, 2).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
    await expect
      .poll(async () => (await watching.channels([State.STOPPING, State.RENEWING, State.CREATING])).length, {
        timeout: 30_000,
      })
      .toBe(0);
    await both();
    expect(requests("watch")).toBe(2 * many);
    expect(requests("stop")).toBe(many);
    expect(live()).toHaveLength(many);
    const second = await watching.channels([State.ACTIVE]);
    expect(new Set(second.map(({ connection }) => connection?.id)).size).toBe(many);
    expect(second.map(({ previousId }) => previousId).sort()).toEqual(first.map(({ id }) => id).sort());
  });

  it("report a gap once for messages that both received", async () => {
    const env = { LATCHKEY_STORE: server.storeUrl("gaps") };
    const watching = await startWatching({ automatic: true, env });
    const { sandbox, clock, keep, sidecar, connect, forwards } = watching;
    const other = await watching.start();
    await connect("ada");
    const both = () => Promise.all([keep(), other.sidecar.broker.keepChannels()]);
    await both();
    await expect.poll(() => forwards("forward").length).toBe(1);
    const { address, token, id } = JSON.parse(String(sandbox.seen().last.watch?.[0]?.body));
    const { pathname } = new URL(address);
    const notify = async (number: number) => {
      const headers = { "x-cal-channel-id": id, "x-cal-channel-token": token, "x-cal-message-number": String(number) };
      const to = number % 2 === 0 ? sidecar : other;
      expect((await fetch(`${to.data}${pathname}`, { method: "POST", headers })).status).toBe(200);
    };
    const numbers = Array.from({ length: 40 }, (_, i) => i + 2).sort((a, b) => ((a * 17) % 41) - ((b * 17) % 41));
    await Promise.all(numbers.map(notify));
    const looks = async () => {
      await both();
      clock.pass(6 * 60_000);
      await both();
    };
    await looks();
    await looks();
    expect(forwards("channel")).toEqual([]);
    await Promise.all([43, 44, 46].map(notify));
    await looks();
    await looks();
    await expect.poll(() => forwards("channel").map(({ operation }) => operation)).toEqual(["gap"]);
    await looks();
    expect(forwards("channel")).toHaveLength(1);
  });
});
