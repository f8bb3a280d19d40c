import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, it } from "vitest";
import { ChannelService } from "../../../../src/gen/latchkey/v1/channel_pb.ts";
import { adminKey, temporaryFolder } from "../../../support/sidecar/harness.ts";
import { serveInProcess } from "../../../support/sidecar/process.ts";
import { State } from "../channels.ts";
import { kinds, startKinds } from "./kinds.ts";

/** Holds the answer long enough for the process to be killed first. */
const holdMs = 5_000;

it.each([
  ["a creation", "watch", "create"],
  ["a renewal", "renew", "renew"],
] as const)(
  "killed after the provider acted on %s: one channel is left, and it is known",
  async (_, endpoint, verb) => {
    const kind = kinds.find(({ provider }) => provider === "microsoft");
    if (kind === undefined) throw new Error("there is no such kind");
    const folder = join(await temporaryFolder(), "store");
    await mkdir(folder);
    const world = await startKinds(["microsoft"], { folder });
    const { sandbox, clock, rpc } = world;
    await world.integrate(kind);
    await world.connect(kind, "c0");
    const connection = world.ref(kind, "c0");
    if (verb === "renew") await rpc().createChannel({ connection });
    await world.sidecar.stop();

    const config = join(await temporaryFolder(), "latchkey.yaml");
    await writeFile(config, world.file);
    const child = await serveInProcess({ folder, env: { ...world.env, LATCHKEY_CONFIG: config } });
    const transport = createGrpcTransport({
      baseUrl: child.address("control"),
      interceptors: [
        (next) => (request) => {
          request.header.set("authorization", `Bearer ${adminKey}`);
          return next(request);
        },
      ],
    });
    const client = createClient(ChannelService, transport);
    const [known] = (await client.listChannels({ environment: "dev" })).channels;
    sandbox.behave({ answers: { [endpoint]: [{ kind: "ordinary", holdMs, times: 1 }] } });
    const before = sandbox.seen().requests[endpoint] ?? 0;
    const asked =
      verb === "create"
        ? client.createChannel({ connection })
        : client.renewChannel({ environment: "dev", id: known?.id ?? "" });
    const gone = expect(asked).rejects.toThrow();
    await expect.poll(() => sandbox.seen().requests[endpoint], { interval: 5 }).toBe(before + 1);
    await expect.poll(() => sandbox.subscriptions.live().length, { interval: 5 }).toBe(1);
    child.child.kill("SIGKILL");
    await child.exited;
    await gone;

    sandbox.behave({ answers: { [endpoint]: [] } });
    const again = await world.start(folder);
    // The killed process used its own clock, which is slightly ahead.
    for (const ms of [70_000, 3_600_000]) {
      clock.pass(ms);
      await again.sidecar.broker.keepChannels();
    }
    const { channels } = await again.client(ChannelService).listChannels({ environment: "dev" });
    const wanted: readonly State[] = [State.ACTIVE, State.RENEWING, State.CREATING];
    const current = channels.filter(({ state }) => wanted.includes(state));
    const [live, ...others] = sandbox.subscriptions.live();
    expect(others).toEqual([]);
    // A channel that was requested by a call, and not to be kept, is gone; any other is known.
    if (verb === "renew") expect(current.map(({ providerId }) => providerId)).toEqual([live?.id]);
    else expect(current.map(({ providerId }) => providerId)).toEqual(live === undefined ? [] : [live.id]);
  },
);
