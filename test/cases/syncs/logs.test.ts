import { expect, it } from "vitest";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { startScripted } from "./scripting.ts";

it("shows the names, ids and versions of a run in its log, and no token that it never saw", async () => {
  const token = "sk9f8e7d6c5b4a3f2e1d0c";
  const user = "user-8f14e45fceea167a5a36";
  const started = await startScripted({
    "actions/fetch-2024-invoices-v2.ts": `
      import { createAction } from "latchkey/scripts";
      export default createAction({ description: "", exec: async (nango) => {
        await nango.log("for", nango.connectionId, "in", nango.activityLogId);
        await nango.log("with ${token}");
        throw new Error("not today");
      } });`,
  });
  await started.connect(user);
  const name = "fetch-2024-invoices-v2";
  const client = started.sidecar.client(SyncService);
  await expect(client.runAction({ connection: started.ref(user), name })).rejects.toThrow("not today");
  const { runs } = await client.listRuns({ environment: "dev", script: name });
  const [run] = runs;
  const { log } = await started.sidecar.client(LogService).getLog({ environment: "dev", id: run?.logId ?? "" });
  const [began, named, hidden, failed] = log?.lines ?? [];
  expect(began?.fields).toMatchObject({ script: "fetch-2024-invoices-v2", version: run?.version });
  expect(run?.version).toMatch(/^[0-9a-f]{16}$/);
  expect(named?.fields).toEqual({ message: `for ${user} in ${run?.id}` });
  expect(hidden?.fields).toEqual({ message: "with [redacted]" });
  expect(failed?.fields?.["stack"]).toMatch(/\/actions\/fetch-2024-invoices-v2\.ts:6:/);
  expect(JSON.stringify(log, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))).not.toContain(
    token,
  );
});
