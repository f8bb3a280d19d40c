import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { provider } from "../channels/channels.ts";
import { startScripted } from "./scripting.ts";

const action = (body: string) => `
  import { createAction } from "latchkey/scripts";
  export default createAction({ description: "", exec: async (nango: any) => { ${body} } });`;

async function limited(scripts: object) {
  const started = await startScripted(
    {
      "actions/speaks.ts": action(
        "for (let i = 0; i < 5; i += 1) await nango.log('line ' + i); return 'x'.repeat(3000);",
      ),
      "actions/waits.ts": action("await new Promise((resolve) => setTimeout(resolve, 60_000));"),
      "actions/spins.ts": action("for (;;);"),
      "actions/asks.ts": action("for (let i = 0; i < 3; i += 1) await nango.getMetadata();"),
      "actions/grows.ts": action("const all = []; for (;;) all.push(new Uint8Array(1_000_000).fill(1));"),
      "actions/fits.ts": action("return new Uint8Array(40_000_000).fill(1).length;"),
    },
    { settings: { scripts } },
  );
  await started.connect("ada");
  const client = started.sidecar.client(SyncService);
  const codeOf = async (name: string) => {
    // A failing action rejects its caller; its run records how it ended.
    await client.runAction({ connection: started.ref("ada"), name }).catch(() => undefined);
    const { runs } = await client.listRuns({ environment: "dev", script: name });
    return runs[0]?.problem?.code ?? "done";
  };
  return { codeOf };
}

it("ends scripts by the limits of the configuration file", async () => {
  const { codeOf } = await limited({
    ...{ deadline: "4s", busy: "300ms", memory_bytes: 33_554_432 },
    ...{ tool_calls: 2, output_bytes: 2_048, log_lines: 2 },
  });
  for (const [name, code] of [
    ["speaks", "output_too_large"],
    ["waits", "deadline"],
    ["spins", "busy"],
    ["asks", "tool_calls"],
    ["grows", "memory"],
    ["fits", "memory"],
  ] as const) {
    expect([name, await codeOf(name)]).toEqual([name, code]);
  }
});

it("reads files within the memory that the configuration file gives a run", async () => {
  const held = `const held = new Uint8Array(100_000_000).fill(1);
    import { createAction } from "latchkey/scripts";
    export default createAction({ description: "", exec: async () => held.length });`;
  const started = await startScripted(
    { "actions/held.ts": held },
    { settings: { scripts: { memory_bytes: 201_326_592 } } },
  );
  await started.connect("ada");
  const { run } = await started.sidecar.client(SyncService).runAction({ connection: started.ref("ada"), name: "held" });
  expect(run?.problem).toBeUndefined();
});

it("runs several threads if configured: a spinning script delays no other", async () => {
  const { codeOf } = await limited({ threads: 2, busy: "4s" });
  const order: string[] = [];
  const noted = (name: string) => codeOf(name).then((code) => void order.push(`${name} ${code}`));
  const spinning = noted("spins");
  await new Promise((resolve) => setTimeout(resolve, 500));
  await Promise.all([spinning, noted("fits")]);
  expect(order).toEqual(["fits done", "spins busy"]);
});

it("stops at once while many wait for their turn", async () => {
  const sync = `
    import { createSync } from "latchkey/scripts";
    export default createSync({ description: "", frequency: "1d", exec: async () => {} });`;
  const { sidecar } = await startScripted({ "syncs/rests.ts": sync });
  const connections = Array.from({ length: 2_000 }, (_, i) =>
    create(ConnectionImportSchema, {
      ...{ environment: "dev", integration: provider, id: `c${i}` },
      credentials: { kind: { case: "oauth2", value: { accessToken: `token-${i}` } } },
    }),
  );
  for (let at = 0; at < connections.length; at += 500) {
    const some = connections.slice(at, at + 500);
    await sidecar.client(ConnectionService).batchImportConnections({ connections: some });
  }
  const ended = async () => (await sidecar.metric('latchkey_runs_total{kind="sync",outcome="succeeded"}')) ?? 0;
  await expect.poll(ended, { interval: 20 }).toBeGreaterThan(0);
  await sidecar.stop();
  // Runs in progress end, and those that wait are not started.
  expect(await ended()).toBeLessThan(connections.length / 2);
});
