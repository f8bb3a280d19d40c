import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { expect, it } from "vitest";
import type { BehaviourChange } from "../../../src/dev/sandbox/behaviour.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { adminKey, temporaryFolder } from "../../support/sidecar/harness.ts";
import { serveInProcess } from "../../support/sidecar/process.ts";
import { provider, State, startWatching } from "./channels.ts";

/** Holds the answer long enough for the process to be killed first. */
const holdMs = 5_000;

/**
 * For each moment: the change, how the provider treats the request that the crash interrupts, and its channels then.
 */
const moments: readonly (readonly [string, "create" | "renew", BehaviourChange["answers"], number])[] = [
  ["before a first watch was acted on", "create", { watch: [{ kind: "ordinary", delayMs: holdMs, times: 1 }] }, 0],
  [
    "after a first watch 200, before it is written down",
    "create",
    { watch: [{ kind: "ordinary", holdMs, times: 1 }] },
    1,
  ],
  [
    "after a renewal's watch 200, before it is written down",
    "renew",
    { watch: [{ kind: "ordinary", holdMs, times: 1 }] },
    2,
  ],
  ["after the stop of what was renewed", "renew", { stop: [{ kind: "ordinary", holdMs, times: 1 }] }, 1],
];

it.each(moments)(
  "C05 killed %s: one live channel is known in the end, and no other lives",
  async (_, verb, answers, left) => {
    const folder = join(await temporaryFolder(), "store");
    await mkdir(folder);
    // A store with a connection in it, and for a renewal with its channel.
    const watching = await startWatching({ folder });
    const { sandbox, connect, rpc, requests, live, clock } = watching;
    await connect("ada");
    const connection = watching.ref("ada");
    if (verb === "renew") await rpc().createChannel({ connection });
    await watching.sidecar.stop();

    const config = join(await temporaryFolder(), "latchkey.yaml");
    await writeFile(config, watching.file);
    const child = await serveInProcess({ folder, env: { ...watching.env, LATCHKEY_CONFIG: config } });
    const client = createClient(
      ChannelService,
      createGrpcTransport({
        baseUrl: child.address("control"),
        interceptors: [
          (next) => (request) => {
            request.header.set("authorization", `Bearer ${adminKey}`);
            return next(request);
          },
        ],
      }),
    );
    const [known] = (await client.listChannels({ environment: "dev" })).channels;
    sandbox.behave({ answers: answers ?? {} });
    const endpoint = answers?.stop === undefined ? "watch" : "stop";
    const before = requests(endpoint);
    const asked =
      verb === "create"
        ? client.createChannel({ connection })
        : client.renewChannel({ environment: "dev", id: known?.id ?? "" });
    const gone = expect(asked).rejects.toThrow();
    await expect.poll(() => requests(endpoint), { interval: 5 }).toBe(before + 1);
    await expect.poll(() => live().length, { interval: 5 }).toBe(left);
    child.child.kill("SIGKILL");
    await child.exited;
    await gone;

    sandbox.behave({ answers: { watch: [], stop: [] } });
    await watching.restart();
    // The killed process used its own clock, which is slightly ahead.
    clock.pass(70_000);
    await watching.keep();
    clock.pass(3_600_000);
    await watching.keep();
    const current = await watching.channels([State.ACTIVE, State.RENEWING, State.CREATING]);
    expect(current).toHaveLength(1);
    expect(live().map(({ id }) => id)).toEqual([current[0]?.id]);
    expect((await watching.metadata("ada")).calendarChannelId).toBe(current[0]?.id);
    expect(provider).toBe(current[0]?.connection?.integration);
    expect((await watching.channels([State.STOPPING])).length).toBe(0);
  },
);
