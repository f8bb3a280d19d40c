/**
 * `npm run faults:webhooks`: sends webhooks during all kinds of faults, and then counts. Exits with 1 and names them if
 * acknowledged webhooks were not delivered.
 */
import { appendFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { randomSeed } from "../support/runner/seeded.ts";
import { moody } from "./loss/application.ts";
import { type LossOutcome, runLoss } from "./loss/run.ts";

const help = `npm run faults:webhooks -- [options]

  --count N        notifications to send (10000)
  --senders N      connections that send at once (64)
  --kills N        kill -9 of a sidecar (5)
  --power N        emulated power losses: what was not synced is gone (2)
  --full-disks N   the disk is full for a while (2)
  --clock N        steps of the wall clock, to and fro, of 10 minutes to 3 hours (4)
  --backend NAME   level, or postgres: two replicas, one of which is killed, and no faults of the disk (level)
  --seed N         the dice of an earlier run
  --log FILE       what the sidecars warned of, each its last

The long form, of about 40 minutes on two cores:
  npm run faults:webhooks -- --count 1000000 --kills 50 --power 10 --full-disks 5 --clock 10

Failed forwards wait for 5 seconds, 5 minutes and longer. At the end nothing goes wrong any more, and the clock steps
on by an hour whenever nothing arrives, until none waits. Without --power and --full-disks no C compiler is needed.
`;

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    ...{ count: text, senders: text, kills: text, power: text, "full-disks": text, clock: text },
    ...{ backend: text, seed: text, log: text },
    help: { type: "boolean" },
  },
});
const shownOfLost = 50;
// Broken off, it leaves no sidecar behind.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(2));

if (values.help) {
  process.stdout.write(help);
} else {
  const { backend = "level" } = values;
  if (backend !== "level" && backend !== "postgres") throw new Error("--backend is level or postgres");
  const seed = Number(values.seed ?? randomSeed());
  process.stdout.write(`seed ${seed}\n`);
  const outcome = await runLoss({
    ...{ seed, backend, temper: moody, perDestination: 32 },
    count: Number(values.count ?? 10_000),
    senders: Number(values.senders ?? 64),
    kills: Number(values.kills ?? 5),
    power: Number(values.power ?? 2),
    fullDisks: Number(values["full-disks"] ?? 2),
    clockSteps: Number(values.clock ?? 4),
    onLog(lines) {
      if (values.log !== undefined) appendFileSync(values.log, lines);
    },
    say: (line) => void process.stdout.write(`${line}\n`),
  });
  process.exitCode = tell(outcome) ? 0 : 1;
}

/** Prints the outcome. Returns whether all is well. */
function tell({ lost, wrong, ...figures }: LossOutcome): boolean {
  const lines = Object.entries({ ...figures, minutes: figures.minutes.toFixed(1), lost: lost.length });
  for (const [name, value] of lines) process.stdout.write(`${name.padEnd(20)} ${value}\n`);
  for (const one of lost.slice(0, shownOfLost)) process.stdout.write(`lost: ${one}\n`);
  for (const one of wrong.slice(0, shownOfLost)) process.stdout.write(`wrong: ${one}\n`);
  const { acknowledged, sent, misled, duplicates, duplicatesAllowed } = figures;
  return (
    lost.length === 0 && wrong.length === 0 && misled === 0 && acknowledged === sent && duplicates <= duplicatesAllowed
  );
}
