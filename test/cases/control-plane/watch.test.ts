import { expect, it } from "vitest";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { sidecarOfFile } from "../../support/sidecar/door.ts";
import { createIntegrations, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";
import { foreignClient, type Plain, post } from "./foreign.ts";

/** The events of a watcher: markers by kind, connections by change. */
interface Watching {
  readonly told: readonly string[];
  /** The revision of the last step. */
  readonly seen: () => number;
  until(count: number): Promise<void>;
  end(): void;
}

function watch({ control }: TestSidecar, request: Plain = {}): Watching {
  const stream = foreignClient(control).serverStream("ConnectionService/WatchConnections", {
    environment: "dev",
    ...request,
  });
  const told: string[] = [];
  let seen = 0;
  let look = () => {};
  stream.on("data", (step: Plain) => {
    const event: Plain = step[step["event"]];
    told.push(step["event"] === "marker" ? event["kind"].replace("KIND_", "") : `${step["event"]} ${event["ref"].id}`);
    seen = Number(event["revision"]);
    look();
  });
  // Cancelled at the end of a test.
  stream.on("error", () => {});
  return {
    told,
    seen: () => seen,
    until: (count) =>
      new Promise((resolve) => {
        look = () => {
          if (told.length >= count) resolve();
        };
        look();
      }),
    end: () => stream.cancel(),
  };
}

const item = (id: string, more: Plain = {}): Plain => ({
  environment: "dev",
  integration: "keyed",
  id,
  credentials: { apiKey: { apiKey: "k" } },
  ...more,
});

async function put({ control }: TestSidecar, ...items: readonly Plain[]): Promise<void> {
  const { body } = await post(control, "ConnectionService/BatchImportConnections", { connections: items });
  expect((body["results"] as readonly Plain[]).filter(({ problem }) => problem !== undefined)).toEqual([]);
}

const remove = ({ control }: TestSidecar, id: string) =>
  post(control, "ConnectionService/DeleteConnection", { ref: { environment: "dev", integration: "keyed", id } });

async function furnished(): Promise<TestSidecar> {
  const running = await startTestSidecar();
  await createIntegrations(running);
  return running;
}

it("starts with the current state between two markers, and continues with changes", async () => {
  const running = await furnished();
  await put(running, item("ada"), item("bob"));
  const watching = watch(running);
  await watching.until(4);
  await put(running, item("ada", { metadata: { again: true } }));
  await remove(running, "bob");
  await watching.until(6);
  expect(watching.told).toEqual(["SNAPSHOT_BEGIN", "put ada", "put bob", "SNAPSHOT_END", "put ada", "deleted bob"]);
  watching.end();
});

it("resumes where a watcher left, with exactly what it missed", async () => {
  const running = await furnished();
  await put(running, item("ada"));
  const first = watch(running);
  await first.until(3);
  await put(running, item("bob"));
  await first.until(4);
  first.end();
  await put(running, item("cyd"));
  await remove(running, "ada");

  const second = watch(running, { from_revision: first.seen() });
  await second.until(3);
  await put(running, item("dan"));
  await second.until(4);
  expect(second.told).toEqual(["RESUMED", "put cyd", "deleted ada", "put dan"]);
  second.end();
});

it("repeats a commit of several, of which a watcher may have seen a part", async () => {
  const running = await furnished();
  const first = watch(running);
  await first.until(2);
  await put(running, item("ada"), item("bob"), item("cyd"));
  await first.until(3);
  // Cut off after the first of three: all three have the revision that it saw.
  first.end();
  const second = watch(running, { from_revision: first.seen() });
  await second.until(4);
  expect(second.told).toEqual(["RESUMED", "put ada", "put bob", "put cyd"]);
  second.end();
});

it("starts again for a watcher that was away too long", async () => {
  const running = await furnished();
  const first = watch(running);
  await first.until(2);
  await put(running, item("ada"));
  await first.until(3);
  first.end();
  // More changes than the buffer of one watcher holds.
  for (let round = 0; round < 12; round += 1) {
    await put(running, ...Array.from({ length: 1_000 }, (_, i) => item(`many-${i}`)));
  }
  const second = watch(running, { from_revision: first.seen() });
  await second.until(1_003);
  expect(second.told[0]).toBe("SNAPSHOT_BEGIN");
  expect(second.told.at(-1)).toBe("SNAPSHOT_END");
  expect(new Set(second.told).size).toBe(1_003);
  second.end();
});

it("starts again for a watcher that returns after a restart", async () => {
  const running = await furnished();
  await put(running, item("ada"));
  const first = watch(running);
  await first.until(3);
  const seen = first.seen();
  first.end();
  await running.stop();
  const restarted = await startTestSidecar({ folder: running.folder });
  const second = watch(restarted, { from_revision: seen });
  await second.until(3);
  expect(second.told).toEqual(["SNAPSHOT_BEGIN", "put ada", "SNAPSHOT_END"]);
  second.end();
});

it.each([
  ["far from now", 1_000_000, {}],
  ["just after now", 1, {}],
  ["far from now, though it asks for changes alone", 1_000_000, { changes_only: true }],
] as const)("starts again for a watcher with a future revision, %s", async (_what, ahead, request) => {
  const running = await furnished();
  await put(running, item("ada"));
  const { body } = await post(running.control, "StoreService/GetStoreStatus", {});
  const watching = watch(running, { ...request, from_revision: Number(body["revision"]) + ahead });
  await watching.until(3);
  expect(watching.told).toEqual(["SNAPSHOT_BEGIN", "put ada", "SNAPSHOT_END"]);
  watching.end();
});

const shared = sidecarOfFile();

it("leaves the snapshot out for a watcher that wants changes alone", async () => {
  await put(shared(), item("before"));
  const watching = watch(shared(), { changes_only: true });
  await watching.until(1);
  await put(shared(), item("after"));
  await watching.until(2);
  expect(watching.told).toEqual(["RESUMED", "put after"]);
  watching.end();
});

it("sends a watcher of one integration nothing of others", async () => {
  const watching = watch(shared(), { integration: "first", changes_only: true });
  await watching.until(1);
  await put(shared(), item("elsewhere"));
  await put(shared(), item("here", { integration: "first", credentials: { oauth1: { oauthToken: "t" } } }));
  await watching.until(2);
  expect(watching.told).toEqual(["RESUMED", "put here"]);
  watching.end();
});

it("shows a watcher no credentials, and the same connection as a read does", async () => {
  const { client } = shared();
  await put(shared(), item("shown", { metadata: { a: 1 }, tags: { tags: { Team: "x" } } }));
  const steps = client(ConnectionService).watchConnections({ environment: "dev" });
  for await (const { event } of steps) {
    if (event.case !== "put" || event.value.ref?.id !== "shown") continue;
    const { connection } = await client(ConnectionService).getConnection({ ref: event.value.ref });
    const { lastFetchedAt: _used, ...read } = connection ?? {};
    const { lastFetchedAt: _never, ...watched } = event.value;
    expect(watched).toEqual(read);
    break;
  }
});

it("watches integrations in the same way", async () => {
  const { control } = await furnished();
  const stream = foreignClient(control).serverStream("IntegrationService/WatchIntegrations", { environment: "dev" });
  const told: string[] = [];
  let seen = () => {};
  stream.on("data", (step: Plain) => {
    told.push(step["marker"]?.kind ?? `${step["event"]} ${step[step["event"]].key}`);
    seen();
  });
  stream.on("error", () => {});
  const until = (count: number) =>
    new Promise<void>((resolve) => {
      seen = () => told.length >= count && resolve();
      seen();
    });
  await until(6);
  const secrets = { clientSecret: "s-of-the-app" };
  const integration = { environment: "dev", key: "later", provider: "calendar", secrets };
  await post(control, "IntegrationService/CreateIntegration", { integration });
  await until(7);
  await post(control, "IntegrationService/DeleteIntegration", { environment: "dev", key: "later" });
  await until(8);
  expect(told).toEqual([
    "KIND_SNAPSHOT_BEGIN",
    ...["basic", "calendar", "first", "keyed"].map((key) => `put ${key}`),
    "KIND_SNAPSHOT_END",
    "put later",
    "deleted later",
  ]);
  stream.cancel();
});
