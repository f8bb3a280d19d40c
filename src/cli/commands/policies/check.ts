import type { OwnCommand } from "../../process/own-command.ts";
import { escapeControl } from "../../terminal/escape-control.ts";
import { exitCodes } from "../../terminal/exit-codes.ts";
import { formatCount } from "../../terminal/format.ts";
import { createOutput } from "../../terminal/output.ts";
import { createPaint } from "../../terminal/paint.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { policiesInFile } from "./policy-files.ts";

/** The command `policies check`: checks the policies of a file. Needs no running Latchkey. */
export const checkPoliciesCommand = (terminal: Terminal): OwnCommand => ({
  name: "check",
  summary: "check the policies of a file, such as the configuration; exit code 1 if there is a mistake",
  arguments: ["<file>"],
  canJson: true,
  helpText: "Mistakes are printed as file:line:column. With --json, each is an object on its own line.\n",
  async run([file = ""], { json }) {
    const { policies, mistakes } = policiesInFile(file);
    const output = createOutput(terminal, { json: json === true, paint: createPaint(terminal) });
    for (const mistake of mistakes) {
      if (json === true) await output.document({ mistake });
      else await output.line(escapeControl(mistake));
    }
    if (mistakes.length === 0) await output.note(`${formatCount(policies.length, "policy", "policies")}, no mistakes`);
    return mistakes.length === 0 ? exitCodes.ok : exitCodes.failed;
  },
});
