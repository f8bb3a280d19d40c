import { Argument, type Command } from "commander";
import { type Terminal, write } from "../terminal/terminal.ts";
import { bashCompletion } from "./bash.ts";
import { commandTree } from "./command-tree.ts";
import { fishCompletion } from "./fish.ts";
import { zshCompletion } from "./zsh.ts";

const shells = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion } as const;

const helpText = `
bash: source <(latchkey completion bash)
zsh:  source <(latchkey completion zsh)
fish: latchkey completion fish | source`;

/** `completion SHELL`: a script for the shell, generated from the commands themselves. */
export function addCompletion(program: Command, terminal: Terminal): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>").choices(Object.keys(shells)))
    .summary("print a completion script for a shell")
    .addHelpText("after", helpText)
    .action(async (shell: keyof typeof shells) => {
      await write(terminal.stdout, shells[shell](commandTree(program)));
    });
}
