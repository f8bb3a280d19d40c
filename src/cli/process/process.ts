import type { Terminal } from "../terminal/terminal.ts";

export type Signal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** Access to the process for `serve` and `dev`, besides the terminal. */
export interface Process extends Pick<Terminal, "env" | "stdout" | "stderr" | "isTerminal"> {
  /** Called on the first signal to stop, and on every SIGHUP. A second signal to stop ends the process at once. */
  onSignal(handle: (signal: Signal) => void): void;
  onUnhandled(handle: (kind: "rejection" | "exception", error: unknown) => void): void;
  /** Calls back when a file changed, however it was replaced. Returns a function that ends the watch. */
  watchFile(path: string, onChange: () => void): () => void;
}
