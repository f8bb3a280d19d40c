/**
 * `npm run faults:failover`: kills primaries of PostgreSQL under Patroni during webhooks, refreshes and writes, then
 * promotes a standby that lacks the last commits, and counts. Exits with 1 if a promise of the documents was broken.
 */
import { writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { describeFailover, type FailoverOutcome, runFailover } from "./run.ts";

const help = `npm run faults:failover -- [options]

  --count N     webhooks to send (100000)
  --senders N   connections that send at once (24)
  --kills N     the fewest kills of a primary, by turns of the machine and of PostgreSQL alone (6)
  --freeze      freezes the primary's machine as well (SIGSTOP), each third time, and thaws it when another one leads
  --strict      Patroni's synchronous_mode_strict
  --etcd        a member of etcd on each machine, which dies with it, instead of one that never fails; not with --freeze,
                after which Patroni 3.0 may no longer name a synchronous standby
  --every N     seconds from one kill to the next (30)
  --ttl N       seconds after which Patroni replaces a dead machine (15)
  --token N     seconds until a token of the provider expires (20)
  --grace N     seconds for which the provider takes a replaced refresh token again (60)

The long form, of about an hour on two cores:
  npm run faults:failover -- --count 1000000

It needs patroni, etcd-server, pgbouncer and postgresql of Debian; none may run as a service.
`;

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const { values } = parseArgs({
  options: {
    ...{ count: text, senders: text, kills: text, every: text, ttl: text, token: text, grace: text },
    ...{ freeze: flag, strict: flag, etcd: flag, help: flag },
  },
});
const writesBackWithinMs = 30_000;
const noticedWithinMs = 10_000;
const shownOfLost = 50;
// Broken off, it leaves no server behind.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(2));
const say = (line: string) => void writeSync(1, `${line}\n`);

if (values.help || (values.freeze === true && values.etcd === true)) {
  say(help);
  process.exitCode = values.help ? 0 : 2;
} else {
  const outcome = await runFailover({
    count: Number(values.count ?? 100_000),
    senders: Number(values.senders ?? 24),
    kills: Number(values.kills ?? 6),
    everyMs: Number(values.every ?? 30) * 1_000,
    ttl: Number(values.ttl ?? 15),
    accessTokenS: Number(values.token ?? 20),
    graceS: Number(values.grace ?? 60),
    kinds: values.freeze === true ? ["frozen", "machine", "postgres"] : ["machine", "postgres"],
    isStrict: values.strict === true,
    hasOwnEtcd: values.etcd === true,
    say: (line) => say(`${new Date().toISOString().slice(11, 19)} ${line}`),
  });
  process.exitCode = tell(outcome) ? 0 : 1;
}

/** Prints the outcome. Returns whether all is well. */
function tell({ failovers, renewals, metadata, stale, lost, wrong, ended, ...figures }: FailoverOutcome): boolean {
  for (const failover of failovers) say(describeFailover(failover));
  const { calls, ...tokens } = renewals;
  const shown = {
    ...{ ...figures, minutes: figures.minutes.toFixed(1), lost: lost.length, wrong: wrong.length },
    ...{ ...tokens, "calls by status": JSON.stringify(calls) },
    "metadata writes": `${metadata.acknowledged} acknowledged, ${metadata.refused} refused, ${metadata.lost.length} lost`,
    "stale standby noticed": `${stale.noticedMs.join(", ")} ms; writes after ${stale.writableMs.join(", ")} ms`,
    "rolled-back credential": `${stale.usedLater} calls`,
    "processes that ended": ended.length,
  };
  for (const [name, value] of Object.entries(shown)) say(`${name.padEnd(24)} ${value}`);
  for (const one of [...lost, ...wrong, ...metadata.lost, ...ended].slice(0, shownOfLost)) say(one);
  return (
    [lost, wrong, metadata.lost, ended].every((one) => one.length === 0) &&
    figures.misled + renewals.reused + renewals.revoked + stale.usedLater === 0 &&
    renewals.requests === renewals.expiries + renewals.inGrace &&
    failovers.every(({ writesBackMs }) => writesBackMs.every((ms) => ms <= writesBackWithinMs)) &&
    stale.noticedMs.every((ms) => ms <= noticedWithinMs)
  );
}
