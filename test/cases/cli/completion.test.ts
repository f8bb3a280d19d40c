import { execFileSync } from "node:child_process";
import { expect, it } from "vitest";
import { commandTree } from "../../../src/cli/completion/command-tree.ts";
import { createProgram, runCli } from "../../../src/cli/program.ts";
import type { Act } from "../../../src/cli/session.ts";
import { memoryTerminal } from "./memory-terminal.ts";

const own = [{ name: "serve", summary: "run the sidecar", options: [{ flags: "--once", summary: "stop again" }] }];
const idle: Act = () => async () => {};
const tree = commandTree(
  createProgram({ terminal: memoryTerminal(), act: idle, ownCommands: own, keepExitCode: () => {} }),
);

async function scriptFor(shell: string): Promise<string> {
  const terminal = memoryTerminal();
  expect(await runCli(["completion", shell], terminal, own)).toBe(0);
  return terminal.out();
}

it.each(["bash", "zsh", "fish"])("completes every command and every option in %s", async (shell) => {
  const script = await scriptFor(shell);
  const missing = tree.flatMap(({ path, next, options }) => {
    const flags = options.flatMap((option) =>
      option.flags.map((flag) => (shell === "fish" ? flag.replace(/^-+/, "") : flag)),
    );
    return [...path, ...next, ...flags].filter((word) => !script.includes(word));
  });
  expect(tree.length).toBeGreaterThan(30);
  expect(missing).toEqual([]);
});

/** The words that bash would offer after these words. */
function offers(script: string, words: readonly string[]): string[] {
  const ask = 'COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _latchkey; printf "%s\\n" "${COMPREPLY[@]}"';
  const out = execFileSync("bash", ["-c", `${script}\n${ask}`, "bash", "latchkey", ...words], { encoding: "utf8" });
  return out.split("\n").filter((word) => word !== "");
}

it("is a script that bash takes, and that knows where it is", async () => {
  const script = await scriptFor("bash");
  expect(offers(script, ["connections", ""])).toEqual([
    "list",
    "count",
    "get",
    "import",
    "update",
    "metadata",
    "verify",
    "refresh",
    "reconnect",
    "explain",
    "choose",
    "delete",
    "revocations",
    "watch",
  ]);
  expect(offers(script, ["store", ""])).toEqual("status backup verify restore move scrub reseal keys".split(" "));
  expect(offers(script, ["store", "move", "--fr"])).toEqual(["--from", "--from-file"]);
  expect(offers(script, ["-e", "prod", "connections", "metadata", "m"])).toEqual(["merge"]);
  expect(offers(script, ["connections", "list", "--ta"])).toEqual(["--tag"]);
  expect(offers(script, ["integrations", "create", "--callback", ""])).toEqual(["shared", "bound"]);
  expect(offers(script, ["syncs", "trigger", "--mode", ""])).toEqual([
    "incremental",
    "full-refresh",
    "full-refresh-and-clear-cache",
  ]);
  expect(offers(script, ["scripts", ""])).toEqual(["list", "get", "check", "run"]);
  expect(offers(script, ["scripts", "run", "--d"])).toEqual(["--dry-run"]);
  expect(offers(script, ["completion", "z"])).toEqual(["zsh"]);
  expect(offers(script, ["serve", "--on"])).toEqual(["--once"]);
});

it("offers the names that a running latchkey knows, in the environment of the line", async () => {
  // Stands for the program on the path: prints what it was asked.
  const script = `latchkey() { echo "$*" | tr " " "_"; }\n${await scriptFor("bash")}`;
  expect(offers(script, ["call", ""])).toEqual(["--timeout_2s___names_connections"]);
  expect(offers(script, ["connections", "get", "-e", "prod", ""])).toEqual([
    "-e_prod_--timeout_2s___names_connections",
  ]);
  expect(offers(script, ["integrations", "delete", ""])).toEqual(["--timeout_2s___names_integrations"]);
  expect(offers(script, ["status", "-e", ""])).toEqual(["--timeout_2s___names_environments"]);
  expect(offers(script, ["integrations", "create", "x", "--provider", ""])).toEqual(["--timeout_2s___names_providers"]);
  // The command itself is for scripts alone.
  expect(offers(script, ["__"])).toEqual([]);
});

it("knows no other shell", async () => {
  const terminal = memoryTerminal();
  expect(await runCli(["completion", "tcsh"], terminal)).toBe(2);
  expect(terminal.err()).toContain("bash, zsh, fish");
});
