import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { Scope } from "../../../src/gen/latchkey/v1/access_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { type ProxiedSidecar, startProvider, startProxied } from "../../support/peers/provider.ts";

/** A kept connection to the data listener, and the status of each response on it. */
async function openLine({ data }: ProxiedSidecar) {
  const { hostname, port } = new URL(data);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  let text = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => {
    text += chunk;
  });
  return async (...lines: readonly string[]): Promise<string> => {
    text = "";
    socket.write(["GET /proxy/x HTTP/1.1", "Host: localhost", ...lines, "", ""].join("\r\n"));
    while (!/\r\n\r\n.*\}$/s.test(text)) await sleep(5);
    return text.slice(9, 12);
  };
}

const here = ["Provider-Config-Key: here", "Connection-Id: ada"];

it("checks the key of every request, even after an identical one on the same connection", async () => {
  const provider = await startProvider();
  let now = Date.now();
  const running = await startProxied(provider.port, { now: () => now });
  const environments = running.client(EnvironmentService);
  const keyFor = (more: object) => environments.createKey({ environment: "dev", scopes: [Scope.PROXY], ...more });
  const [revoked, expiring, lasting] = await Promise.all([
    keyFor({}),
    keyFor({ expireTime: undefined, expiresAt: { seconds: BigInt(Math.floor(now / 1_000) + 60), nanos: 0 } }),
    keyFor({}),
  ]);
  const ask = await openLine(running);
  const as = ({ secret }: { readonly secret: string }) => ask(...here, `Authorization: Bearer ${secret}`);

  expect(await as(revoked)).toBe("200");
  expect(await as(revoked)).toBe("200");
  await environments.revokeKey({ id: revoked.key?.id ?? "" });
  expect(await as(revoked)).toBe("401");

  expect(await as(expiring)).toBe("200");
  now += 61_000;
  expect(await as(expiring)).toBe("401");

  expect(await as(lasting)).toBe("200");
  // A change of the key takes effect although earlier requests were allowed.
  expect(await ask(...here)).toBe("401");
  expect(await ask(...here, "Authorization: Bearer lk_other")).toBe("401");
  expect(await ask(...here, `Authorization: Bearer ${lasting.secret}`, "Latchkey-Key: lk_other")).toBe("401");
  expect(await as(lasting)).toBe("200");
});

it("counts the bytes of bodies both ways", async () => {
  const provider = await startProvider();
  const running = await startProxied(provider.port);
  const answer = await fetch(`${running.data}/proxy/x`, {
    method: "POST",
    body: "x".repeat(70_000),
    headers: running.proxyHeaders,
  });
  const { length } = await answer.text();
  expect(await running.metric('latchkey_proxy_bytes_total{direction="up"}')).toBe(70_000);
  expect(await running.metric('latchkey_proxy_bytes_total{direction="down"}')).toBe(length);
});
