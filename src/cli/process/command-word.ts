/** Returns how a person calls the command line: a checkout has no `latchkey` on the path. */
export const commandWord = (env: Readonly<Record<string, string | undefined>>): string =>
  ["start", "latchkey"].includes(env["npm_lifecycle_event"] ?? "") ? "npm run -s latchkey --" : "latchkey";
