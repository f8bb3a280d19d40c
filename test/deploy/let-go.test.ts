import { readdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { secretKey, temporaryFolder } from "../support/sidecar/harness.ts";
import { launch } from "../support/sidecar/process.ts";
import { proxyHeaders } from "./load.ts";
import { fill, startSlowProvider } from "./slow-provider.ts";

const signal = "SIGUSR2";

it("frees the credentials of a deleted connection, however often callers used it", {
  timeout: 120_000,
}, async () => {
  const port = await startSlowProvider();
  const folder = await temporaryFolder();
  const running = launch(["serve"], {
    folder,
    env: {
      LATCHKEY_ALLOW_PRIVATE: `http://127.0.0.1:${port}`,
      NODE_OPTIONS: `--heapsnapshot-signal=${signal} --diagnostic-dir=${folder}`,
    },
  });
  onTestFinished(() => void running.child.kill("SIGKILL"));
  await running.says('"phase":"ready"');
  await fill({ running, port });
  const data = running.address("data");
  const lines = Object.entries(proxyHeaders).map(([name, value]) => `${name}: ${value}\r\n`);
  const caller = connect(Number(new URL(data).port), "127.0.0.1").resume();
  for (let asked = 0; asked < 6; asked += 1) {
    caller.write(`GET /proxy/soon HTTP/1.1\r\nHost: localhost\r\n${lines.join("")}\r\n`);
    await sleep(60);
  }
  caller.destroy();

  const pictures = () => readdir(folder).then((names) => names.filter((name) => name.endsWith(".heapsnapshot")));

  /** Waits for a snapshot that starts now, until it is complete. */
  async function picture(): Promise<string> {
    const before = await pictures();
    let text = "";
    await expect
      .poll(
        async () => {
          const [name] = (await pictures()).filter((one) => !before.includes(one));
          // A signal that arrives while another is handled is lost.
          if (name === undefined) running.child.kill(signal);
          else text = await readFile(join(folder, name), "utf8");
          return text.endsWith("]}");
        },
        { interval: 1_000, timeout: 40_000 },
      )
      .toBe(true);
    return text;
  }

  expect((await picture()).includes("key-of-ada")).toBe(true);
  const deleted = await fetch(`${data}/connections/ada?provider_config_key=here`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${secretKey}` },
  });
  expect(deleted.ok).toBe(true);
  await sleep(2_000);
  expect((await picture()).includes("key-of-ada")).toBe(false);
});
