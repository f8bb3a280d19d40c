import { millisecondsIn } from "../core/duration.ts";
import type { OverloadRule } from "../core/limits/overload.ts";
import { type IntegrationRates, integrationName, type Rates } from "../core/limits/rates.ts";
import type { Rate } from "../core/limits/token-buckets.ts";
import type { ConfigFile } from "./file.ts";
import type { Refuse } from "./values.ts";
import type { VariableReader } from "./variable-reader.ts";

/** Settings of the proxy that can change without a restart. */
export interface ProxyLimits {
  /** Maximum number of pending requests and tunnels, to all hosts together. */
  readonly requests: number;
  readonly overload: OverloadRule;
  /** Undefined: no rate limits. */
  readonly rates: Rates | undefined;
}

export const defaultProxyLimits: ProxyLimits = {
  requests: 10_000,
  // Half of a kubelet's probe timeout: shed load before a slow process is restarted.
  overload: { delayMs: 500, forMs: 2_000 },
  rates: undefined,
};

interface ForwardProxySource {
  readonly file: ConfigFile;
  readonly variables: Pick<VariableReader, "text">;
  readonly refuse: Refuse;
}

/** Settings of the forward proxy besides its address. */
interface ForwardProxySettings {
  readonly forwardProxyTunnels: readonly string[];
  readonly forwardProxyCaFile: string | undefined;
}

export function forwardProxyOf({ file, variables: { text }, refuse }: ForwardProxySource): ForwardProxySettings {
  const forwardProxyCaFile = text("LATCHKEY_FORWARD_PROXY_CA_FILE");
  if (forwardProxyCaFile !== undefined && text("LATCHKEY_FORWARD_PROXY_LISTEN") === undefined) {
    refuse("LATCHKEY_FORWARD_PROXY_CA_FILE needs LATCHKEY_FORWARD_PROXY_LISTEN: without it there is no authority");
  }
  return { forwardProxyTunnels: file.forward_proxy?.tunnel ?? [], forwardProxyCaFile };
}

export function proxyLimitsOf({ file: { proxy = {} }, refuse }: { file: ConfigFile; refuse: Refuse }): ProxyLimits {
  const { requests, overload } = defaultProxyLimits;
  return {
    requests: proxy.requests ?? requests,
    overload: {
      delayMs: millisecondsIn(proxy.overload?.delay ?? "") ?? overload.delayMs,
      forMs: millisecondsIn(proxy.overload?.for ?? "") ?? overload.forMs,
    },
    rates: proxy.rates === undefined ? undefined : ratesOf(proxy.rates, refuse),
  };
}

type FileRates = NonNullable<NonNullable<ConfigFile["proxy"]>["rates"]>;
type FileRate = NonNullable<FileRates["per_key"]>;

function ratesOf({ integrations = [], per_key, ...rest }: FileRates, refuse: Refuse): Rates | undefined {
  const general: IntegrationRates = {
    perIntegration: rateOf(rest.per_integration),
    perConnection: rateOf(rest.per_connection),
  };
  const own = new Map(
    integrations.map(({ environment, key, per_integration, per_connection }) => [
      integrationName(environment, key),
      {
        perIntegration: rateOf(per_integration) ?? general.perIntegration,
        perConnection: rateOf(per_connection) ?? general.perConnection,
      },
    ]),
  );
  if (own.size < integrations.length) refuse("proxy.rates.integrations: must name each integration once");
  const perKey = rateOf(per_key);
  const all = [{ perKey }, general, ...own.values()];
  // Without rules, requests are not checked at all.
  if (all.every((rates) => Object.values(rates).every((rate) => rate === undefined))) return undefined;
  return { perKey, ...general, integrations: own };
}

const rateOf = (rate: FileRate | undefined): Rate | undefined =>
  rate && { requests: rate.requests, perMs: millisecondsIn(rate.per) ?? 0, burst: rate.burst ?? rate.requests };
