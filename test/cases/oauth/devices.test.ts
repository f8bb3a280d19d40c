import { spawnSync } from "node:child_process";
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { expect, it, onTestFinished } from "vitest";
import { runCli } from "../../../src/cli/program.ts";
import { codeOf } from "../../../src/cli/terminal/failure.ts";
import {
  ConnectSessionService,
  DeviceAuthorization_State as State,
} from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { startPostgres } from "../../support/postgres/postgres.ts";
import { startStopwatch } from "../../support/runner/stopwatch.ts";
import { auditOf, type Connecting, connecting, departure, tokenCalls } from "../../support/sidecar/connecting.ts";
import { adminKey, startTestSidecar, type TestSidecar, temporaryFolder } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { memoryTerminal } from "../cli/memory-terminal.ts";

/** Devices poll once a second, to keep the tests short. */
const quick = { consent: "allow", deviceIntervalS: 1 } as const;
const files = "sandbox-files";

const service = ({ sidecar }: { readonly sidecar: TestSidecar }) => sidecar.client(ConnectSessionService);

async function begin(all: Connecting, more: object = {}) {
  const request = { environment: "dev", integration: files, ...more };
  const { authorization } = await service(all).beginDeviceAuthorization(request);
  if (authorization === undefined) throw new Error("nothing has begun");
  return authorization;
}

async function standing(all: { readonly sidecar: TestSidecar }, id: string) {
  const { authorization } = await service(all).getDeviceAuthorization({ id });
  if (authorization === undefined) throw new Error("an answer holds what was asked for");
  return authorization;
}

async function ended(all: { readonly sidecar: TestSidecar }, id: string, timeout = 10_000) {
  await expect.poll(async () => (await standing(all, id)).state, { timeout, interval: 100 }).not.toBe(State.PENDING);
  return standing(all, id);
}

interface Authorised {
  readonly credentials: Record<string, unknown>;
  readonly missingScopes: readonly string[];
}

const refusal = async (call: Promise<unknown>): Promise<string> => {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return error instanceof ConnectError ? codeOf(error) : `no refusal: ${error}`;
};

const outcomes = (all: Connecting, outcome: string) =>
  all.sidecar.metric(`latchkey_authorizations_total{credentials="oauth2",outcome="${outcome}"}`);

it("connects the user who enters the code, as in a browser", async () => {
  const all = await connecting({ sandbox: { behaviour: quick } });
  const begun = await begin(all, {
    integration: "sandbox-calendar",
    userScopes: ["drive"],
    endUser: { id: "ada", email: "ada@app.example" },
    tags: { Team: "sales" },
    connectionConfig: { shop: "one" },
  });
  expect(begun).toMatchObject({ environment: "dev", integration: "sandbox-calendar", state: State.PENDING });
  expect(begun.userCode).toMatch(/^[A-Z]{4}-[A-Z]{4}$/);
  expect(begun.verificationUri).toBe(`${all.sandbox.origin}/oauth2/device`);
  expect((await fetch(begun.verificationUriComplete)).status).toBe(200);
  const { state, connection: ref, missingScopes } = await ended(all, begun.id);
  expect([state, ref?.integration, missingScopes]).toEqual([State.CONNECTED, "sandbox-calendar", []]);
  const connection = await all.connection("sandbox-calendar", ref?.id ?? "");
  expect(connection).toMatchObject({
    tags: { team: "sales", end_user_id: "ada", end_user_email: "ada@app.example" },
    // The provider's own data is added to what the caller sent.
    connection_config: { shop: "one", emailAddressHash: expect.stringMatching(/^[0-9a-f]{64}$/) },
    credentials: { type: "OAUTH2", access_token: expect.stringMatching(/^sbx_/) },
  });
  expect((await all.connections())[0]).toMatchObject({ connection_id: ref?.id });
  expect((await auditOf(all, "connection.authorize")).map(({ targets }) => targets)).toEqual([
    [`sandbox-calendar/${ref?.id}`],
  ]);
  expect((await auditOf(all, "device_authorization.begin")).map(({ targets }) => targets)).toEqual([
    ["sandbox-calendar"],
  ]);
  expect(await outcomes(all, "connected")).toBe(1);
  expect(await all.sidecar.metric('latchkey_authorizations_begun_total{credentials="oauth2"}')).toBe(1);
  // Once the token has arrived, polling stops.
  const asked = tokenCalls(all);
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(tokenCalls(all)).toBe(asked);
});

it("authorizes an existing connection again, and gives a new one the requested id", async () => {
  const all = await connecting({ sandbox: { behaviour: quick } });
  const authorised = async (more: object = {}): Promise<Record<string, unknown> & Authorised> => {
    const begun = await begin(all, { connectionId: "ada", ...more });
    await fetch(begun.verificationUriComplete);
    const { state, connection, missingScopes } = await ended(all, begun.id);
    expect([state, connection?.id]).toEqual([State.CONNECTED, "ada"]);
    return { ...(await all.connection(files, "ada")), missingScopes };
  };
  const first = await authorised({ tags: { team: "sales" } });
  all.sandbox.behave({ grantOnly: ["drive"] });
  const second = await authorised();
  expect(second).toMatchObject({ id: first["id"], tags: { team: "sales" } });
  expect(second.missingScopes).toEqual(["openid", "email", "profile"]);
  expect(second.credentials["access_token"]).not.toBe(first.credentials["access_token"]);
  expect(await all.connections()).toHaveLength(1);
});

it("creates nothing if the user denies access, and reports it", async () => {
  const all = await connecting({ sandbox: { behaviour: { ...quick, consent: "deny" } } });
  const begun = await begin(all);
  await fetch(begun.verificationUriComplete);
  const { state, code, message, connection } = await ended(all, begun.id);
  expect([state, code, connection]).toEqual([State.DENIED, "denied", undefined]);
  expect(message).toMatch(/not allowed/);
  expect([await all.connections(), await outcomes(all, "denied")]).toEqual([[], 1]);
});

it("expires when no user enters the code, and stops polling", async () => {
  const all = await connecting({ sandbox: { behaviour: { ...quick, deviceLifetimeS: 3 } } });
  const begun = await begin(all);
  const { state, code } = await ended(all, begun.id);
  expect([state, code]).toEqual([State.EXPIRED, "expired"]);
  const asked = tokenCalls(all);
  expect([asked > 0, await outcomes(all, "expired")]).toEqual([true, 1]);
  // A decision after the deadline is too late for everyone.
  await fetch(begun.verificationUriComplete);
  expect((await standing(all, begun.id)).state).toBe(State.EXPIRED);
  expect([tokenCalls(all), await all.connections()]).toEqual([asked, []]);
});

it("O21 polls five seconds later after each of two slow_downs", async () => {
  const slow = { kind: "error", error: "slow_down", times: 2 } as const;
  const all = await connecting({ sandbox: { behaviour: { ...quick, answers: { token: [slow] } } } });
  const begun = await begin(all);
  const elapsed = startStopwatch();
  await fetch(begun.verificationUriComplete);
  const at: number[] = [];
  await expect
    .poll(
      async () => {
        while (at.length < tokenCalls(all)) at.push(elapsed.passedMs / 1_000);
        return (await standing(all, begun.id)).state;
      },
      { timeout: 30_000, interval: 50 },
    )
    .toBe(State.CONNECTED);
  // 1, 6 and 11 seconds of waiting; a busy machine may be late, and never early.
  expect(at).toHaveLength(3);
  for (const [i, seconds] of [1, 7, 18].entries()) {
    expect(at[i]).toBeGreaterThan(seconds - 0.5);
    expect((at[i] ?? 0) - elapsed.lateMs / 1_000).toBeLessThan(seconds + 0.5);
  }
});

it("continues after a restart with the encrypted device code", async () => {
  const all = await connecting({ sandbox: { behaviour: quick } });
  const begun = await begin(all, { connectionId: "ada" });
  await expect.poll(() => tokenCalls(all)).toBeGreaterThan(0);
  await all.sidecar.stop();
  const stored = await Promise.all(
    (await readdir(all.sidecar.folder, { recursive: true, withFileTypes: true }))
      .filter((one) => one.isFile())
      .map((one) => readFile(join(one.parentPath, one.name), "latin1")),
  );
  expect(stored.some((text) => text.includes("pending-device"))).toBe(true);
  expect(stored.some((text) => text.includes("sbx_dc_") || text.includes(begun.userCode))).toBe(false);
  await fetch(begun.verificationUriComplete);
  const { environment: env, files: found } = all;
  const sidecar = await startTestSidecar({ env, files: found, folder: all.sidecar.folder });
  const { state, connection } = await ended({ sidecar }, begun.id);
  expect([state, connection?.id]).toEqual([State.CONNECTED, "ada"]);
});

it.skipIf(lacks("tmpfs"))("keeps the tokens that came while the disk was full, and files them", async () => {
  const folder = await temporaryFolder();
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", folder]);
  expect(mounted.status).toBe(0);
  onTestFinished(() => void spawnSync("umount", ["-l", folder]));
  const all = await connecting({ sandbox: { behaviour: quick }, sidecar: { folder } });
  const begun = await begin(all, { connectionId: "ada" });
  const filler = join(folder, "filler");
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(filler, Buffer.alloc(bavail * bsize));
  await fetch(begun.verificationUriComplete);
  const isTried = () =>
    all.sidecar.logged.some((line) => line.includes("store unavailable; device authorization waits"));
  await expect.poll(isTried).toBe(true);
  rmSync(filler);
  const { state, connection } = await ended(all, begun.id, 30_000);
  expect([state, connection?.id]).toEqual([State.CONNECTED, "ada"]);
  expect((await all.connection(files, "ada")).credentials["access_token"]).toMatch(/^sbx_/);
});

it.skipIf(lacks("postgres"))("is seen at every replica, and taken over from one that leaves", async () => {
  const server = await startPostgres();
  onTestFinished(() => server.stop());
  const store = { LATCHKEY_STORE: server.storeUrl("oauth_devices") };
  const all = await connecting({ sandbox: { behaviour: quick }, sidecar: { env: store } });
  const other = await startTestSidecar({ env: { ...all.environment, ...store }, files: all.files });
  const begun = await begin(all);
  expect(await standing({ sidecar: other }, begun.id)).toMatchObject({
    userCode: begun.userCode,
    state: State.PENDING,
  });
  await all.sidecar.stop();
  await fetch(begun.verificationUriComplete);
  expect((await ended({ sidecar: other }, begun.id, 40_000)).state).toBe(State.CONNECTED);
});

it("is forgotten an hour after its beginning", async () => {
  let now = Date.now();
  const all = await connecting({ sandbox: { behaviour: { ...quick, consent: "deny" } }, sidecar: { now: () => now } });
  const begun = await begin(all);
  await fetch(begun.verificationUriComplete);
  await ended(all, begun.id);
  now += 3_500_000;
  await all.sidecar.sidecar.broker.keepHouse();
  expect((await standing(all, begun.id)).state).toBe(State.DENIED);
  now += 200_000;
  await all.sidecar.sidecar.broker.keepHouse();
  expect(await refusal(standing(all, begun.id))).toBe("not_found");
});

it("reports why a device authorization cannot start", async () => {
  const all = await connecting({
    sandbox: { behaviour: quick },
    providers: (origin) => [
      {
        name: "no-devices",
        oauth2: { authorization_url: `${origin}/oauth2/auth`, token_url: `${origin.replace("http:", "https:")}/token` },
        proxy: { base_url: origin.replace("http:", "https:") },
      },
    ],
    integrations: [{ environment: "dev", key: "no-devices", provider: "no-devices", oauth: { client_id: "x" } }],
  });
  expect(await refusal(begin(all, { integration: "nobody" }))).toBe("unknown_provider_config");
  expect(await refusal(begin(all, { integration: "sandbox-api-key" }))).toBe("invalid_body");
  expect(await refusal(begin(all, { integration: "no-devices" }))).toBe("integration_misconfigured");
  await expect(begin(all, { integration: "no-devices" })).rejects.toThrow(/no-devices, has no device authorization/);
  expect(await refusal(begin(all, { connectionId: "a b\0" }))).toBe("invalid_body");
  expect(await refusal(begin(all, { tags: { "": "x" } }))).toBe("invalid_body");
  expect(await refusal(begin(all, { webhookUrlOverride: "nowhere" }))).toBe("invalid_body");
  all.sandbox.behave({ answers: { device: [{ kind: "error", status: 401, error: "invalid_client" }] } });
  expect(await refusal(begin(all))).toBe("integration_misconfigured");
  expect(await auditOf(all, "device_authorization")).toEqual([]);
});

it("ends as failed when the provider will have none of the client any more", async () => {
  const refused = { kind: "error", status: 401, error: "invalid_client" } as const;
  const all = await connecting({ sandbox: { behaviour: { ...quick, answers: { token: [refused] } } } });
  const { state, code } = await ended(all, (await begin(all)).id);
  expect([state, code]).toEqual([State.FAILED, "misconfigured"]);
});

it("is shown to keys of its environment alone", async () => {
  const all = await connecting({ sandbox: { behaviour: quick } });
  const { id } = await begin(all);
  const admin = all.sidecar.client(EnvironmentService);
  await admin.createEnvironment({ name: "other" });
  const { secret } = await admin.createKey({ environment: "other" });
  const theirs = all.sidecar.client(ConnectSessionService, secret);
  await expect(theirs.getDeviceAuthorization({ id })).rejects.toMatchObject({ code: Code.NotFound });
  await expect(service(all).getDeviceAuthorization({ id: "nobody" })).rejects.toMatchObject({ code: Code.NotFound });
});

it("asks about a hundred at once, and refuses one more", async () => {
  const all = await connecting({ sandbox: { behaviour: { consent: "allow", deviceIntervalS: 300 } } });
  const begun = await Promise.allSettled(Array.from({ length: 103 }, () => begin(all)));
  expect(begun.filter(({ status }) => status === "fulfilled")).toHaveLength(100);
  const refused = begun.flatMap((one) => (one.status === "rejected" ? [codeOf(one.reason)] : []));
  expect(refused).toEqual(Array(3).fill("too_many_requests"));
});

const latchkey = async (all: Connecting, argv: readonly string[], terminal = memoryTerminal()) => {
  const code = await runCli([...argv, "--address", all.sidecar.control, "--key", adminKey, "-e", "dev"], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
};

it("starts on the command line, which shows the code and waits", async () => {
  const all = await connecting({ sandbox: { behaviour: quick } });
  const screen = memoryTerminal();
  const waiting = latchkey(all, ["connect", files, "--device", "--id", "ada", "--end-user", "u1"], screen);
  await expect.poll(screen.err).toMatch(/enter the code [A-Z]{4}-[A-Z]{4}\n/);
  const [, complete = ""] = /or open (\S+)\n/.exec(screen.err()) ?? [];
  await fetch(complete);
  expect(await waiting).toMatchObject({ code: 0, out: "connected sandbox-files/ada\n" });
  all.sandbox.behave({ consent: "deny" });
  const other = memoryTerminal();
  const denied = latchkey(all, ["connect", files, "--device", "--json"], other);
  await expect.poll(other.err).toMatch(/or open/);
  await fetch(/or open (\S+)\n/.exec(other.err())?.[1] ?? "");
  const { code, out } = await denied;
  expect([code, JSON.parse(out)]).toEqual([1, expect.objectContaining({ state: "denied", code: "denied" })]);
});

it("prints a link instead, and waits for its connection on request", async () => {
  const all = await connecting();
  expect(await latchkey(all, ["connect", files])).toMatchObject({ code: 2, err: expect.stringMatching(/--end-user/) });
  const printed = await latchkey(all, ["connect", files, "--end-user", "ada"]);
  expect([printed.code, printed.out]).toEqual([
    0,
    expect.stringMatching(/\/connect\/\?session_token=lk_connect_\S+\n$/),
  ]);

  const follow = async (argv: readonly string[], use: (token: string) => Promise<unknown>) => {
    const screen = memoryTerminal();
    const waiting = latchkey(all, ["connect", files, "--wait", ...argv], screen);
    await expect.poll(screen.err).toMatch(/session_token=/);
    await use(/session_token=(\S+)/.exec(screen.err())?.[1] ?? "");
    return waiting;
  };
  const visit = (token: string) => all.browser().go(departure(all, token));
  // Another device authorization of the same integration is not confused with it.
  await visit(await all.session({ end_user: { id: "bob" } }));
  const made = await follow(["--end-user", "ada", "--tag", "team=sales"], async (token) => {
    const others = await all.session({ end_user: { id: "bob" } });
    await visit(token);
    await visit(others);
  });
  const [ours] = (await all.sidecar.rest("GET", "/connections?tags[team]=sales")).body.connections;
  expect(made).toMatchObject({ code: 0, out: `connected sandbox-files/${ours.connection_id}\n` });

  const again = await follow(["--id", ours.connection_id], visit);
  expect(again).toMatchObject({ code: 0, out: `connected sandbox-files/${ours.connection_id}\n` });
  expect(await all.connections()).toHaveLength(3);

  const left = await follow(["--end-user", "ada"], async (token) => {
    const gone = await all.sidecar.sidecar.broker.sessions.withToken(token);
    await service(all).deleteConnectSession({ id: gone.value.id });
  });
  expect(left).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/expired without a connection/) });
});
