import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
import { systemAuthorities } from "../../base/certificates/system-authorities.ts";
import {
  AuthorityCertificateSchema,
  AuthorityService,
  RotateAuthorityResponseSchema,
} from "../../gen/latchkey/v1/authority_pb.ts";
import type { Act } from "../session.ts";
import { requireYes, withYes, type YesOption } from "../terminal/confirm.ts";
import { durationMs } from "../terminal/option-values.ts";
import { write } from "../terminal/terminal.ts";
import { listCommand } from "./command-kinds.ts";
import { proxyOfEdge } from "./run/edge-proxy.ts";

interface ExportOptions {
  readonly withSystem?: boolean;
  readonly edge?: string;
}

/** Adds the `ca` commands, for the certificate authority of the forward proxy. */
export function addAuthority(program: Command, act: Act): void {
  const group = program.command("ca").summary("show, export and rotate the forward proxy's certificate authority");
  listCommand(group.command("show").summary("show the certificates that programs must trust"), act, {
    schema: AuthorityCertificateSchema,
    none: "no certificates",
    rpc: async ({ client }) => ({ ...(await client(AuthorityService).getAuthority({})), nextPageToken: "" }),
    items: ({ certificates }) => certificates,
    columns: [
      { title: "ID", text: ({ id }) => id },
      { title: "SHA-256", text: ({ sha256 }) => sha256 },
      { title: "SIGNS FROM", time: ({ signsFrom, notBefore }) => signsFrom ?? notBefore },
      { title: "SIGNS UNTIL", time: ({ signsUntil, notAfter }) => signsUntil ?? notAfter },
      { title: "VALID UNTIL", time: ({ notAfter }) => notAfter },
    ],
  });

  group
    .command("export")
    .option("--with-system", "add the authorities of the system, for programs that read one file only")
    .option(
      "--edge <address>",
      "data listener of an edge, such as http://127.0.0.1:3003, in place of the control plane",
    )
    .summary("print the certificates in PEM")
    .action(
      act(async ({ client, terminal, key }, { withSystem = false, edge }: ExportOptions) => {
        const pem =
          edge === undefined
            ? (await client(AuthorityService).getAuthority({})).certificates.map((one) => one.pem).join("")
            : (await proxyOfEdge({ edge, key, terminal })).pem;
        await write(terminal.stdout, pem + (withSystem ? await systemAuthorities(terminal.env) : ""));
      }),
    );

  withYes(group.command("rotate"))
    .option("--overlap <duration>", "how long the old authority still signs, at most 90d (default: 7d)", durationMs)
    .summary("create the next authority, and end the old one after an overlap")
    .action(
      act(async ({ client, terminal, output }, { overlap, yes }: { readonly overlap?: number } & YesOption) => {
        if (overlap === 0) {
          await requireYes(terminal, "End the old authority at once? Programs that trust only it fail.", yes);
        }
        const request = overlap === undefined ? {} : { overlap: durationFromMs(overlap) };
        const answer = await client(AuthorityService).rotateAuthority(request);
        await output.one(RotateAuthorityResponseSchema, answer);
        if (!output.json) await output.note("Export the certificates again: `latchkey ca export`.");
      }),
    );
}
