import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Edge, EdgeSchema } from "../../gen/latchkey/v1/edge_pb.ts";
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

function shownEdge({ edge, connections, keys }: EdgeStream): Edge {
  const { connectedAtMs, ...known } = edge;
  const connectedAt = timestampFromMs(connectedAtMs);
  return create(EdgeSchema, { ...known, connectedAt, connections: connections.size, keys: keys.size });
}
