import type { Terminal } from "./terminal.ts";

export type Tone = "plain" | "bold" | "dim" | "good" | "warning" | "bad";
export type Paint = (tone: Tone, text: string) => string;

// SGR: ECMA-48, section 8.3.117.
const codes = { bold: 1, dim: 2, good: 32, warning: 33, bad: 31 } as const;

/** Colors text for people: never in a pipe, nor if NO_COLOR (no-color.org) is set. */
export function createPaint({ isTerminal, env }: Pick<Terminal, "isTerminal" | "env">): Paint {
  if (!isTerminal || env.NO_COLOR || env.TERM === "dumb") return (_tone, text) => text;
  return (tone, text) => (tone === "plain" ? text : `\x1b[${codes[tone]}m${text}\x1b[0m`);
}
