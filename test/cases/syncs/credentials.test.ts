import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { writeScripts } from "./scripting.ts";

const look = {
  "actions/look.ts": `
import { createAction } from "latchkey/scripts";
import * as z from "zod";
export default createAction({
  description: "Looks at what there is to see.",
  output: z.object({ credentials: z.any() }),
  exec: async (nango) => ({ credentials: (await nango.getConnection()).credentials ?? null }),
});
`,
};

const file = `
environments: [{ name: prod }]
integrations:
  - { environment: prod, key: open, provider: github, credentials_in_scripts: true }
  - { environment: prod, key: closed, provider: github }
`;

it("shows credentials to scripts only of the integrations that the configuration file names", async () => {
  const folder = await temporaryFolder();
  for (const integration of ["open", "closed"]) writeScripts(folder, look, integration);
  const { client } = await startTestSidecar({
    env: { LATCHKEY_CONFIG: "/latchkey.yaml", LATCHKEY_SCRIPTS: folder },
    files: { "/latchkey.yaml": file },
  });
  const seenBy = async (integration: string) => {
    const ref = { environment: "prod", integration, id: "ada" };
    const credentials = { kind: { case: "oauth2" as const, value: { accessToken: `token-of-${integration}` } } };
    await client(ConnectionService).importConnection({ connection: { ...ref, credentials } });
    const { run } = await client(SyncService).runAction({ connection: ref, name: "look" });
    return JSON.stringify(run?.output);
  };
  expect(await seenBy("open")).toContain("token-of-open");
  expect(await seenBy("closed")).not.toContain("token-of-closed");
  const shown = await client(IntegrationService).getIntegration({ environment: "prod", key: "open" });
  expect(shown.integration?.credentialsInScripts).toBe(true);
});
