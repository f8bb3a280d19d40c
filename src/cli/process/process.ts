import type { Terminal } from "../terminal/terminal.ts";

export type Signal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** What `serve` and `dev` need of the process, beside a terminal. */
export interface Process extends Pick<Terminal, "env" | "stdout" | "stderr" | "isTerminal"> {
  /** Called on the first of the signals that end us, and on every SIGHUP. A second one ends the process at once. */
  onSignal(handle: (signal: Signal) => void): void;
  onUnhandled(handle: (kind: "rejection" | "exception", error: unknown) => void): void;
  /** Calls back when a file changed, however it was replaced. Returns what ends it. */
  watchFile(path: string, onChange: () => void): () => void;
}
