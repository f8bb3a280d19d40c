import { createHash } from "node:crypto";
import tls from "node:tls";
import type { Connection, ConnectionPool } from "./http1/connection.ts";
import { type AdmittedOrigin, hrefOf, type Origin } from "./origin.ts";
import type { PendingRequest } from "./pending-request.ts";

/** What is kept of an origin (and client certificate), for as long as anything goes there. */
export interface Pool extends ConnectionPool {
  /** The last one used is the next one used: the others grow old and go. */
  readonly idle: Connection<Pool>[];
  carrying: number;
  tunnels: number;
  readonly waiting: PendingRequest[];
  /** It takes nothing but HTTP/2: until it says otherwise, everything goes to it so. */
  wantsHttp2: boolean;
  usedAt: number;
}

export interface Pools {
  of(origin: AdmittedOrigin): Pool;
  all(): Iterable<Pool>;
  /** Those to which nothing has gone for long. */
  forgetUnused(nowMs: number): void;
}

/** With it goes the TLS session, and the next connection begins from the beginning. */
const forgetAfterMs = 600_000;

/** `extraCa`: PEM, trusted beside the usual authorities. */
export function createPools(extraCa: string | undefined): Pools {
  const pools = new Map<string, Pool>();
  /** Most requests follow one to the same place. */
  let last: { readonly key: string; readonly pool: Pool } | undefined;
  const authorities = extraCa === undefined ? undefined : [...tls.getCACertificates("default"), extraCa];

  function make(origin: AdmittedOrigin): Pool {
    const { scheme, clientCertificate: own } = origin;
    const secureContext =
      scheme === "http"
        ? undefined
        : tls.createSecureContext({
            minVersion: "TLSv1.2",
            ...(authorities === undefined ? {} : { ca: authorities }),
            ...(own === undefined ? {} : { cert: own.certificate, key: own.privateKey }),
          });
    return {
      origin,
      secureContext,
      session: undefined,
      idle: [],
      carrying: 0,
      tunnels: 0,
      waiting: [],
      wantsHttp2: false,
      usedAt: performance.now(),
    };
  }

  return {
    of(origin) {
      const { key } = origin;
      if (last?.key === key) return last.pool;
      const known = pools.get(key);
      const pool = known ?? make(origin);
      if (known === undefined) pools.set(key, pool);
      last = { key, pool };
      return pool;
    },
    all: () => pools.values(),
    forgetUnused(nowMs) {
      for (const [key, pool] of pools) {
        if (pool.carrying + pool.tunnels + pool.waiting.length > 0) pool.usedAt = nowMs;
        else if (nowMs - pool.usedAt > forgetAfterMs) pools.delete(key);
      }
      last = undefined;
    },
  };
}

/** Who brings a certificate of its own shares connections with nobody else. */
export function poolKey(origin: Origin): string {
  const { clientCertificate: own, isApart = false } = origin;
  const href = isApart ? `${hrefOf(origin)} apart` : hrefOf(origin);
  if (own === undefined) return href;
  const digest = createHash("sha256").update(own.certificate).update("\0").update(own.privateKey).digest("base64url");
  return `${href} ${digest}`;
}
