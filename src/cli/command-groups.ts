import type { Command } from "commander";

/** Groups of commands, in the order of the help. */
const groups: readonly (readonly [title: string, commands: readonly string[]])[] = [
  ["Start:", ["dev", "tour", "serve", "sandbox", "config"]],
  ["Set up:", ["environments", "keys", "identities", "sessions", "providers", "integrations", "policies"]],
  ["Connect and call:", ["connect", "connections", "call", "run"]],
  ["Webhooks and scripts:", ["webhooks", "channels", "syncs", "actions", "runs", "scripts"]],
  ["Operate it:", ["status", "doctor", "health", "requests", "logs", "audit", "store", "ca", "system"]],
  ["This command:", ["open", "whoami", "version", "completion", "help"]],
];

/** Groups the commands of the program in its help. */
export function groupCommands(program: Command): void {
  program.commandsGroup("This command:").helpCommand("help [command]", "show the help of a command");
  for (const command of program.commands) {
    const [title] = groups.find(([, names]) => names.includes(command.name())) ?? [];
    if (title !== undefined) command.helpGroup(title);
  }
}

/** Returns the commands in the order of the groups. */
export const inGroupOrder = (commands: readonly Command[]): Command[] => {
  const order = groups.flatMap(([, names]) => names);
  // A command without a group comes last.
  const placeOf = (command: Command) => (order.includes(command.name()) ? order.indexOf(command.name()) : order.length);
  return [...commands].sort((one, other) => placeOf(one) - placeOf(other));
};
