import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { parseConfig } from "../../src/config/config.ts";
import { sealKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { kubernetes, render } from "./manifests.ts";
import { mistakesIn } from "./schemas.ts";

it("adds service accounts as identities to the overlay standalone", async () => {
  const folder = await temporaryFolder();
  const from = (path: string) => relative(folder, join(kubernetes, path));
  const text = `resources: [${from("overlays/standalone")}]\ncomponents: [${from("identity")}]\n`;
  await writeFile(join(folder, "kustomization.yaml"), text);
  const all = render(folder);
  const client = parse(readFileSync(join(kubernetes, "identity/client.yaml"), "utf8"));
  for (const manifest of [...all.filter(({ kind }) => kind === "StatefulSet"), client]) {
    expect(await mistakesIn(manifest)).toEqual([]);
  }
  const { data } = all.find(({ metadata }) => metadata.name === "latchkey-config");
  const files: Readonly<Record<string, string>> = {
    "/latchkey.yaml": data["latchkey.yaml"],
    "/run/kubernetes/ca.crt": "-----BEGIN CERTIFICATE-----",
  };
  const read = (path: string) => ({ text: files[path] ?? "", mode: 0o400 });
  const env = { LATCHKEY_CONFIG: "/latchkey.yaml", LATCHKEY_SEAL_KEYS: sealKey };
  const { identities } = parseConfig({ env, files: { read } });
  const [issuer] = identities.issuers;
  const [projected] = client.spec.template.spec.volumes;
  expect(issuer?.audience).toBe(projected.projected.sources[0].serviceAccountToken.audience);
  expect(identities.grants).toMatchObject([{ subject: { account: { name: "your-service" } }, environment: "prod" }]);
  const { spec } = all.find(({ kind }) => kind === "StatefulSet").spec.template;
  const mounts = spec.containers[0].volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
  expect(mounts).toContain("/run/kubernetes");
});
