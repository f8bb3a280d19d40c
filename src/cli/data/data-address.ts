import { Option } from "commander";
import { findDevState } from "../process/dev-state.ts";
import { listeningAddress } from "../session.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { UsageMistake } from "../terminal/usage-mistake.ts";

const defaultDataAddress = "http://127.0.0.1:3003";

/** The option of commands that call the data listener. */
export const dataOption = (): Option =>
  new Option(
    "--data <url>",
    `address of the data listener (env: LATCHKEY_DATA or LATCHKEY_DATA_LISTEN; default: ${defaultDataAddress})`,
  );

/** Where the data listener is: a base URL, and the path of its Unix socket, if it has one. */
export interface DataAddress {
  readonly baseUrl: string;
  readonly socketPath?: string;
  /** As a person writes it. */
  readonly text: string;
}

/** Returns the address of the data listener. */
export function dataAddressOf(given: string | undefined, { env }: Terminal): DataAddress {
  const text =
    given ??
    (env["LATCHKEY_DATA"] ||
      listeningAddress(env["LATCHKEY_DATA_LISTEN"]) ||
      findDevState()?.data ||
      defaultDataAddress);
  if (text.startsWith("unix:/")) return { baseUrl: "http://localhost", socketPath: text.slice("unix:".length), text };
  const url = /^https?:\/\//.test(text) ? text : `http://${text}`;
  if (!URL.canParse(url)) {
    throw new UsageMistake(
      `${given === undefined ? "LATCHKEY_DATA" : "--data"} must be http://host:port or unix:/path`,
    );
  }
  return { baseUrl: url.replace(/\/+$/, ""), text };
}
