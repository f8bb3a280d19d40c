import type { Command } from "commander";
import { dataOption } from "../../data/data-address.ts";
import type { Act } from "../../session.ts";
import { addOpen } from "./open.ts";
import { addWhoAmI } from "./whoami.ts";

/** Adds the commands that look at all of Latchkey: `status`, `doctor`, `whoami`, `version` and `open`. */
export function addOverview(program: Command, act: Act): void {
  program
    .command("status")
    .summary("show the state of Latchkey on one screen")
    .action(act(async (session) => (await import("./status.ts")).showStatus(session)));
  program
    .command("doctor")
    .summary("check that everything works, and say what to do where it does not")
    .addOption(dataOption())
    .addHelpText("after", doctorHelp)
    .action(
      act(async (session, { data }: { readonly data?: string }) => (await import("./doctor.ts")).doctor(session, data)),
    );
  addWhoAmI(program, act);
  addOpen(program, act);
}

const doctorHelp = `
Each line is ok, warn or fail, and says what to do. Exit code 1 if a check
failed, otherwise 0.`;
