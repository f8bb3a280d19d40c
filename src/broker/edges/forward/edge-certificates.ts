import { createPublicKey } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { makeLeaf } from "../../../base/certificates/leaf.ts";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import {
  EdgeCertificateSchema,
  type HostCertificate,
  HostCertificateSchema,
  type WantedCertificate,
} from "../../../gen/latchkey/v1/edge_pb.ts";
import type { Authorities } from "../../authority/authorities.ts";
import type { HostRoutes } from "../../connections/hosts/host-routes.ts";
import { readRouteRows } from "../../connections/hosts/route-rows.ts";
import type { EdgeAudit } from "../edge-audit.ts";
import { edgeFaultOf } from "../edge-fault.ts";
import type { EdgeStream } from "../edge-stream.ts";

/** Signs server certificates for the forward proxies of edges: only for hosts of their environment's connections. */
export type AnswerWantedCertificate = (stream: EdgeStream, wanted: WantedCertificate) => Promise<void>;

interface EdgeCertificatesOptions {
  readonly authorities: Pick<Authorities, "start" | "signer">;
  readonly routes: Pick<HostRoutes, "routesOf" | "connectionsOf">;
  readonly audit: Pick<EdgeAudit, "certified">;
  readonly world: World;
}

const hourMs = 3_600_000;
/** Half of it is left for brokers that are away. Shorter than in a sidecar: a pod's key may have come to others. */
const lifeMs = 48 * hourMs;

export function createEdgeCertificates(options: EdgeCertificatesOptions): AnswerWantedCertificate {
  const { authorities, routes, audit, world } = options;

  async function issue({ edge }: EdgeStream, { origin, publicKey }: WantedCertificate): Promise<HostCertificate> {
    const host = hostOf(origin);
    const key = keyIn(publicKey);
    const rows = await readRouteRows(routes, edge.environment, origin);
    // A pattern such as https://${connectionConfig.host} alone has any host.
    if (!rows.some(({ isForAll, ids }) => isForAll || ids.length > 0)) {
      throw new Fault("host_not_allowed", `no connection of this environment has the host ${host}`);
    }
    await authorities.start();
    const authority = authorities.signer();
    const nowMs = world.now();
    const certificate = await makeLeaf({ host, publicKey: key, authority, nowMs, lifeMs });
    world.metrics.forwardCertificates.inc();
    return create(HostCertificateSchema, {
      certificate,
      authorityId: authority.id,
      renewAt: timestampFromMs(Math.min(nowMs + lifeMs / 2, authority.untilMs)),
      notAfter: timestampFromMs(Math.min(nowMs + lifeMs, authority.untilMs)),
    });
  }

  return async (stream, wanted) => {
    const { requestId } = wanted;
    try {
      const value = await issue(stream, wanted);
      audit.certified(stream, hostOf(wanted.origin));
      const result = { case: "issued" as const, value };
      stream.outbox.answer({ case: "certificate", value: create(EdgeCertificateSchema, { requestId, result }) });
    } catch (error) {
      const result = { case: "fault" as const, value: edgeFaultOf(error) };
      stream.outbox.answer({ case: "certificate", value: create(EdgeCertificateSchema, { requestId, result }) });
    }
  };
}

/** Returns a name in lower case, or an address without brackets. */
function hostOf(origin: string): string {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  if (url?.protocol !== "https:" || url.origin !== origin) {
    throw new Fault("invalid_body", "`origin` must be https:// and a host in lower case");
  }
  return url.hostname.replace(/^\[(.*)\]$/, "$1");
}

/** Reads the key, so that nothing else is signed. */
function keyIn(publicKey: Uint8Array): Buffer {
  try {
    const key = createPublicKey({ key: Buffer.from(publicKey), type: "spki", format: "der" });
    if (key.asymmetricKeyDetails?.namedCurve === "prime256v1") return key.export({ type: "spki", format: "der" });
  } catch (cause) {
    throw new Fault("invalid_body", "`public_key` must be a key in DER (SubjectPublicKeyInfo)", { cause });
  }
  throw new Fault("invalid_body", "`public_key` must be on the curve P-256");
}
