import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { systemAuthorities } from "../../../base/certificates/system-authorities.ts";
import { AuthorityService } from "../../../gen/latchkey/v1/authority_pb.ts";
import type { Act, CommandSession } from "../../session.ts";
import { write } from "../../terminal/terminal.ts";
import { UsageMistake } from "../../terminal/usage-mistake.ts";
import { writeBrowserLaunchers } from "./browser-launchers.ts";
import { accessAtEdge, type ForwardProxyView, proxyOfEdge } from "./edge-proxy.ts";
import { openLocalPort } from "./local-port.ts";
import { programEnvironment } from "./program-environment.ts";
import { writeProgramFiles } from "./program-files.ts";
import { reachable } from "./reachable.ts";
import { accessFor, type RunAccess, shortAccessNote } from "./run-access.ts";

interface RunOptions {
  readonly connection?: readonly string[];
  readonly edge?: string;
  readonly proxy?: string;
}

/** Adds the command `run`, which runs a program behind the forward proxy. */
export function addRun(program: Command, act: Act): void {
  program
    .command("run")
    .summary("run a program whose https requests get their credentials from the forward proxy")
    .argument("<command...>", "the program and its arguments, after --")
    .option(
      "--connection <connection>",
      "connection that it may use, such as github/ada; repeatable",
      (text: string, before: readonly string[] = []) => [...before, text],
    )
    .option(
      "--edge <address>",
      "data listener of an edge, such as http://127.0.0.1:3003, in place of the control plane",
    )
    .option("--proxy <address>", "address of the forward proxy (default: as the control plane says)")
    .action(
      act((session, [command = "", ...args]: readonly string[], options: RunOptions) => {
        const { runProgram } = session.terminal;
        if (runProgram === undefined) throw new UsageMistake("this terminal cannot run programs");
        return withProgramEnvironment(session, options, (env) => runProgram({ command, args, env }));
      }),
    );
}

type Use = (env: Readonly<Record<string, string>>) => Promise<number>;

async function withProgramEnvironment(session: CommandSession, options: RunOptions, use: Use): Promise<number> {
  const { terminal, key } = session;
  const { connection: connections = [], edge } = options;
  const found = edge === undefined ? await proxyOfControl(session) : await proxyOfEdge({ edge, key, terminal });
  const proxy = options.proxy ?? found.address;
  if (proxy === "" || !URL.canParse(proxy)) {
    throw new UsageMistake(
      "the forward proxy is off: set LATCHKEY_FORWARD_PROXY_LISTEN, or pass --proxy http://host:port",
    );
  }
  const access =
    edge === undefined
      ? await accessFor(session, connections)
      : await accessAtEdge({ edge, key, terminal }, connections);
  const folder = await mkdtemp(join(tmpdir(), "latchkey-run-"));
  const authorization = `Basic ${Buffer.from(`latchkey:${access.key}`).toString("base64")}`;
  const localPort = await openLocalPort({ proxy, authorization, uid: process.getuid?.() ?? 0 });
  try {
    const note = shortAccessNote(access, Date.now());
    if (note !== undefined) await write(terminal.stderr, note);
    const files = await writeProgramFiles(folder, found.pem + (await systemAuthorities(terminal.env)));
    const proxyUrl = urlOf(proxy, access);
    const program = { proxyUrl, files, authorities: found.pem, localPort };
    const path = terminal.env["PATH"] ?? "";
    const launchers = await writeBrowserLaunchers({ folder: join(folder, "bin"), path, program });
    return await use(programEnvironment(terminal.env, { ...program, launchers }));
  } finally {
    localPort?.close();
    await access.end();
    await rm(folder, { recursive: true, force: true });
  }
}

async function proxyOfControl({ client, address }: CommandSession): Promise<ForwardProxyView> {
  const { certificates, proxyAddress } = await client(AuthorityService).getAuthority({});
  return { address: reachable(proxyAddress, address), pem: certificates.map(({ pem }) => pem).join("") };
}

const urlOf = (proxy: string, { key }: RunAccess): string =>
  proxy.replace(/^http:\/\//, `http://latchkey:${encodeURIComponent(key)}@`).replace(/\/$/, "");
