import { globSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * Rooms whose files leave nothing behind: no thread, page, listener or changed global. A worker runs many of these files
 * and loads the source once. When each file loaded it, that took a third of the processor time of a run of everything.
 */
const rooms = [
  "unit/{auth,base,broker,config,core,data-plane,edge,forward-proxy,providers,relay,tracing}",
  "cases/{access-sessions,approvals,control-plane,credentials,egress,flows,forward-proxy,identities,import}",
  "cases/{mcp,mcp-endpoint,oauth,policies,providers,proxy,quotas,records,rest,revocations,sandbox,webhooks}",
  "cases/{cli,dashboard,edges,grpc,pages,refresh,store,syncs}",
];

/**
 * Files of these rooms that measure memory or the event loop, change the folder of the process, set their clock ahead
 * (IDs of a process never go back), or are so long that they have to start first.
 */
const apart = [
  "unit/base/{node,loop}/**",
  "unit/base/when-aborted.test.ts",
  "cases/policies/faces.test.ts",
  "cases/proxy/{fuzz,lanes,streams}.test.ts",
  "cases/oauth/devices.test.ts",
  "cases/webhooks/delivering.test.ts",
  "cases/grpc/{watch,calls,deadlines}.test.ts",
  "cases/refresh/{kinds,refresh,short-lived}.test.ts",
  "cases/cli/{dev,program,scripts,verbs}.test.ts",
  "cases/dashboard/every-page.test.ts",
  "cases/store/backup.test.ts",
  "cases/syncs/{live,scripts}.test.ts",
];

const tests = fileURLToPath(new URL("../..", import.meta.url));

/** The files of the project "shared", relative to the checkout. */
export const sharedFiles: readonly string[] = globSync(
  rooms.map((room) => `${room}/**/*.test.ts`),
  { cwd: tests, exclude: apart },
).map((path) => `test/${path}`);
