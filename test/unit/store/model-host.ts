import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Commit } from "../../../src/store/contract.ts";
import type { Answer, Ask, Batch, Told } from "./model-protocol.ts";

const child = fileURLToPath(new URL("model-child.ts", import.meta.url));

/** The process that has the store. */
export interface Host {
  /** Sends all requests at once. Undefined: the process died before its answer. */
  ask(asks: readonly Ask[]): Promise<readonly (Answer | undefined)[]>;
  /** Resolves once it is dead. */
  kill(): Promise<void>;
}

/** Called in the order of events, before later requests are answered. */
export interface HostListener {
  onAnswer(ask: Ask, answer: Answer): void;
  onCommit(watch: number, commit: Commit): void;
  onLost(watch: number): void;
}

export function startHost(listener: HostListener): Host {
  const process = fork(child, {
    execArgv: [],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  interface Asked {
    readonly ask: Ask;
    readonly resolve: (answer: Answer | undefined) => void;
    readonly reject: (error: Error) => void;
  }
  const asked = new Map<number, Asked>();
  let last = 0;
  let isDead = false;

  function hear(one: Told): void {
    if ("watch" in one) {
      if ("commit" in one) listener.onCommit(one.watch, one.commit);
      else listener.onLost(one.watch);
      return;
    }
    const waiting = asked.get(one.id);
    asked.delete(one.id);
    if ("defect" in one) {
      waiting?.reject(new Error(`asked for ${JSON.stringify(waiting.ask)}, the store failed: ${one.defect}`));
    } else if (waiting !== undefined) {
      listener.onAnswer(waiting.ask, one.answer);
      waiting.resolve(one.answer);
    }
  }

  process.on("message", (told: readonly Told[]) => {
    for (const one of told) hear(one);
  });
  const over = new Promise<void>((resolve) => {
    process.once("exit", () => {
      isDead = true;
      for (const { resolve } of asked.values()) resolve(undefined);
      asked.clear();
      resolve();
    });
  });

  return {
    ask(asks) {
      if (isDead) return Promise.resolve(asks.map(() => undefined));
      const batch: Batch = {
        asks: asks.map((ask) => {
          last += 1;
          return { id: last, ask };
        }),
      };
      const answers = batch.asks.map(
        ({ id, ask }) => new Promise<Answer | undefined>((resolve, reject) => asked.set(id, { ask, resolve, reject })),
      );
      // A request that cannot be sent is not answered: the end of the process follows.
      process.send(batch, () => {});
      return Promise.all(answers);
    },
    async kill() {
      process.kill("SIGKILL");
      await over;
    },
  };
}
