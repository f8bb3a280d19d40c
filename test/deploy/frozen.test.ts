import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../support/sidecar/harness.ts";
import { launch } from "../support/sidecar/process.ts";
import { call } from "../support/wire/proxy-call.ts";
import { proxyHeaders } from "./load.ts";
import { fill, startSlowProvider } from "./slow-provider.ts";

/** Longer than a head, or a connection to a provider, may take. */
const frozenMs = 11_500;

it("answers requests that arrived or were in progress while it was frozen", async () => {
  const port = await startSlowProvider(500);
  const running = launch(["serve"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}` },
  });
  onTestFinished(() => void running.child.kill("SIGKILL"));
  await running.says('"phase":"ready"');
  await fill({ running, port });
  const ask = () => call(`${running.address("data")}/proxy/soon`, { headers: proxyHeaders });
  expect((await ask()).status).toBe(200);
  const underWay = ask();
  const silent = connect(Number(new URL(running.address("data")).port), "127.0.0.1");
  onTestFinished(() => void silent.destroy());
  await once(silent, "connect");
  await sleep(100);
  running.child.kill("SIGSTOP");
  const came = [ask(), ask()];
  const lines = Object.entries(proxyHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
  silent.write(`GET /proxy/soon HTTP/1.1\r\nHost: localhost\r\n${lines.join("")}\r\n`);
  await sleep(frozenMs);
  running.child.kill("SIGCONT");
  const [heard] = await once(silent, "data");
  expect(String(heard)).toMatch(/^HTTP\/1\.1 200 /);
  const answers = await Promise.all([underWay, ...came]);
  expect(answers.map(({ status, outcome }) => [status, outcome])).toEqual(answers.map(() => [200, "ended"]));
});
