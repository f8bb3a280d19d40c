import { expect, it } from "vitest";
import { head, say, statusOf } from "../../support/sidecar/door.ts";
import { startTestSidecar } from "../../support/sidecar/harness.ts";

const get = (path: string, ...lines: readonly string[]) => head(`GET ${path} HTTP/1.1`, ...lines);

it("serves metrics to hosts that are allowed and to addresses, which cannot be rebound", async () => {
  const { ops } = await startTestSidecar({ env: { LATCHKEY_PUBLIC_URL: "https://latchkey.example.com" } });
  for (const host of [
    "localhost:3005",
    "127.0.0.1",
    "[::1]:3005",
    // The Host that Prometheus sends, which finds pods by address.
    "10.1.2.3:3005",
    "[fd00::12]:3005",
    "latchkey.example.com",
  ]) {
    expect([host, statusOf(await say(ops, get("/metrics", `host: ${host}`)))]).toEqual([host, 200]);
  }
});

it.each([
  "evil.test",
  "evil.test:3005",
  "localhost.evil.test",
  "127.0.0.1.evil.test",
  "0.0.0.0:3005",
  "[::]:3005",
  "[0:0:0:0:0:0:0:0]:3005",
  "2130706433",
  "0x7f.1",
  "user@localhost",
  "",
])("serves no metrics to a request for the host %j, and probes to any", async (host) => {
  const running = await startTestSidecar();
  const { ops } = running;
  for (const path of ["/metrics", "/metrics?x=1"]) {
    const answer = await say(ops, get(path, `host: ${host}`));
    expect(statusOf(answer)).toBe(421);
    expect(answer).toContain("LATCHKEY_ALLOWED_HOSTS");
    expect(answer).not.toContain("latchkey_build_info");
  }
  for (const path of ["/livez", "/readyz", "/startupz"]) {
    expect([path, statusOf(await say(ops, get(path, `host: ${host}`)))]).toEqual([path, 200]);
  }
  expect(await running.metric('latchkey_refused_total{door="ops",reason="misdirected_request"}')).toBe(2);
  expect(running.logged.filter((line) => line.includes('"door":"ops","peer"'))).toHaveLength(1);
});

it("serves metrics to the hosts that the operator names, and to no page of another site", async () => {
  const { ops } = await startTestSidecar({ env: { LATCHKEY_ALLOWED_HOSTS: "latchkey-ops.monitoring.svc" } });
  const status = async (...lines: readonly string[]) => statusOf(await say(ops, get("/metrics", ...lines)));
  expect(await status("host: latchkey-ops.monitoring.svc:3005")).toBe(200);
  expect(await status("host: 10.1.2.3:3005")).toBe(200);
  expect(await status("host: localhost")).toBe(421);
  expect(await status("host: 127.0.0.1", "sec-fetch-site: cross-site")).toBe(403);
  expect(await status("host: 127.0.0.1", "origin: https://evil.test")).toBe(403);
  expect(await status("host: 127.0.0.1", "sec-fetch-site: none")).toBe(200);
});
