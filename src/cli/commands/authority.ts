import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { Command } from "commander";
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
import { systemAuthorities } from "./run/system-authorities.ts";

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
    .summary("print the certificates in PEM")
    .action(
      act(async ({ client, terminal }, { withSystem = false }: { readonly withSystem?: boolean }) => {
        const { certificates } = await client(AuthorityService).getAuthority({});
        const system = withSystem ? await systemAuthorities(terminal.env) : "";
        await write(terminal.stdout, `${certificates.map(({ pem }) => pem).join("")}${system}`);
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
