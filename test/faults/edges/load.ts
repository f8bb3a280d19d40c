import { Agent, request } from "node:http";
import { secretKey } from "../../support/sidecar/harness.ts";
import type { Member } from "./member.ts";

/** Calls to providers at a fixed rate, whatever the answers. */
export interface Load {
  stop(): Promise<LoadFindings>;
}

export interface LoadFindings {
  /** By status; 0: no answer. */
  readonly calls: Readonly<Record<string, number>>;
  /** The slowest call. */
  readonly worstMs: number;
  /** The first calls without an answer: when, at which edge, and why. */
  readonly unanswered: readonly string[];
}

interface LoadOptions {
  readonly edges: readonly Pick<Member, "data">[];
  /** Calls a second. */
  readonly rate: number;
  readonly ids: readonly string[];
  /** Whether a connection is one of the sandbox. */
  readonly isRenewing: (id: string) => boolean;
}

const tickMs = 10;
const answerWithinMs = 30_000;
const mostNoted = 50;

export function startLoad({ edges, rate, ids, isRenewing }: LoadOptions): Load {
  const agent = new Agent({ keepAlive: true });
  const calls: Record<string, number> = {};
  const open = new Set<Promise<void>>();
  const unanswered: string[] = [];
  let worstMs = 0;
  let sent = 0;
  const beganAt = performance.now();

  function call(n: number): Promise<void> {
    const id = ids[Math.floor(n / edges.length) % ids.length] ?? "";
    const { data = "" } = edges[n % edges.length] ?? {};
    const since = performance.now();
    return new Promise((resolve) => {
      let isOver = false;
      const end = (status: number, error?: Error & { readonly code?: string }) => {
        if (isOver) return;
        isOver = true;
        if (error !== undefined && unanswered.length < mostNoted) {
          const at = [since, performance.now()].map((ms) => `${((ms - beganAt) / 1_000).toFixed(1)} s`).join(" to ");
          const over = asked.reusedSocket ? "a kept" : "a new";
          unanswered.push(`${at}, edge ${(n % edges.length) + 1}, ${over} connection: ${error.code} ${error.message}`);
        }
        calls[status] = (calls[status] ?? 0) + 1;
        worstMs = Math.max(worstMs, performance.now() - since);
        resolve();
      };
      const path = isRenewing(id) ? "/proxy/drive/v3/files?pageSize=1" : "/proxy/";
      const asked = request(`${data}${path}`, {
        agent,
        signal: AbortSignal.timeout(answerWithinMs),
        headers: {
          authorization: `Bearer ${secretKey}`,
          "provider-config-key": isRenewing(id) ? "sandbox-unified" : "keyed",
          "connection-id": id,
        },
      });
      asked.on("response", (response) => {
        response.resume();
        response.on("end", () => end(response.statusCode ?? 0));
        response.on("error", (error) => end(0, error));
      });
      asked.on("error", (error) => end(0, error));
      asked.end();
    });
  }

  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - beganAt) / 1_000) * rate);
    for (; sent < due; sent += 1) {
      const one = call(sent).finally(() => open.delete(one));
      open.add(one);
    }
  }, tickMs);

  return {
    async stop() {
      clearInterval(timer);
      await Promise.all(open);
      agent.destroy();
      return { calls, worstMs, unanswered };
    },
  };
}
