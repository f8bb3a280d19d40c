import { spawn } from "node:child_process";
import { once } from "node:events";
import { commandWord } from "../cli/process/command-word.ts";
import { devKeyValue, findDevState } from "../cli/process/dev-state.ts";
import { escapeControlInLines } from "../cli/terminal/escape-control.ts";
import { exitCodes } from "../cli/terminal/exit-codes.ts";
import { createPaint, type Paint } from "../cli/terminal/paint.ts";
import { createPrompter } from "../cli/terminal/prompter.ts";
import { type Terminal, write } from "../cli/terminal/terminal.ts";
import { shellWordOf } from "./page.ts";
import { type TourStep, tourSteps } from "./tour.ts";

interface TourOptions {
  readonly terminal: Terminal;
  /** Print the commands, and run none. */
  readonly print: boolean;
  /** The program and its first arguments, which stand for `latchkey` in the commands. */
  readonly program: readonly string[];
}

/** Shows what latchkey does, step by step, with the running `latchkey dev` of this folder. */
export async function tour({ terminal, print, program }: TourOptions): Promise<number> {
  const state = findDevState();
  const key = state && devKeyValue(state.secretKey);
  if (state === undefined || key === undefined) {
    await write(
      terminal.stderr,
      "latchkey: no `latchkey dev` runs in this folder\n  start it in another terminal, in this folder: npm start\n",
    );
    return exitCodes.failed;
  }
  const latchkey = commandWord(terminal.env);
  const steps = tourSteps({ ...state, latchkey });
  if (print) {
    await write(terminal.stdout, printed(steps, shellWordOf(state.secretKey)));
    return exitCodes.ok;
  }
  await write(terminal.stdout, `\nThe commands use your secret key:\n\n  export KEY=${shellWordOf(state.secretKey)}\n`);
  return runSteps(steps, { terminal, key, latchkey, program });
}

/** All commands, to read or to paste. */
const printed = (steps: readonly TourStep[], keyWord: string): string =>
  [
    `  export KEY=${keyWord}\n`,
    ...steps.map(({ title, commands }) => `${[`  # ${title}`, ...commands].join("\n")}\n`),
  ].join("\n");

interface StepRun {
  readonly terminal: Terminal;
  readonly key: string;
  readonly latchkey: string;
  readonly program: readonly string[];
}

const ending =
  "That was the tour. Next, connect your own app: `latchkey integrations create`. A restart of `latchkey dev` gives Ada's connections new tokens.";

async function runSteps(steps: readonly TourStep[], run: StepRun): Promise<number> {
  const { terminal } = run;
  const paint = createPaint(terminal);
  const person = terminal.isTerminal && terminal.canAsk === true ? createPrompter(terminal) : undefined;
  const say = (text: string) => write(terminal.stdout, text);
  let failures = 0;
  try {
    for (const [at, step] of steps.entries()) {
      await say(`\n${paint("bold", `${at + 1}/${steps.length}  ${step.title}`)}\n\n${step.commands.join("\n")}\n\n`);
      const choice = await person?.line(at === 0 ? "Enter runs it, s skips it, q quits: " : "Enter, s or q: ");
      const isOver = person !== undefined && choice === undefined;
      if (terminal.signal.aborted || isOver || choice?.trim() === "q") return exitCodes.ok;
      if (choice?.trim() === "s") continue;
      if (!(await runStep(step, run, paint))) failures += 1;
      await say(`${wrapped(named(step.why, run.latchkey))}\n`);
    }
    await say(`\n${wrapped(named(ending, run.latchkey))}\n`);
  } finally {
    person?.close();
  }
  return failures === 0 ? exitCodes.ok : exitCodes.failed;
}

/** Runs the commands of a step and shows their output. Returns whether all of them worked. */
async function runStep(step: TourStep, { terminal, key, latchkey, program }: StepRun, paint: Paint): Promise<boolean> {
  let good = true;
  for (const command of step.commands) {
    const isOwn = command.startsWith(`  ${latchkey} `);
    // Our own commands lay out their tables for the terminal, if they write to it.
    const isDirect = terminal.isTerminal && isOwn && step.mayFailWith === undefined;
    const run = isOwn ? `${program.map(quote).join(" ")}${command.slice(2 + latchkey.length)}` : command;
    const { code, output, errors } = await inShell(run, { terminal, key, isDirect });
    const isExpected = step.mayFailWith?.test(errors) === true;
    const text = terminal.isTerminal ? abridged(readable(output)) : output;
    await write(terminal.stdout, escapeControlInLines(text === "" || text.endsWith("\n") ? text : `${text}\n`));
    if (code === 0 || isExpected) continue;
    good = false;
    await write(terminal.stderr, escapeControlInLines(errors));
    await write(terminal.stdout, paint("bad", `(exit code ${code})\n`));
  }
  await write(terminal.stdout, "\n");
  return good;
}

const quote = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

interface ShellOptions extends Pick<StepRun, "terminal" | "key"> {
  /** The command writes to the terminal itself. */
  readonly isDirect: boolean;
}

async function inShell(command: string, { terminal, key, isDirect }: ShellOptions) {
  const shell = spawn("sh", ["-c", command], {
    env: { ...terminal.env, KEY: key },
    stdio: ["ignore", isDirect ? "inherit" : "pipe", isDirect ? "inherit" : "pipe"],
    signal: terminal.signal,
  });
  const texts = { output: "", errors: "" };
  shell.stdout?.setEncoding("utf8").on("data", (text) => (texts.output += text));
  shell.stderr?.setEncoding("utf8").on("data", (text) => (texts.errors += text));
  try {
    const [code] = await once(shell, "close");
    return { code: Number(code ?? exitCodes.failed), ...texts };
  } catch (error) {
    return { code: exitCodes.failed, output: texts.output, errors: `${(error as Error).message}\n` };
  }
}

/** Indents JSON, and leaves other text as it is. */
function readable(output: string): string {
  try {
    return JSON.stringify(JSON.parse(output), null, 2);
  } catch {
    return output;
  }
}

const maxLines = 16;

function abridged(text: string): string {
  const lines = text.trimEnd().split("\n");
  return lines.length <= maxLines
    ? text
    : `${lines.slice(0, maxLines).join("\n")}\n… ${lines.length - maxLines} more lines\n`;
}

/** Names the command line as it is called here. */
const named = (text: string, latchkey: string): string => text.replaceAll("`latchkey ", `\`${latchkey} `);

const textWidth = 78;

/** Breaks a paragraph into lines that fit on a terminal of default size. */
function wrapped(text: string): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > textWidth) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
}
