/**
 * `npm run faults:simulation`: brokers, edges and a store in one program, in a simulated world, under faults that a seed
 * decides. Exits with 1 if a promise was broken, and prints the seed that shows it again.
 */
import { writeSync } from "node:fs";
import { registerHooks } from "node:module";
import { parseArgs } from "node:util";
import { seeded } from "../../support/runner/seeded.ts";
import { replaceHttp2 } from "./world/edge-wire.ts";
import { replaceGlobals } from "./world/globals.ts";
import { world } from "./world/world.ts";

const { values } = parseArgs({
  options: { steps: { type: "string" }, seed: { type: "string" }, verbose: { type: "boolean" } },
});
const startedAt = performance.now();
const realNow = performance.now.bind(performance);
const seed = Number(values.seed ?? Date.now() % 2 ** 31);
const say = (line: string) => void writeSync(1, `${line}\n`);

world.random = seeded(seed);
replaceGlobals(world.time, () => world.random());
replaceHttp2();
const ownUrl = (path: string) => new URL(path, import.meta.url).href;
/** By what is found, not by how an import names it: files of the same folder name it in another way. */
const beatUrl = ownUrl("../../../src/base/loop/beat.ts");
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === "pg") return { url: ownUrl("./world/pg.ts"), shortCircuit: true };
    const found = next(specifier, context);
    return found.url === beatUrl ? { ...found, url: ownUrl("./world/beat.ts") } : found;
  },
});
process.on("unhandledRejection", (error) => world.fail("an unhandled rejection", error));

const { simulate } = await import("./simulate.ts");
const steps = Number(values.steps ?? 100_000);
const outcome = await simulate({ seed, steps, say: values.verbose === true ? say : () => {} });
const seconds = (realNow() - startedAt) / 1_000;
for (const [name, value] of Object.entries(outcome.figures)) say(`${name.padEnd(28)} ${value}`);
say(`${"steps a second".padEnd(28)} ${Math.round(outcome.steps / seconds)}`);
if (outcome.failures.length > 0) {
  for (const line of outcome.last) say(`  ${line}`);
  for (const failure of outcome.failures.slice(0, 10)) say(`FAILED ${failure}`);
  say(`repeat with: npm run faults:simulation -- --steps ${steps} --seed ${seed}`);
}
process.exit(outcome.failures.length === 0 ? 0 : 1);
