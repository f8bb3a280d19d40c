import { spawn } from "node:child_process";
import { constants } from "node:os";
import type { ChildProgram } from "../terminal/terminal.ts";

type PassedSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

/** Signals of this process while a program runs in its place. */
export interface SignalSource {
  /** Passes signals to a program, until the returned function is called. */
  passTo(receive: (signal: PassedSignal) => void): () => void;
  /** Whether a person interrupts with the keyboard, which reaches the program by itself. */
  readonly hasKeyboard: boolean;
}

/** As shells say it. */
const notFound = 127;
const notExecutable = 126;
const bySignal = 128;

/** Runs a program with the input and output of this process, and returns its exit code as a shell would. */
export function runChild({ command, args, env }: ChildProgram, signals: SignalSource): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...args], { stdio: "inherit", env });
    const stop = signals.passTo((signal) => {
      if (signal !== "SIGINT" || !signals.hasKeyboard) child.kill(signal);
    });
    child.once("error", (error: NodeJS.ErrnoException) => {
      stop();
      if (error.code === "ENOENT") resolve(notFound);
      else if (error.code === "EACCES") resolve(notExecutable);
      else reject(error);
    });
    child.once("exit", (code, signal) => {
      stop();
      resolve(code ?? bySignal + (signal === null ? 0 : constants.signals[signal]));
    });
  });
}
