import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const src = fileURLToPath(new URL("../../src", import.meta.url));

/** Imports run downward. Rooms on one floor do not know each other. A type import counts: knowing is leaning. */
const floors: Readonly<Record<string, number>> = {
  "main.ts": 11,
  dev: 10,
  cli: 9,
  "sidecar.ts": 8,
  // Shares the listeners of `sidecar/`, and nothing of a store.
  edge: 8,
  sidecar: 7,
  // Ends TLS in front of the data plane, for the listeners of `sidecar/` and `edge/`.
  "forward-proxy": 6.5,
  "control-plane": 6,
  dashboard: 6,
  "data-plane": 6,
  config: 5,
  broker: 4,
  scripts: 4,
  core: 3,
  providers: 2,
  auth: 2,
  store: 2,
  relay: 2,
  sandbox: 2,
  tracing: 2,
  base: 1,
  gen: 0,
};
/** Store and the pure rooms are wings that do not know each other; only the broker joins them. */
const strangers: readonly (readonly [string, string])[] = [
  ["core", "store"],
  ["store", "core"],
  ["store", "providers"],
  ["providers", "store"],
  ["auth", "store"],
  ["store", "auth"],
  ["auth", "relay"],
  ["relay", "auth"],
  ["relay", "store"],
  ["relay", "providers"],
  ["relay", "auth"],
  ["store", "relay"],
  ["edge", "store"],
  ["edge", "scripts"],
  ["edge", "control-plane"],
  ["edge", "providers"],
  ["core", "relay"],
  ["broker", "relay"],
  ["control-plane", "relay"],
  ["control-plane", "store"],
  // The sidecar passes tracing in; these rooms know only `base/tracing`.
  ["core", "tracing"],
  ["broker", "tracing"],
  ["control-plane", "tracing"],
  ["data-plane", "tracing"],
  ["data-plane", "store"],
  ["forward-proxy", "store"],
  ["forward-proxy", "config"],
  ["forward-proxy", "control-plane"],
  ["forward-proxy", "tracing"],
  ["forward-proxy", "scripts"],
  ["control-plane", "config"],
  ["data-plane", "config"],
  // The script host knows what a script is, and nothing about its tools.
  ["scripts", "store"],
  ["scripts", "auth"],
  ["scripts", "providers"],
  ["scripts", "relay"],
  ["scripts", "tracing"],
  ["scripts", "gen"],
  ["control-plane", "scripts"],
  ["data-plane", "scripts"],
  ["config", "scripts"],
];
/** Rooms within a room, from the fixture up. Imports between them run downward too. */
const subRooms: Readonly<Record<string, readonly string[]>> = {
  broker: [
    "stored",
    "partitions",
    "tokens",
    "audit",
    "setup",
    "identities",
    "traffic",
    "sign-in",
    "authority",
    "deliveries",
    "connections",
    "credentials",
    "policies",
    "approvals",
    "revocations",
    "quotas",
    "access-sessions",
    "edges",
    "records",
    "syncs",
    "channels",
    "webhooks",
    "mcp-clients",
    "connect",
    "mcp",
    "end-users",
    "emptying",
    "system",
  ],
  auth: ["jwt", "oauth1", "oauth2"],
  cli: ["terminal", "process", "offline", "completion", "commands"],
  "control-plane": ["server", "services"],
  dashboard: ["state", "data", "components", "pages", "shell"],
  store: ["level", "postgres", "sealed", "backup"],
};
/** `serve` and `dev` start a sidecar; every other command speaks to one over the wire. */
const starters = [
  "cli/process/serve.ts",
  "cli/process/edge.ts",
  "cli/process/process-parts.ts",
  "cli/process/reloading.ts",
  "dev/dev.ts",
  "dev/seed.ts",
  "cli/process/process.ts",
  "cli/process/key-files.ts",
];
const belowForCommands = ["cli", "core", "base", "gen"];
/** The files that start the stand-in for providers. */
const standIns = ["dev/sandbox.ts", "dev/dev.ts", "dev/seed.ts"];
/** Commands without a sidecar use the store itself: backups as files, and stores that no process serves. */
const offline = ["cli/offline/file.ts", "cli/offline/location.ts", "cli/offline/copy.ts", "cli/offline/move.ts"];
/** Reads a folder of scripts as `serve` does; the data listener defines which endpoints are taken. */
const reader = ["cli/commands/scripts/check.ts", "data-plane/server/own-paths.ts"];

interface Import {
  readonly from: string;
  readonly to: string;
}

const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));
const imports: Import[] = files.flatMap((from) => {
  const text = readFileSync(join(src, from), "utf8");
  return [...text.matchAll(/(?:from|import)\s+"(\.[^"]+)"/g)].map(([, path = ""]) => ({
    from,
    to: relative(src, join(src, dirname(from), path)),
  }));
});
/** The stand-in for providers is its own room, below `dev`. */
const roomOf = (file: string) => (file.startsWith("dev/sandbox/") ? "sandbox" : (file.split("/")[0] ?? ""));
const say = ({ from, to }: Import) => `${from} imports ${to}`;

it("knows a floor for every room", () => {
  const unknown = files.map(roomOf).filter((room) => floors[room] === undefined);
  expect([...new Set(unknown)]).toEqual([]);
});

it("allows imports only downward", () => {
  const upward = imports.filter(({ from, to }) => {
    const [here, there] = [roomOf(from), roomOf(to)];
    if (here === there || there === "..") return false;
    return (floors[there] ?? 0) >= (floors[here] ?? 0);
  });
  expect(upward.map(say)).toEqual([]);
});

it("allows imports between the rooms of a room only downward", () => {
  const subRoomOf = (file: string) => (file.split("/").length > 2 ? file.split("/")[1] : undefined) ?? "";
  const upward = imports.filter(({ from, to }) => {
    const order = subRooms[roomOf(from)];
    if (order === undefined || roomOf(to) !== roomOf(from)) return false;
    const [here, there] = [order.indexOf(subRoomOf(from)), order.indexOf(subRoomOf(to))];
    // The broker's rooms do not import the files beside them, which join the rooms.
    if (roomOf(from) === "broker" && here >= 0 && there < 0) return true;
    return here >= 0 && there > here;
  });
  expect(upward.map(say)).toEqual([]);
});

it("knows the order of each room of the broker", () => {
  const found = files.filter((file) => /^broker\/[^/]+\//.test(file)).map((file) => file.split("/")[1] ?? "");
  expect([...new Set(found)].toSorted()).toEqual([...(subRooms["broker"] ?? [])].toSorted());
});

it("has at most 30 files in a folder", () => {
  const folders = Map.groupBy(
    files.filter((file) => roomOf(file) !== "gen"),
    (file) => dirname(file),
  );
  expect([...folders].filter(([, inside]) => inside.length > 30).map(([folder]) => folder)).toEqual([]);
});

it("keeps the dashboard to what is generated", () => {
  const beyond = imports.filter(
    ({ from, to }) => roomOf(from) === "dashboard" && !["dashboard", "gen"].includes(roomOf(to)),
  );
  expect(beyond.map(say)).toEqual([]);
});

it("keeps the wings apart", () => {
  const joined = imports.filter(({ from, to }) => strangers.some(([a, b]) => roomOf(from) === a && roomOf(to) === b));
  expect(joined.map(say)).toEqual([]);
});

it("lets commands reach a sidecar only over the wire", () => {
  const inside = imports.filter(
    ({ from, to }) => roomOf(from) === "cli" && !starters.includes(from) && !belowForCommands.includes(roomOf(to)),
  );
  const beyond = inside.filter(
    ({ from, to }) =>
      !(offline.includes(from) && roomOf(to) === "store") &&
      !(from === reader[0] && to === reader[1]) &&
      !(standIns.includes(from) && roomOf(to) === "sandbox"),
  );
  expect(beyond.map(say)).toEqual([]);
});

it("keeps the stand-in for providers outside", () => {
  const joined = imports.filter(({ from, to }) => {
    const [here, there] = [roomOf(from), roomOf(to)];
    if (here === "sandbox") return there !== "sandbox" && there !== "base";
    return there === "sandbox" && !standIns.includes(from);
  });
  expect(joined.map(say)).toEqual([]);
});

it("does not load the stand-in for providers in serve", () => {
  const reached = new Set<string>();
  function visit(file: string): void {
    if (reached.has(file)) return;
    reached.add(file);
    for (const { to } of imports.filter(({ from }) => from === file)) visit(to);
  }
  // Dynamic imports are not among the imports.
  visit("main.ts");
  visit("cli/process/serve.ts");
  expect([...reached].filter((file) => roomOf(file) === "sandbox")).toEqual([]);
  expect(reached).toContain("cli/process/serve.ts");
});

it("has no import that goes in a circle", () => {
  const next = Map.groupBy(imports, ({ from }) => from);
  const done = new Set<string>();
  const circles: string[] = [];
  function visit(file: string, path: readonly string[]): void {
    if (path.includes(file)) {
      circles.push([...path.slice(path.indexOf(file)), file].join(" -> "));
      return;
    }
    if (done.has(file)) return;
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  }
  for (const file of files.filter((one) => roomOf(one) !== "gen")) visit(file, []);
  expect(circles).toEqual([]);
});

it("reads the process's environment in main.ts alone", () => {
  const readers = files.filter((file) => /\bprocess\.(env|argv|exit)\b/.test(readFileSync(join(src, file), "utf8")));
  // In the command line's rooms, `process` is a parameter from main.ts. `scripts/bundle.ts` names what a customer's
  // bundle gets instead of it.
  expect(readers.filter((file) => !["main.ts", "scripts/bundle.ts", ...starters].includes(file))).toEqual([]);
});
