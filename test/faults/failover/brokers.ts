import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { Sandbox } from "../../../src/dev/sandbox/sandbox.ts";
import type { PatroniCluster } from "../../support/postgres/patroni.ts";
import { beginLife, type Life } from "../loss/service.ts";
import type { KeyedProvider } from "./keyed-provider.ts";

/** Three processes of `latchkey serve`: one reaches PostgreSQL through PgBouncer, two name all servers. */
export interface Brokers {
  readonly lives: readonly Life[];
  /** Sentences about processes that ended by themselves. */
  readonly ended: readonly string[];
  close(): Promise<void>;
}

interface BrokersOptions {
  readonly cluster: PatroniCluster;
  readonly sandbox: Sandbox;
  readonly provider: KeyedProvider;
  readonly forwardUrl: string;
}

const ways = ["pooler", "servers", "servers"] as const;

export async function startBrokers({ cluster, sandbox, provider, forwardUrl }: BrokersOptions): Promise<Brokers> {
  const folder = mkdtempSync(join(tmpdir(), "latchkey-failover-"));
  const file = join(folder, "latchkey.yaml");
  const keyed = { name: "here", api_key: { header: "x-api-key" }, proxy: { base_url: `https://${provider.host}` } };
  writeFileSync(file, JSON.stringify({ providers: [...describeProviders(sandbox.origin), keyed] }));
  const ended: string[] = [];
  let isOver = false;
  const lives = await Promise.all(
    ways.map(async (way, i) => {
      const env = {
        LATCHKEY_STORE: cluster.storeUrl("failover", way),
        LATCHKEY_CONFIG: file,
        LATCHKEY_ALLOW_PRIVATE: `${allowPrivateFor(sandbox.origin)},http://${provider.host}`,
        LATCHKEY_FORWARD_URL: forwardUrl,
        LATCHKEY_LOG_FORMAT: "json",
      };
      const life = await beginLife({ folder, env, clockOffsetMs: 0, command: "serve" }).ready();
      void life.ended.then((why) => isOver || ended.push(`broker ${i + 1}: ${why}`));
      return life;
    }),
  );
  return {
    lives,
    ended,
    async close() {
      isOver = true;
      await Promise.all(lives.map((life) => life.kill()));
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
