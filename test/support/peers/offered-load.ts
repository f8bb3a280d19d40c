import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import type { LimitedProvider } from "./limited-provider.ts";

const limit = 100;

export interface LoadedReplica {
  /** Address of its data listener. */
  readonly data: string;
}

export interface OfferedLoad {
  /** Key of the environment. */
  readonly key: string;
  readonly replicas: readonly LoadedReplica[];
  readonly provider: LimitedProvider;
  readonly warmUpMs: number;
  readonly lengthMs: number;
  /** Requests a second of all replicas together. */
  readonly background: number;
  readonly interactive: number;
}

export interface LoadResult {
  /** Requests a second that the provider accepted. */
  readonly passed: number;
  /** Part of the provider's responses that are a 429. */
  readonly refusedPart: number;
  readonly interactiveP99Ms: number;
  /** Refused for another reason than an overloaded replica. */
  readonly interactiveRefused: number;
}

/** The settings of replicas that know a provider with a limit of 100 requests a second. */
export function limitedSettings({ port }: LimitedProvider) {
  const description = {
    name: "limited",
    api_key: { header: "x-key" },
    proxy: { base_url: `https://127.0.0.1:${port}` },
    quota: { limits: [{ owner: "client", requests: limit, period: "1s" }] },
  };
  return {
    allowPrivate: allowPrivateFor(`http://127.0.0.1:${port}`),
    file: JSON.stringify({ providers: [description] }),
  };
}

/** Creates the integration and its connection. */
export async function connectLimited({
  data,
  key,
}: Pick<OfferedLoad, "key"> & { readonly data: string }): Promise<void> {
  const credentials = { type: "API_KEY", apiKey: "k" };
  for (const [path, body] of [
    ["/integrations", { unique_key: "limited", provider: "limited" }],
    ["/connections", { connection_id: "ada", provider_config_key: "limited", credentials }],
  ] as const) {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const { ok } = await fetch(`${data}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!ok) throw new Error(`${path} failed`);
  }
}

const headersOf = (priority: string, key: string) => ({
  authorization: `Bearer ${key}`,
  "provider-config-key": "limited",
  "connection-id": "ada",
  ...(priority === "background" && { "latchkey-priority": "background" }),
});

/** Offers requests at a steady pace, whatever becomes of those before, and measures after a warm-up. */
export async function offerLoad(load: OfferedLoad): Promise<LoadResult> {
  const { replicas, provider, warmUpMs, lengthMs, background, interactive } = load;
  const began = performance.now();
  const waits: number[] = [];
  let interactiveRefused = 0;
  const open = new Set<Promise<void>>();
  const send = (priority: "interactive" | "background", replica: LoadedReplica) => {
    const since = performance.now();
    const sent = fetch(`${replica.data}/proxy/items`, { headers: headersOf(priority, load.key) }).then(
      async (response) => {
        await response.arrayBuffer();
        if (priority === "background" || since - began < warmUpMs) return;
        waits.push(performance.now() - since);
        // On a busy machine a replica may refuse what it cannot do in time: that has nothing to do with the limit.
        const isOverloaded = response.headers.get("latchkey-error") === "overloaded";
        if (response.status !== 200 && !isOverloaded) interactiveRefused += 1;
      },
      () => undefined,
    );
    open.add(sent);
    void sent.finally(() => open.delete(sent));
  };
  let [sentBackground, sentInteractive] = [0, 0];
  let atWarm: { passed: number; refused: number } | undefined;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const passedMs = performance.now() - began;
      if (passedMs >= warmUpMs) atWarm ??= { ...provider.counts };
      if (passedMs >= warmUpMs + lengthMs) {
        clearInterval(timer);
        resolve();
        return;
      }
      for (; sentBackground < (passedMs / 1_000) * background; sentBackground += 1) {
        const replica = replicas[sentBackground % replicas.length];
        if (replica !== undefined) send("background", replica);
      }
      for (; sentInteractive < (passedMs / 1_000) * interactive; sentInteractive += 1) {
        const replica = replicas[sentInteractive % replicas.length];
        if (replica !== undefined) send("interactive", replica);
      }
    }, 5);
  });
  const measuredMs = performance.now() - began - warmUpMs;
  const passed = provider.counts.passed - (atWarm?.passed ?? 0);
  const refused = provider.counts.refused - (atWarm?.refused ?? 0);
  await Promise.allSettled(open);
  waits.sort((a, b) => a - b);
  return {
    passed: (passed * 1_000) / measuredMs,
    refusedPart: refused / Math.max(1, passed + refused),
    interactiveP99Ms: waits[Math.floor(waits.length * 0.99)] ?? 0,
    interactiveRefused,
  };
}
