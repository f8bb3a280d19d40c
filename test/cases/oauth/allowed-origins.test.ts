import { once } from "node:events";
import { expect, it } from "vitest";
import { WebSocket } from "ws";
import { ConfigMistakes, parseConfig } from "../../../src/config/config.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { connecting, departure } from "../../support/sidecar/connecting.ts";
import {
  type HarnessOptions,
  startTestSidecar,
  temporaryFolder,
  testVariables,
} from "../../support/sidecar/harness.ts";

const [one, two] = ["https://one.example", "http://two.example:8080"] as const;

async function corsOf({ data, rest }: Awaited<ReturnType<typeof startTestSidecar>>, origin: string) {
  const { body } = await rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
  const headers = { origin, authorization: `Bearer ${body.data.token}` };
  const response = await fetch(`${data}/connect/session`, { headers });
  return response.headers.get("access-control-allow-origin");
}

it("allows the origins that a variable names", async () => {
  const running = await startTestSidecar({ env: { LATCHKEY_ALLOWED_ORIGINS: ` ${one} , ${two}` } });
  expect([await corsOf(running, one), await corsOf(running, two)]).toEqual([one, two]);
  expect(await corsOf(running, "https://three.example")).toBeNull();
});

it.each([
  "app.example.com",
  "https://app.example.com/",
  "https://*.example.com/x",
  "ftp://app.example",
  "null",
  ",",
  "*",
])("reports an invalid origin (%s) with every other mistake", (text) => {
  const env = { ...testVariables("/x"), LATCHKEY_ALLOWED_ORIGINS: text, LATCHKEY_GRACE: "soon" };
  const read = () => parseConfig({ env, files: { read: () => ({ text: "", mode: 0o600 }) } });
  expect(read).toThrow(ConfigMistakes);
  expect(read).toThrow(/LATCHKEY_ALLOWED_ORIGINS: .* must be an origin such as/);
  expect(read).toThrow(/LATCHKEY_GRACE/);
});

it("refuses a variable and a file that both name them", () => {
  const env = { ...testVariables("/x"), LATCHKEY_ALLOWED_ORIGINS: one, LATCHKEY_CONFIG: "/latchkey.yaml" };
  const text = JSON.stringify({ environments: [{ name: "dev", allowed_origins: [two] }] });
  expect(() => parseConfig({ env, files: { read: () => ({ text, mode: 0o600 }) } })).toThrow(
    'LATCHKEY_ALLOWED_ORIGINS and allowed_origins of the environment "dev" are both set',
  );
});

it("keeps what the API changed and the configuration does not set", async () => {
  const folder = await temporaryFolder();
  const start = (env: HarnessOptions["env"] = {}) => startTestSidecar({ folder, env });
  const forwards = { LATCHKEY_FORWARD_URL: "https://app.example/hooks" };
  const change = async (running: Awaited<ReturnType<typeof start>>, paths: string[]) =>
    (
      await running.client(EnvironmentService).updateEnvironment({
        environment: { name: "dev", allowedOrigins: [one], forwardUrl: "https://other.example" },
        updateMask: { paths },
      })
    ).environment;
  let running = await start(forwards);
  expect(await change(running, ["allowed_origins"])).toMatchObject({ allowedOrigins: [one], declared: true });
  await expect(change(running, ["forward_url"])).rejects.toThrow('forward_url of the environment "dev" is declared');
  expect(await corsOf(running, one)).toBe(one);
  await running.stop();
  // A restart changes nothing.
  running = await start(forwards);
  expect(await corsOf(running, one)).toBe(one);
  await running.stop();
  // The configuration's list applies, and is gone once the configuration has none.
  running = await start({ ...forwards, LATCHKEY_ALLOWED_ORIGINS: two });
  expect([await corsOf(running, one), await corsOf(running, two)]).toEqual([null, two]);
  await expect(change(running, ["allowed_origins"])).rejects.toThrow("allowed_origins of the environment");
  await running.stop();
  running = await start();
  const { environment } = await running.client(EnvironmentService).getEnvironment({ name: "dev" });
  expect([environment?.allowedOrigins, environment?.forwardUrl]).toEqual([[], ""]);
  expect(await change(running, ["forward_url"])).toMatchObject({ forwardUrl: "https://other.example" });
  await expect(running.client(EnvironmentService).deleteEnvironment({ name: "dev" })).rejects.toThrow("is declared");
});

it.each(["http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:3000"])(
  "allows a page of this machine (%s) in development only",
  async (origin) => {
    const all = await connecting();
    const base = all.sidecar.data.replace("http:", "ws:");
    expect(await corsOf(all.sidecar, origin)).toBeNull();
    expect((await all.browser().get(departure(all, await all.session(), { return_to: `${origin}/x` }))).status).toBe(
      400,
    );
    all.sidecar.sidecar.broker.origins.allowLocal();
    expect(await corsOf(all.sidecar, origin)).toBe(origin);
    const socket = new WebSocket(`${base}/`, { origin });
    await once(socket, "message");
    socket.terminate();
    const back = await all.browser().until(departure(all, await all.session(), { return_to: `${origin}/x` }), origin);
    expect(back).toContain(`${origin}/x?provider_config_key=sandbox-files`);
    for (const other of ["https://localhost:5173", "http://localhost.evil.test", "http://192.168.0.1:3000"]) {
      expect(await corsOf(all.sidecar, other)).toBeNull();
    }
  },
);
