import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import type { SigningAuthority } from "../base/certificates/authority.ts";
import { makeLeaf } from "../base/certificates/leaf.ts";
import { pemOf } from "../base/certificates/pem.ts";
import type { World } from "../base/world.ts";

/** A server certificate for a host, with the key that all hosts share. */
export interface HostCertificate {
  readonly cert: string;
  readonly key: string;
  /** The authority that signed it. */
  readonly authorityId: string;
  readonly untilMs: number;
}

/** Server certificates for the hosts of tunnels. */
export interface HostCertificates {
  /**
   * Returns a valid certificate for the host of an origin. Callers that ask for one host at the same time share the
   * work.
   */
  of(host: string, origin: string): Promise<HostCertificate>;
  /** Returns whether a certificate may still be used. */
  isCurrent(certificate: HostCertificate): boolean;
}

interface HostCertificatesOptions {
  readonly authority: () => SigningAuthority;
  readonly world: Pick<World, "now" | "metrics">;
  /** Most hosts that are remembered; the least recently used is forgotten first. */
  readonly max?: number;
}

const dayMs = 86_400_000;
const lifeMs = 7 * dayMs;
/** A certificate is replaced this long before it ends: connections live on with the one that they began with. */
const marginMs = dayMs;
const maxHosts = 10_000;

const newKeys = promisify(generateKeyPair);

export function createHostCertificates(options: HostCertificatesOptions): HostCertificates {
  const { authority, world, max = maxHosts } = options;
  /** In the order of use. Texts: a small buffer would keep the 8 KB alive that Node cuts it from. */
  const known = new Map<
    string,
    { readonly base64: string; readonly authority: SigningAuthority; readonly untilMs: number }
  >();
  const underWay = new Map<string, Promise<HostCertificate>>();
  let keys: Promise<{ readonly pem: string; readonly spki: Buffer }> | undefined;

  async function makeKeys() {
    const { privateKey, publicKey } = await newKeys("ec", { namedCurve: "P-256" });
    return {
      pem: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
      spki: publicKey.export({ type: "spki", format: "der" }),
    };
  }

  const isUsable = (id: string, untilMs: number) => authority().id === id && world.now() < untilMs;

  async function make(host: string): Promise<HostCertificate> {
    keys ??= makeKeys();
    const { pem, spki } = await keys;
    const signer = authority();
    const kept = known.get(host);
    known.delete(host);
    let one = kept;
    if (one === undefined || !isUsable(one.authority.id, one.untilMs)) {
      const nowMs = world.now();
      const der = await makeLeaf({ host, publicKey: spki, authority: signer, nowMs, lifeMs });
      one = { base64: der.toString("base64"), authority: signer, untilMs: nowMs + lifeMs - marginMs };
      world.metrics.forwardCertificates.inc();
    }
    known.set(host, one);
    for (const [oldest] of known) {
      if (known.size <= max) break;
      known.delete(oldest);
    }
    return {
      cert: pemOf("CERTIFICATE", Buffer.from(one.base64, "base64")) + pemOf("CERTIFICATE", one.authority.certificate),
      key: pem,
      authorityId: one.authority.id,
      untilMs: one.untilMs,
    };
  }

  return {
    of(host) {
      const shared = underWay.get(host);
      if (shared !== undefined) return shared;
      const made = make(host).finally(() => underWay.delete(host));
      underWay.set(host, made);
      return made;
    },
    isCurrent: ({ authorityId, untilMs }) => isUsable(authorityId, untilMs),
  };
}
