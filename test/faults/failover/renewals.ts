import { setTimeout as sleep } from "node:timers/promises";
import type { Sandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { type Life, restOf } from "../loss/service.ts";

/** Calls a provider through all brokers while its short tokens expire. */
export interface Renewals {
  stop(): Promise<void>;
  audit(): RenewalFindings;
}

export interface RenewalFindings {
  /** Statuses of the calls; 0: no answer. */
  readonly calls: Readonly<Record<string, number>>;
  /** Tokens that expired and were renewed. */
  readonly expiries: number;
  readonly requests: number;
  /** Second requests with a refresh token that had been replaced, which the provider's grace allowed. */
  readonly inGrace: number;
  /** The same after the grace; the provider then revokes everything. */
  readonly reused: number;
  readonly revoked: number;
}

interface RenewalsOptions {
  readonly lives: readonly Pick<Life, "data">[];
  readonly sandbox: Sandbox;
  readonly connections: number;
  readonly accessTokenS: number;
  /** Between two calls of a connection through one process, on average. */
  readonly pauseMs?: number;
}

const provider = "sandbox-unified";
const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };

export async function startRenewals(options: RenewalsOptions): Promise<Renewals> {
  const { lives, sandbox, connections, accessTokenS, pauseMs = 200 } = options;
  const stopping = new AbortController();
  const calls: Record<string, number> = {};
  const [first] = lives;
  if (first === undefined) throw new Error("nobody to call through");
  await restOf(first, "POST", "/integrations", { unique_key: provider, provider, credentials: app });
  const ids = Array.from({ length: connections }, (_, i) => `renewing-${i + 1}`);
  for (const connection_id of ids) {
    const { access_token, refresh_token } = sandbox.grant();
    const expires_at = new Date(Date.now() + accessTokenS * 1_000).toISOString();
    const credentials = { type: "OAUTH2", access_token, refresh_token, expires_at };
    await restOf(first, "POST", "/connections", { provider_config_key: provider, connection_id, credentials });
  }

  async function call(life: Pick<Life, "data">, id: string): Promise<number> {
    const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": id };
    try {
      const response = await fetch(`${life.data}/proxy/drive/v3/files?pageSize=1`, { headers });
      await response.arrayBuffer();
      return response.status;
    } catch {
      return 0;
    }
  }

  async function keepCalling(life: Pick<Life, "data">, id: string): Promise<void> {
    while (!stopping.signal.aborted) {
      const status = await call(life, id);
      calls[status] = (calls[status] ?? 0) + 1;
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  }

  const calling = Promise.all(lives.flatMap((life) => ids.map((id) => keepCalling(life, id))));
  return {
    async stop() {
      stopping.abort();
      await calling;
    },
    audit() {
      const { grants, tallies, requests } = sandbox.seen();
      const refreshes = grants.reduce((sum, grant) => sum + grant.refreshes, 0);
      const inGrace = tallies.supersededInGrace;
      return {
        calls,
        expiries: refreshes - inGrace,
        requests: requests.token ?? 0,
        inGrace,
        reused: tallies.supersededReused,
        revoked: grants.filter(({ revoked }) => revoked).length,
      };
    },
  };
}
