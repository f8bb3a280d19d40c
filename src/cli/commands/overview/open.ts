import { spawn } from "node:child_process";
import { Argument, type Command } from "commander";
import { ConnectSessionService } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { SignInService } from "../../../gen/latchkey/v1/sign_in_pb.ts";
import { dataAddressOf, dataOption } from "../../data/data-address.ts";
import { findDevState } from "../../process/dev-state.ts";
import type { Act, CommandSession } from "../../session.ts";
import { CommandError } from "../../terminal/command-error.ts";
import type { Terminal } from "../../terminal/terminal.ts";

const pages = ["dashboard", "sandbox", "connect", "health", "docs"] as const;
type Page = (typeof pages)[number];

interface OpenPageOptions {
  readonly data?: string;
  readonly print?: true;
  readonly endUser?: string;
}

/** Adds `open`: opens a page in the browser, or prints its address. */
export function addOpen(program: Command, act: Act): void {
  program
    .command("open")
    .summary("open the dashboard, or another page, in the browser")
    .addArgument(new Argument("[page]", "page to open (default: dashboard, signed in)").choices(pages))
    .option("--print", "print the address only; always on without a terminal")
    .option("--end-user <id>", "end user of the connect page (default: me)")
    .addOption(dataOption())
    .action(
      act(async (session, page: Page | undefined, given: OpenPageOptions) => {
        const url = await addressOfPage(page ?? "dashboard", session, given);
        await session.output.line(url);
        if (given.print !== true && session.terminal.isTerminal) openInBrowser(url, session.terminal);
      }),
    );
}

async function addressOfPage(page: Page, session: CommandSession, given: OpenPageOptions) {
  const { client, environment, terminal } = session;
  const dev = findDevState();
  switch (page) {
    case "dashboard":
      return dashboardLink(session);
    case "sandbox":
      if (dev === undefined) {
        throw new CommandError("not_running", "no `latchkey dev` runs in this folder", [
          "start it with `latchkey dev`",
        ]);
      }
      return `${dev.sandbox}/_sandbox`;
    case "connect": {
      const { connectLink } = await client(ConnectSessionService).createConnectSession({
        environment: environment === "" ? (dev?.environment ?? "") : environment,
        endUser: { id: given.endUser ?? "me" },
      });
      return connectLink;
    }
    case "health":
      return `${dataAddressOf(given.data, terminal).baseUrl}/health`;
    case "docs":
      return `${dataAddressOf(given.data, terminal).baseUrl}/docs/errors`;
  }
}

/** Returns a link that signs a browser in once, for a minute, with the key of this command. */
async function dashboardLink({ client, address, output }: CommandSession): Promise<string> {
  const { origin, path } = await client(SignInService).createSignInLink({});
  const base = origin === "" ? address : origin;
  if (base.startsWith("unix:")) {
    throw new CommandError("no_address", "the dashboard listens on a Unix socket, which browsers cannot open", [
      "set LATCHKEY_UI_LISTEN to host:port",
    ]);
  }
  await output.note("The link signs in one browser, within a minute.");
  return `${base.includes("://") ? base : `http://${base}`}${path}`;
}

/** Starts the browser of the system, if there is a screen. */
function openInBrowser(url: string, { env }: Terminal): void {
  const { platform } = process;
  if (platform !== "darwin" && platform !== "win32" && !env["DISPLAY"] && !env["WAYLAND_DISPLAY"]) return;
  const [program, ...words] =
    platform === "darwin"
      ? ["open"]
      : platform === "win32"
        ? ["rundll32", "url.dll,FileProtocolHandler"]
        : ["xdg-open"];
  const browser = spawn(program ?? "xdg-open", [...words, url], { stdio: "ignore", detached: true });
  // The address is printed: a person can open it.
  browser.on("error", () => {});
  browser.unref();
}
