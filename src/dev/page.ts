import { command, flagPairs } from "./shell.ts";
import { type TourData, tourSteps } from "./tour.ts";

interface DevPageData extends TourData {
  readonly control: string;
  readonly ops: string;
  /** The API key and the password that the sandbox accepts. */
  readonly accepted: { readonly apiKey: string; readonly user: { readonly name: string; readonly password: string } };
  readonly storeLocation: string;
  /** Sample connections that were not replaced, since the developer has changed them. */
  readonly kept: readonly string[];
}

/** Returns the text that `latchkey dev` prints once it is ready. */
export function devPage(page: DevPageData): string {
  const { data, control, ops, sandbox, accepted, storeLocation, kept } = page;
  const listeners = [
    ["data", data, "your service calls this"],
    ["control", control, "the command line calls this"],
    ["ops", ops, "probes and metrics"],
    ["sandbox", `${sandbox}/_sandbox`, "a page: its users and requests"],
  ] as const;
  const widest = Math.max(...listeners.map(([, address]) => address.length));
  const lines = listeners.map(([name, address, use]) => `  ${name.padEnd(9)}${address.padEnd(widest)}   ${use}`);
  const notReplaced =
    kept.length === 0
      ? ""
      : `\nNot replaced, because they are yours: ${kept.join(", ")}.\nCommands below that use them may fail.\n`;
  const steps = tourSteps(page).map(({ title, commands }) => `${[`  # ${title}`, ...commands].join("\n")}\n`);
  return `
latchkey is ready, with a sandbox: a provider to try it with.

${lines.join("\n")}

The sandbox also has providers that take an API key or a password. The connect
page offers them once these two commands have created their integrations:

${createIntegrationCommands(page)}

They accept the API key ${accepted.apiKey}, and the user ${accepted.user.name} with the
password ${accepted.user.password}. The sandbox refuses all others.

Test user Ada is connected: her files, her calendar and her mail. Her tokens are
stored here; the commands below do not contain them.
${notReplaced}
In a second terminal, in this folder, try:

${steps.join("\n")}
The store and its keys are in ${storeLocation}.
Each start gives Ada's connections new tokens. Stop with Ctrl-C.

`;
}

const createIntegrationCommands = ({ latchkey, flags }: TourData): string =>
  ["sandbox-api-key", "sandbox-basic"]
    .map((name) => command(latchkey, "integrations create", name, `--provider ${name}`, "-e dev", ...flagPairs(flags)))
    .join("\n");
