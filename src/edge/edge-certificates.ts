import { generateKeyPair } from "node:crypto";
import { promisify } from "node:util";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { LRUCache } from "lru-cache";
import { pemOf } from "../base/certificates/pem.ts";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import type { HostCertificate, HostCertificates } from "../forward-proxy/leafs.ts";
import type { EdgeCertificate, HostCertificate as IssuedCertificate } from "../gen/latchkey/v1/edge_pb.ts";
import type { AuthorityMemory } from "./authority-memory.ts";
import { faultOf } from "./broker-fault.ts";
import type { Questions } from "./questions.ts";

interface SignedCertificatesOptions {
  readonly authorities: Pick<AuthorityMemory, "certificates">;
  readonly questions: Pick<Questions<IssuedCertificate | Fault>, "ask">;
  readonly world: World;
}

interface KeptCertificate {
  readonly shown: HostCertificate;
  readonly renewAtMs: number;
}

const maxHosts = 1_024;
/** Between two attempts to replace a certificate that still works. */
const againMs = 60_000;

const newKeys = promisify(generateKeyPair);

/** Server certificates that brokers sign. Their private key is made here, and never leaves memory. */
export function createEdgeCertificates({ authorities, questions, world }: SignedCertificatesOptions): HostCertificates {
  const kept = new LRUCache<string, KeptCertificate>({ max: maxHosts });
  const triedAt = new LRUCache<string, number>({ max: maxHosts });
  let keys: Promise<{ readonly pem: string; readonly spki: Buffer }> | undefined;

  async function makeKeys() {
    const { privateKey, publicKey } = await newKeys("ec", { namedCurve: "P-256" });
    return {
      pem: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
      spki: publicKey.export({ type: "spki", format: "der" }),
    };
  }

  const isValid = ({ untilMs }: HostCertificate) => world.now() < untilMs;
  const isCurrent = (shown: HostCertificate) =>
    isValid(shown) && authorities.certificates()[0]?.id === shown.authorityId;

  async function ask(origin: string): Promise<HostCertificate> {
    keys ??= makeKeys();
    const { pem: key, spki } = await keys;
    const answer = await questions.ask({ kind: "certificate", origin, publicKey: spki });
    if (answer instanceof Fault) throw answer;
    const { certificate, authorityId, renewAt, notAfter } = answer;
    const authority = authorities.certificates().find(({ id }) => id === authorityId);
    const shown = {
      cert: pemOf("CERTIFICATE", certificate) + (authority?.pem ?? ""),
      key,
      authorityId,
      untilMs: notAfter === undefined ? 0 : timestampMs(notAfter),
    };
    kept.set(origin, { shown, renewAtMs: renewAt === undefined ? 0 : timestampMs(renewAt) });
    return shown;
  }

  function renewSoon(origin: string): void {
    const nowMs = world.now();
    if (nowMs - (triedAt.get(origin) ?? 0) < againMs) return;
    triedAt.set(origin, nowMs);
    ask(origin).catch((err: unknown) => {
      world.log.debug("could not replace a certificate yet; will retry", { origin, err });
    });
  }

  return {
    async of(_host, origin) {
      const known = kept.get(origin);
      if (known === undefined || !isValid(known.shown)) return ask(origin);
      if (isCurrent(known.shown)) {
        if (known.renewAtMs <= world.now()) renewSoon(origin);
        return known.shown;
      }
      // Its authority has ended. Programs that trust it still take it if no broker can replace it.
      return ask(origin).catch((error: unknown) => {
        if (error instanceof Fault && error.code === "brokers_unavailable") return known.shown;
        throw error;
      });
    },
    isCurrent,
  };
}

/** Returns the certificate, or why there is none. */
export function certificateIn({ result }: EdgeCertificate): IssuedCertificate | Fault {
  if (result.case === "issued") return result.value;
  if (result.case === "fault") return faultOf(result.value);
  return new Fault("brokers_unavailable", "the broker's answer has no certificate");
}
