import { mkdirSync, writeFileSync } from "node:fs";
import http, { type IncomingHttpHeaders } from "node:http";
import { join } from "node:path";
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { createDashboard } from "../../../src/control-plane/dashboard/dashboard.ts";
import { startTestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { openSession, streamed } from "../../support/wire/http2-call.ts";

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends the path as it is written. */
function get(url: string, headers: Record<string, string> = {}, method = "GET"): Promise<Got> {
  const [origin = "", host = "", port, path] = /^http:\/\/([^:/]+):(\d+)(.*)$/.exec(url) ?? [];
  if (origin === "") throw new Error(`${url} is no address`);
  return new Promise((resolve, reject) => {
    http
      .request({ host, port, path: path || "/", headers, method, agent: false }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(parts) }),
        );
      })
      .on("error", reject)
      .end();
  });
}

/** A server of these files alone, as the control port serves them. */
async function served(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, "dashboard/assets"), { recursive: true });
  writeFileSync(join(folder, "secret.txt"), "outside");
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, "dashboard", name);
    writeFileSync(path, text);
    writeFileSync(`${path}.gz`, gzipSync(text));
    writeFileSync(`${path}.br`, brotliCompressSync(text));
  }
  const { world } = await startTestSidecar();
  const handle = createDashboard({ world, folder: join(folder, "dashboard") });
  const server = http.createServer(handle).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return `http://127.0.0.1:${(server.address() as { port: number }).port}`;
}

it("serves its files in the best encoding, hashed ones for a year, and nothing outside its folder", async () => {
  const script = "assets/dashboard-X3FQ7A2B.js";
  const at = await served({ "index.html": "<!doctype html>", [script]: "run()", "icon.svg": "<svg/>" });

  const page = await get(`${at}/ui/`);
  expect(page.status).toBe(200);
  expect(page.body.toString()).toBe("<!doctype html>");
  expect(page.headers).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
  });
  const policy = String(page.headers["content-security-policy"]);
  expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self';");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toMatch(/unsafe|https?:|\*/);

  const [plain, gzip, brotli, refused] = await Promise.all([
    get(`${at}/ui/${script}`),
    get(`${at}/ui/${script}`, { "accept-encoding": "gzip, deflate" }),
    get(`${at}/ui/${script}`, { "accept-encoding": "gzip, deflate, br, zstd" }),
    get(`${at}/ui/${script}`, { "accept-encoding": "br;q=0, gzip;q=0.0" }),
  ]);
  expect(plain.headers["cache-control"]).toBe("public, max-age=31536000, immutable");
  expect([plain, gzip, brotli, refused].map(({ headers }) => headers["content-encoding"])).toEqual([
    ...[undefined, "gzip", "br", undefined],
  ]);
  expect(gunzipSync(gzip.body).toString()).toBe("run()");
  expect(brotliDecompressSync(brotli.body).toString()).toBe("run()");

  // Every other path is a page of the application; the history API wrote it.
  for (const path of ["connections", "connections/files/ada@example.com", "a/../../b", "sign-in?env=dev"]) {
    expect((await get(`${at}/ui/${path}`)).body.toString()).toBe("<!doctype html>");
  }
  for (const path of ["assets/../../secret.txt", "assets/%2e%2e/secret.txt", "assets/none-AAAAAAAA.js", "x.js"]) {
    expect(await get(`${at}/ui/${path}`).then(({ status }) => ({ path, status }))).toEqual({ path, status: 404 });
  }
  expect((await get(`${at}/ui`)).headers.location).toBe("/ui/");
  expect(await get(`${at}/ui/`, {}, "HEAD")).toMatchObject({ status: 200, body: Buffer.alloc(0) });
  expect((await get(`${at}/ui/`, {}, "PUT")).status).toBe(405);
});

it("is served over both protocols on the control port when it is on, and says how to build what is not built", async () => {
  const off = await startTestSidecar();
  expect((await get(`${off.control}/ui/`)).status).toBe(404);

  const on = await startTestSidecar({ env: { LATCHKEY_UI: "on" } });
  const { status, headers } = await get(`${on.control}/ui/`);
  expect([200, 503]).toContain(status);
  expect(headers["content-security-policy"]).toContain("default-src 'none'");
  const over2 = await streamed(await openSession(on.control), "/ui/");
  expect([over2.status, over2.headers["cache-control"]]).toEqual([status, "no-store"]);
  // A link on another site leads to the page; another site's script does not get at the calls.
  expect((await get(`${on.control}/ui/`, { "sec-fetch-site": "cross-site" })).status).toBe(status);
  expect((await get(`${on.control}/ui/`, { host: "rebound.example" })).status).toBe(421);
  expect((await get(on.control, {})).headers.location).toBe("/ui/");

  const apart = await startTestSidecar({ env: { LATCHKEY_UI_LISTEN: "127.0.0.1:0" } });
  expect((await get(`${apart.control}/ui/`)).status).toBe(404);
  expect((await get(`${apart.sidecar.addresses.ui}/ui/`)).status).toBe(status);
});
