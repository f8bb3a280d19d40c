import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Edge, EdgeProof, EdgeSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Lists edges by host and ID; of an environment, unless its name is empty. */
export function listEdges(
  streams: Iterable<EdgeStream>,
  { environment }: { readonly environment: string },
  { size, token }: PageOptions,
): PageOf<Edge> {
  const tokens = pageTokens(["edges", environment]);
  const from = tokens.read(token);
  const rest = [...streams]
    .filter(({ edge }) => environment === "" || edge.environment === environment)
    .map((stream) => ({ stream, place: `${stream.edge.host}\0${stream.edge.id}` }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .filter(({ place }) => from === undefined || place > from);
  const shown = rest.slice(0, size);
  const items = shown.map(({ stream }) => shownEdge(stream));
  return { items, next: rest.length > size ? tokens.write(shown.at(-1)?.place ?? "") : "" };
}

const proofs = {
  key: EdgeProof.KEY,
  service_account: EdgeProof.SERVICE_ACCOUNT,
  certificate: EdgeProof.CERTIFICATE,
} as const;

function shownEdge({ edge, connections, keys }: EdgeStream): Edge {
  const { id, host, version, environment, identity, proof, proofEndsAtMs, connectedAtMs } = edge;
  return create(EdgeSchema, {
    id,
    host,
    version,
    environment,
    identity,
    proof: proofs[proof],
    ...(proofEndsAtMs !== undefined && { proofEndsAt: timestampFromMs(proofEndsAtMs) }),
    connectedAt: timestampFromMs(connectedAtMs),
    connections: connections.size,
    keys: keys.size,
  });
}
