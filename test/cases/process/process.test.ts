import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, it } from "vitest";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { secretKey, startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { launch, type Running, serveInProcess } from "../../support/sidecar/process.ts";

/** Sends the first half of a request, and waits until it has arrived. */
async function beginRequest(running: Running) {
  const socket = connect(Number(new URL(running.address("data")).port), "127.0.0.1");
  await once(socket, "connect");
  // A request that is cut off ends in a reset.
  socket.on("error", () => {});
  const body = '{"unique_key":"late","provider":"calendar"}';
  const head = [
    "POST /integrations HTTP/1.1",
    "host: localhost",
    `authorization: Bearer ${secretKey}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${body.slice(0, 10)}`);
  const metrics = `${running.address("ops")}/metrics`;
  await expect.poll(async () => (await fetch(metrics)).text()).toMatch(/requests_open\{door="data"\} 1/);
  return { socket, rest: body.slice(10) };
}

it("K07 logs a caller's text on one line, whatever it contains", async () => {
  const folder = await temporaryFolder();
  const running = await serveInProcess({ folder, env: { LATCHKEY_LOG_LEVEL: "debug" } });
  const id = encodeURIComponent('\u001b[31mred\n{"level":"fatal"}');
  await fetch(`${running.address("data")}/connections/${id}?provider_config_key=${id}`, {
    headers: { authorization: `Bearer ${secretKey}` },
  });
  running.child.kill("SIGTERM");
  await running.exited;
  const lines = running.stdout().trim().split("\n");
  for (const line of lines) expect(() => JSON.parse(line)).not.toThrow();
  expect(running.stdout()).not.toContain("\u001b");
  expect(lines.some((line) => (JSON.parse(line) as { level: string }).level === "fatal")).toBe(false);
});

it.each(["SIGTERM", "SIGINT"] as const)("K10 finishes requests in progress and exits 0 on %s", async (signal) => {
  const running = await serveInProcess({ folder: await temporaryFolder() });
  const { socket, rest } = await beginRequest(running);
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk;
  });
  running.child.kill(signal);
  await running.says("draining");
  socket.write(rest);
  expect(await running.exited).toBe(0);
  expect(answer).toMatch(/^HTTP\/1\.1 200 /);
});

it("keeps serving, counts lost log lines and stops in order without a log reader", async () => {
  const folder = await temporaryFolder();
  const file = join(folder, "latchkey.yaml");
  await writeFile(file, "{}\n");
  const running = await serveInProcess({ folder, env: { LATCHKEY_CONFIG: file } });
  const metrics = async () => (await fetch(`${running.address("ops")}/metrics`)).text();
  running.child.stdout?.destroy();
  await writeFile(file, "nonsense: true\n");
  running.child.kill("SIGHUP");
  await expect.poll(metrics).toMatch(/^latchkey_log_lines_lost_total [1-9]/m);
  expect(await metrics()).toMatch(/^latchkey_unhandled_errors_total 0$/m);
  expect((await fetch(`${running.address("data")}/health`)).status).toBe(200);
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(0);
  expect(running.stderr()).toBe("");
});

it("K10 does not wait for a connection without a request", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder(), env: { LATCHKEY_GRACE: "20s" } });
  const spare = connect(Number(new URL(running.address("data")).port), "127.0.0.1");
  await once(spare, "connect");
  spare.on("error", () => {});
  // The process itself has accepted it, and not only the kernel.
  await fetch(`${running.address("data")}/health`);
  const elapsed = startStopwatch();
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(0);
  expect(elapsed.ms).toBeLessThan(10_000);
});

it("K10 ends at once on a second SIGTERM", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder(), env: { LATCHKEY_GRACE: "60s" } });
  await beginRequest(running);
  running.child.kill("SIGTERM");
  await running.says("draining");
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(143);
});

it("K10 cuts off what outlives the grace period, and exits 0", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder(), env: { LATCHKEY_GRACE: "300ms" } });
  await beginRequest(running);
  running.child.kill("SIGTERM");
  expect(await running.exited).toBe(0);
  expect(running.stdout()).toMatch(/the grace period is over/);
});

it("K10 survives SIGHUP, and the close of its output pipe", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder() });
  const alive = async () => (await fetch(`${running.address("ops")}/livez`)).status;
  running.child.kill("SIGHUP");
  running.child.kill("SIGPIPE");
  expect(await alive()).toBe(200);
  expect(running.child.exitCode).toBeNull();
});

it.each([
  ["a rejection", "Promise.reject(new Error('nobody caught this'))", "rejection"],
  ["an exception", "throw new Error('nobody caught this')", "exception"],
] as const)("K11 logs and counts %s that no code caught", async (_what, statement, kind) => {
  const folder = await temporaryFolder();
  const hook = join(folder, "hook.mjs");
  // A defect in any room ends up here: it is raised from outside of every request, on a signal that nothing else uses.
  await writeFile(hook, `process.on("SIGUSR2", () => setImmediate(() => { ${statement} }));\n`);
  const running = await serveInProcess({ folder: join(folder, "data"), env: { NODE_OPTIONS: `--import=${hook}` } });
  running.child.kill("SIGUSR2");
  await running.says("unhandled error");
  expect(running.stdout()).toMatch(new RegExp(`"kind":"${kind}"`));
  if (kind === "exception") {
    // After an uncaught exception the state of the process is unknown.
    expect(await running.exited).toBe(70);
    return;
  }
  const metrics = await (await fetch(`${running.address("ops")}/metrics`)).text();
  expect(metrics).toMatch(/^latchkey_unhandled_errors_total 1$/m);
  expect(running.child.exitCode).toBeNull();
});

it("refuses to start on a port in use, and names it", async () => {
  const { data } = await startTestSidecar();
  const running = launch(["serve"], {
    folder: await temporaryFolder(),
    env: { LATCHKEY_DATA_LISTEN: new URL(data).host },
  });
  expect(await running.exited).toBe(1);
  expect(running.stdout()).toMatch(/the data listener cannot use 127\.0\.0\.1:\d+/);
});

it("answers probes from the start, and is not ready while it drains", async () => {
  const running = await serveInProcess({ folder: await temporaryFolder(), env: { LATCHKEY_GRACE: "5s" } });
  const probe = async (path: string) => (await fetch(`${running.address("ops")}${path}`)).status;
  expect(await Promise.all(["/livez", "/startupz", "/readyz"].map(probe))).toEqual([200, 200, 200]);
  const { socket } = await beginRequest(running);
  running.child.kill("SIGTERM");
  await running.says("draining");
  expect(await Promise.all(["/livez", "/readyz"].map(probe))).toEqual([200, 503]);
  socket.destroy();
  expect(await running.exited).toBe(0);
});
