import type { Command } from "commander";
import { EdgeProof, EdgeSchema, EdgeService } from "../../gen/latchkey/v1/edge_pb.ts";
import type { Act } from "../session.ts";
import { formatNumber } from "../terminal/format.ts";
import { listCommand } from "./command-kinds.ts";

const proofs: Readonly<Record<EdgeProof, string>> = {
  [EdgeProof.UNSPECIFIED]: "",
  [EdgeProof.KEY]: "key",
  [EdgeProof.SERVICE_ACCOUNT]: "service account",
  [EdgeProof.CERTIFICATE]: "certificate",
};

/** Adds the `edges` commands, for sidecars without a store that are connected to a broker. */
export function addEdges(program: Command, act: Act): void {
  const group = program.command("edges").summary("show the edges that are connected to a broker");
  listCommand(
    group.command("list").summary("list the edges that are connected to the broker that answers, by host"),
    act,
    {
      schema: EdgeSchema,
      none: "no edges",
      rpc: ({ client, environment }, page) => client(EdgeService).listEdges({ environment, ...page }),
      items: ({ edges }) => edges,
      columns: [
        { title: "HOST", text: ({ host }) => host },
        { title: "ID", text: ({ id }) => id },
        { title: "ENVIRONMENT", text: ({ environment }) => environment },
        { title: "IDENTITY", text: ({ identity }) => identity },
        { title: "PROOF", text: ({ proof }) => proofs[proof] ?? "" },
        { title: "VERSION", text: ({ version }) => version },
        { title: "CONNECTED", time: ({ connectedAt }) => connectedAt },
        { title: "CONNECTIONS", text: ({ connections }) => formatNumber(connections) },
        { title: "KEYS", text: ({ keys }) => formatNumber(keys) },
      ],
    },
  );
}
