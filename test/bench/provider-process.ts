import { type ChildProcess, spawn } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("provider-program.ts", import.meta.url));

export interface Token {
  readonly access_token: string;
  readonly refresh_token: string;
}

interface Said {
  readonly requests: number;
  readonly reused: number;
  readonly tokens: readonly Token[];
}

/** A sandbox in its own process, so that its work does not slow down what is measured. */
export interface Provider {
  readonly origin: string;
  /** Issues this number of grants, and reports what it has seen. */
  say(grants: number): Promise<Said>;
  stop(): Promise<void>;
}

/** `aside`: runs at low priority, since its work is not measured. */
export async function startProvider({ aside = false } = {}): Promise<Provider> {
  const child: ChildProcess = spawn(process.execPath, [program, ...(aside ? ["--aside"] : [])], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const { stdin, stdout } = child;
  if (stdin === null || stdout === null) throw new Error("the provider has no pipes");
  const lines = linesOf(createInterface({ input: stdout }));
  return {
    origin: await lines(),
    async say(grants) {
      stdin.write(`${grants}\n`);
      return JSON.parse(await lines()) as Said;
    },
    stop: () =>
      new Promise((resolve) => {
        child.once("exit", () => resolve());
        stdin.end();
      }),
  };
}

function linesOf(reader: Interface): () => Promise<string> {
  const iterator = reader[Symbol.asyncIterator]();
  return async () => {
    const { done, value } = await iterator.next();
    if (done === true) throw new Error("the provider ended");
    return value;
  };
}
