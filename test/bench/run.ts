/**
 * `npm run bench -- NAME [--count N]`: each command produces figures of test/bench/README.md. The benches of the proxy and of
 * webhooks have parts (`--only requests,streams`), and can run longer (`--rounds N`). Those of the proxy, of
 * webhooks and of the start can measure a second build in the same rounds (`--beside ../before/dist/latchkey.js`). `all --quick` runs the
 * short forms of many and keeps their figures; `compare RELEASE` measures again and judges what changed.
 */
import { parseArgs } from "node:util";
import { sessions } from "./access/sessions.ts";
import { connections } from "./connections.ts";
import { list } from "./dashboard/list.ts";
import { dashboard } from "./dashboard.ts";
import { brokerRuns } from "./fleet/broker-runs.ts";
import { brokers } from "./fleet/brokers.ts";
import { empty } from "./fleet/empty.ts";
import { fleet } from "./fleet/fleet.ts";
import { quota } from "./fleet/quota.ts";
import { revoke } from "./fleet/revoke.ts";
import { forwardProxy } from "./forward-proxy/forward-proxy.ts";
import { heads } from "./heads/heads.ts";
import { hostile } from "./hostile.ts";
import { http2 } from "./http2.ts";
import { idle } from "./idle/idle.ts";
import { imports } from "./imports/imports.ts";
import { matchedWebhooks } from "./lookups/matched-webhooks.ts";
import { match } from "./match.ts";
import { mcp } from "./mcp/mcp.ts";
import { policies } from "./policies/policies.ts";
import { profile } from "./profile/profile.ts";
import { proxy } from "./proxy.ts";
import { records } from "./records.ts";
import { refresh } from "./refresh.ts";
import { all, compare } from "./score/score.ts";
import { scripts } from "./scripts.ts";
import { start } from "./start.ts";
import { store } from "./store.ts";
import { syncs } from "./syncs.ts";
import { tails } from "./tails/tails.ts";
import { webhooks } from "./webhooks/webhooks.ts";

const text = { type: "string" } as const;
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    ...{ beside: text, cells: text, count: text, only: text, peers: text, release: text, rounds: text, seconds: text },
    batch: { type: "boolean" },
    quick: { type: "boolean" },
  },
});
const listOf = (value: string | undefined) => value?.split(",") ?? [];
const benches: Readonly<Record<string, (count: number) => Promise<void>>> = {
  all: async () => {
    if (values.quick !== true) throw new Error("only the short forms run together: add --quick");
    await all({ release: values.release, only: listOf(values.only), beside: values.beside });
  },
  brokers: async () => {
    const asked = { rounds: Number(values.rounds ?? 0), seconds: Number(values.seconds ?? 0) };
    const only = values.only?.split(",") ?? ["deliveries", "runs"];
    if (only.includes("deliveries")) await brokers(asked);
    if (only.includes("runs")) await brokerRuns(asked);
  },
  compare: () => compare({ release: positionals[1], only: listOf(values.only), beside: values.beside }),
  connections,
  dashboard: (count) => dashboard({ count, only: values.only?.split(",") ?? [], rounds: Number(values.rounds ?? 0) }),
  heads: (count) =>
    heads({ count, only: values.only?.split(",") ?? [], seconds: Number(values.seconds ?? 0), beside: values.beside }),
  empty: (count) =>
    empty({
      count,
      only: values.only?.split(",") ?? [],
      rounds: Number(values.rounds ?? 0),
      beside: values.beside,
    }),
  fleet: async (count) => {
    const only = values.only?.split(",") ?? ["load"];
    if (only.includes("load")) await fleet({ count, seconds: Number(values.seconds ?? 0) });
    if (only.includes("revoke")) await revoke({ count, rounds: Number(values.rounds ?? 0) });
  },
  "forward-proxy": () =>
    forwardProxy({
      only: values.only?.split(",") ?? [],
      rounds: Number(values.rounds ?? 0),
      seconds: Number(values.seconds ?? 0),
    }),
  hostile: () => hostile(Number(values.rounds ?? 0)),
  http2: (count) => http2(count, Number(values.rounds ?? 0)),
  idle: (count) =>
    idle({ count, only: values.only?.split(",") ?? [], seconds: Number(values.seconds ?? 0), beside: values.beside }),
  import: (count) =>
    imports({
      count,
      rounds: Number(values.rounds ?? 0),
      isBatched: values.batch === true,
      beside: values.beside,
    }),
  list,
  match: (count) => (values.only === "webhooks" ? matchedWebhooks(count) : match(count)),
  mcp: (count) => mcp({ count, rounds: Number(values.rounds ?? 0) }),
  policies: async (count) => policies(count === 0 ? undefined : count),
  profile: () =>
    profile({
      only: listOf(values.only),
      rounds: Number(values.rounds ?? 0),
      seconds: Number(values.seconds ?? 0),
      beside: values.beside,
    }),
  proxy: (count) =>
    proxy({
      count,
      only: listOf(values.only),
      cells: listOf(values.cells),
      peers: listOf(values.peers),
      rounds: Number(values.rounds ?? 0),
      seconds: Number(values.seconds ?? 0),
      beside: values.beside,
    }),
  quota: () => quota(Number(values.seconds ?? 0)),
  records,
  refresh: (count) => refresh(count, Number(values.rounds ?? 0)),
  sessions,
  scripts,
  start: (count) => start({ count, beside: values.beside }),
  store,
  syncs,
  tails: () =>
    tails({
      only: values.only?.split(",") ?? [],
      rounds: Number(values.rounds ?? 0),
      seconds: Number(values.seconds ?? 0),
      beside: values.beside,
    }),
  webhooks: () => webhooks({ only: listOf(values.only), rounds: Number(values.rounds ?? 0), beside: values.beside }),
};
const [name = ""] = positionals;
const bench = benches[name];
if (bench === undefined) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(benches).join("|")} [--count N]\n`);
  process.exitCode = 2;
} else {
  await bench(Number(values.count ?? 0));
}
