import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { escapeControl } from "./escape-control.ts";
import { type Terminal, write } from "./terminal.ts";
import { UsageMistake } from "./usage-mistake.ts";

/** Asks a person, line by line. Questions go to stderr: stdout may go to a program. */
export interface Prompter {
  /** Returns the answer, or the default for an empty one. */
  ask(question: string, options?: QuestionOptions): Promise<string>;
  /** Returns the next line; undefined at the end of the input. */
  line(prompt: string, options?: { readonly isHidden?: boolean }): Promise<string | undefined>;
  close(): void;
}

interface QuestionOptions {
  readonly defaultAnswer?: string;
  /** The answer is not shown, as for a secret. */
  readonly isHidden?: boolean;
  /** Asks again after an empty answer. */
  readonly isRequired?: boolean;
}

export function createPrompter({ stdin, stderr, signal }: Terminal): Prompter {
  let isMuted = false;
  const echo = new Writable({
    write(chunk, _encoding, done) {
      if (!isMuted) stderr.write(chunk);
      done();
    },
  });
  const isTTY = (stdin as { readonly isTTY?: boolean }).isTTY === true;
  const lines = createInterface({ input: stdin, output: echo, terminal: isTTY, signal });
  const waiting: string[] = [];
  let isClosed = false;
  let wake = () => {};
  lines.on("line", (line) => {
    waiting.push(line);
    wake();
  });
  // Ctrl-C is a key press here, not a signal.
  lines.on("SIGINT", () => lines.close());
  lines.on("close", () => {
    isClosed = true;
    wake();
  });

  async function nextLine(): Promise<string | undefined> {
    while (waiting.length === 0 && !isClosed) await new Promise<void>((resolve) => (wake = resolve));
    return waiting.shift();
  }

  const line: Prompter["line"] = async (prompt, { isHidden = false } = {}) => {
    const shown = escapeControl(prompt);
    if (isTTY) {
      lines.setPrompt(shown);
      lines.prompt();
    } else await write(stderr, shown);
    isMuted = isHidden;
    const answer = await nextLine();
    isMuted = false;
    if (isHidden || !isTTY) await write(stderr, "\n");
    return answer;
  };

  return {
    line,
    async ask(question, { defaultAnswer = "", isHidden = false, isRequired = false } = {}) {
      for (;;) {
        const prompt = `${question}${defaultAnswer === "" ? "" : ` [${defaultAnswer}]`}: `;
        const answer = await line(prompt, { isHidden });
        if (answer === undefined) throw new UsageMistake("cancelled");
        const text = answer.trim() === "" ? defaultAnswer : answer.trim();
        if (text !== "" || !isRequired) return text;
      }
    },
    close: () => lines.close(),
  };
}
