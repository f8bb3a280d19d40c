import { createHash } from "node:crypto";
import tls from "node:tls";
import type { Connection } from "./http1/connection.ts";
import type { ConnectionPool } from "./http1/pooled-connection.ts";
import { type AdmittedOrigin, hrefOf, type Origin } from "./origin.ts";
import type { PendingRequest } from "./pending-request.ts";

/** State of an origin (and client certificate), kept while requests go there. */
export interface Pool extends ConnectionPool {
  /** A stack: the last used connection is the next one used, so the others expire. */
  readonly idle: Connection<Pool>[];
  carrying: number;
  tunnels: number;
  readonly waiting: PendingRequest[];
  /** The origin accepts only HTTP/2: until the origin says otherwise, every request uses HTTP/2. */
  wantsHttp2: boolean;
  usedAt: number;
}

export interface Pools {
  of(origin: AdmittedOrigin): Pool;
  all(): Iterable<Pool>;
  /** Drops pools that have not been used for long. */
  forgetUnused(nowMs: number): void;
}

/** The TLS session is dropped with the pool, so the next connection needs a full handshake. */
const forgetAfterMs = 600_000;

/** `extraCaFor`: PEM, trusted for the origin in addition to the usual authorities. */
export function createPools(extraCaFor: (origin: Origin) => readonly (string | undefined)[]): Pools {
  const pools = new Map<string, Pool>();
  /** Most requests go to the same origin as the one before. */
  let last: { readonly key: string; readonly pool: Pool } | undefined;

  function make(origin: AdmittedOrigin): Pool {
    const { scheme, clientCertificate: own } = origin;
    const extraCa = extraCaFor(origin).filter((one) => one !== undefined);
    const secureContext =
      scheme === "http"
        ? undefined
        : tls.createSecureContext({
            minVersion: "TLSv1.2",
            ...(extraCa.length === 0 ? {} : { ca: [...tls.getCACertificates("default"), ...extraCa] }),
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

/** Origins with a client certificate share connections only with equal certificates and keys. */
export function poolKey(origin: Origin): string {
  const { clientCertificate: own, isApart = false } = origin;
  const href = isApart ? `${hrefOf(origin)} apart` : hrefOf(origin);
  if (own === undefined) return href;
  const digest = createHash("sha256").update(own.certificate).update("\0").update(own.privateKey).digest("base64url");
  return `${href} ${digest}`;
}
