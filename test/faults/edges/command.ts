/**
 * `npm run faults:edges`: restarts three brokers and their edges one after another, and kills brokers, under calls to
 * providers, refreshes, webhooks and writes; or kills all brokers for a while. Exits with 1 if a promise of the
 * documents was broken.
 */
import { writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { describeAway, runAway } from "./away.ts";
import { describePhase, type RestartsOutcome, runRestarts } from "./run.ts";

const help = `npm run faults:edges -- [options]

  --edges N     edges, each a process (20)
  --rounds N    how often all brokers and edges are restarted, and a broker is killed (3)
  --senders N   connections that send webhooks at once (8)
  --token N     seconds until a token of the provider expires (10)
  --pause N     milliseconds between two calls of a connection through one edge (500)

  --away N      instead of that: kills all brokers for N seconds, and revokes something before edges reach them again
  --rate N      calls a second of all edges meanwhile (500)
`;

const text = { type: "string" } as const;
const { values } = parseArgs({
  options: {
    ...{ edges: text, rounds: text, senders: text, token: text, pause: text },
    ...{ away: text, rate: text },
    help: { type: "boolean" },
  },
});
const shownOfLost = 50;
// Broken off, it leaves no process behind.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(2));
const say = (line: string) => void writeSync(1, `${line}\n`);
const sayWhen = (line: string) => say(`${new Date().toISOString().slice(11, 19)} ${line}`);

if (values.help) {
  say(help);
} else if (values.away !== undefined) {
  const outcome = await runAway({
    ...{ edges: Number(values.edges ?? 20), seconds: Number(values.away), rate: Number(values.rate ?? 500) },
    say: sayWhen,
  });
  say(describeAway(outcome));
  for (const one of [...outcome.ended, ...outcome.unanswered]) say(one);
  process.exitCode = outcome.ended.length === 0 && Object.keys(outcome.calls).join() === "200" ? 0 : 1;
} else {
  const edges = Number(values.edges ?? 20);
  const outcome = await runRestarts({
    ...{ edges, replacedEdges: edges },
    rounds: Number(values.rounds ?? 3),
    senders: Number(values.senders ?? 8),
    accessTokenS: Number(values.token ?? 10),
    pauseMs: Number(values.pause ?? 500),
    say: sayWhen,
  });
  process.exitCode = tell(outcome) ? 0 : 1;
}

/** Prints the outcome. Returns whether all is well. */
function tell({ phases, renewals, metadata, lost, wrong, ended, ...figures }: RestartsOutcome): boolean {
  say("in all:");
  for (const phase of phases) say(describePhase(phase));
  const { calls, ...tokens } = renewals;
  const shown = {
    ...{ ...figures, minutes: figures.minutes.toFixed(1), lost: lost.length, wrong: wrong.length },
    ...{ ...tokens, "calls by status": JSON.stringify(calls) },
    "metadata writes": `${metadata.acknowledged} acknowledged, ${metadata.refused} refused, ${metadata.lost.length} lost`,
    "processes that ended": ended.length,
  };
  for (const [name, value] of Object.entries(shown)) say(`${name.padEnd(24)} ${value}`);
  for (const one of [...lost, ...wrong, ...metadata.lost, ...ended].slice(0, shownOfLost)) say(one);
  return (
    [lost, wrong, metadata.lost, ended].every((one) => one.length === 0) &&
    figures.overtaken + renewals.reused + renewals.revoked === 0 &&
    renewals.requests === renewals.expiries + renewals.inGrace &&
    phases.every(
      ({ what, failedCalls, failedWebhooks, failedWrites }) =>
        failedCalls === 0 && (what === "kill of a broker" || failedWebhooks + failedWrites === 0),
    )
  );
}
