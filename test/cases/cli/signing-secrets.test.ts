import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import {
  EnvironmentService,
  type ListSigningSecretsRequest,
  type RotateSigningSecretRequest,
} from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { fakeControl } from "./fake-control.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const at = (ms: number) => timestampFromMs(Date.parse("2026-01-01T00:00:00Z") + ms);
const [newest, former] = ["whsec_newest-of-all", "whsec_the-former-one"];

/** A control plane with two secrets, which also sends a rotated secret that was not requested. */
async function control() {
  const listed: ListSigningSecretsRequest[] = [];
  const rotated: RotateSigningSecretRequest[] = [];
  const { address } = await fakeControl((router) =>
    router.service(EnvironmentService, {
      listSigningSecrets(request) {
        listed.push(request);
        const secret = (text: string) => (request.reveal ? text : "");
        return {
          secrets: [
            { id: "two", secret: secret(newest), createdAt: at(1_000) },
            { id: "one", secret: secret(former), createdAt: at(0), retiresAt: at(86_401_000) },
          ],
        };
      },
      rotateSigningSecret(request) {
        rotated.push(request);
        return { secret: { id: "three", secret: newest, createdAt: at(2_000) } };
      },
    }),
  );
  async function run(...argv: readonly string[]) {
    const terminal = memoryTerminal();
    const code = await runCli(["environments", ...argv, "--address", address], terminal, []);
    return { code, out: terminal.out(), err: terminal.err() };
  }
  return { run, listed, rotated };
}

it("lists signing secrets, and shows their values only on request", async () => {
  const { run, listed } = await control();
  expect((await run("secrets", "prod")).out).toBe(
    [
      "ID   CREATED               SIGNS UNTIL",
      "two  2026-01-01T00:00:01Z  -",
      "one  2026-01-01T00:00:00Z  2026-01-02T00:00:01Z",
      "",
    ].join("\n"),
  );
  const { out } = await run("secrets", "--reveal", "--environment", "dev");
  expect(out).toMatch(/^ID +CREATED +SIGNS UNTIL +SECRET\n/);
  expect(out).toContain(newest);
  expect(out).toContain(former);
  expect((await run("secrets", "--json")).out).not.toContain("whsec_");
  expect((await run("secrets", "--json", "--reveal")).out.split("\n")[0]).toBe(
    `{"id":"two","secret":"${newest}","created_at":"2026-01-01T00:00:01Z"}`,
  );
  expect(listed.map(({ environment, reveal }) => [environment, reveal])).toEqual([
    ["prod", false],
    ["dev", true],
    ["", false],
    ["", true],
  ]);
});

it("rotates, with an optional overlap, and prints the new secret only on request", async () => {
  const { run, rotated } = await control();
  const blind = await run("rotate-secret", "prod");
  expect(blind.out).toBe("id: three\ncreated_at: 2026-01-01T00:00:02Z\n");
  expect(blind.err).toContain("environments secrets --reveal");
  expect(await run("rotate-secret", "--overlap", "90m", "--json")).toEqual({
    code: 0,
    out: '{"id":"three","created_at":"2026-01-01T00:00:02Z"}\n',
    err: "",
  });
  const shown = await run("rotate-secret", "--overlap", "0s", "--reveal", "--environment", "dev");
  expect(shown.out).toContain(`secret: ${newest}\n`);
  expect(shown.err).toBe("");
  expect(rotated.map(({ environment, overlap }) => [environment, overlap?.seconds])).toEqual([
    ["prod", undefined],
    ["", 5_400n],
    ["dev", 0n],
  ]);
});

it("refuses an overlap that is not a duration, and rotates nothing", async () => {
  const { run, rotated } = await control();
  const { code, err } = await run("rotate-secret", "--overlap", "soon");
  expect(code).toBe(2);
  expect(err).toContain("--overlap");
  expect(rotated).toEqual([]);
});
