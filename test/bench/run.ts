/** `npm run bench -- NAME [--count N]`: the figures of the README, each by one command. */
import { parseArgs } from "node:util";
import { connections } from "./connections.ts";
import { start } from "./start.ts";

const benches: Readonly<Record<string, (count: number) => Promise<void>>> = { connections, start };
const { positionals, values } = parseArgs({ allowPositionals: true, options: { count: { type: "string" } } });
const [name = ""] = positionals;
const bench = benches[name];
if (bench === undefined) {
  process.stderr.write(`usage: npm run bench -- ${Object.keys(benches).join("|")} [--count N]\n`);
  process.exitCode = 2;
} else {
  await bench(Number(values.count ?? 0));
}
