import { expect, it, onTestFinished } from "vitest";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { startFaceWorld } from "../../support/faces/face-world.ts";
import { type Face, openFaces, unsendable } from "../../support/faces/faces.ts";
import { type FuzzedRequest, fuzzedRequest } from "../../support/faces/fuzzed-request.ts";
import { createRandom } from "../../support/policies/random.ts";
import { fuzzSeeds } from "../../support/runner/seeded.ts";

/** `npm run faults:faces` sends 100,000 over each face, with a random seed. */
const count = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 400);
const [seed = 31] = fuzzSeeds([31]);
const workers = 16;

type Judged = readonly [effect: keyof typeof PolicyEffect, condition: string];

const conditionsFor = (second: string): readonly Judged[] => [
  ["DENY", 'request.method == "DELETE" && request.path.startsWith("/admin")'],
  ["DENY", 'request.method == "DELETE" && request.path.startsWith("/v1/admin")'],
  ["DENY", '"x-team" in request.headers && request.headers["x-team"].contains("red")'],
  ["DENY", 'request.path.matches("^(/v1)?/files/[0-9]{3}$") || request.path == "/teamless"'],
  ["DENY", '"drop" in request.query && request.query.drop.exists(v, v == "all")'],
  ["DENY", 'request.path.startsWith("/pay") && request.body != null && request.body.amount > 100'],
  ["DENY", 'request.path.startsWith("/big") && request.size > 20'],
  ["DENY", `request.host == "${second}" && request.path.startsWith("/repos/a")`],
  ["ALLOW", 'request.method != "PROPFIND" && request.raw_path.size() < 48'],
  ["LOG", 'request.method == "POST"'],
];

/** Refusals by policies and by the limits of a caller: whatever one of these refuses, no face may send. */
const refusals = new Set(["denied_by_policy", "not_in_session"]);

interface Differences {
  /** Sent on one face, and refused by a policy or limits on another. */
  readonly passed: string[];
  /** The provider got something else. */
  readonly sentOther: string[];
  /** Sent on one face, and refused for another reason on another: by the pair of faces and codes. */
  readonly unequal: Map<string, string>;
  readonly verdicts: Map<string, number>;
}

function compare(request: FuzzedRequest, outcomes: readonly Outcome[], found: Differences): void {
  for (const { verdict } of outcomes) found.verdicts.set(verdict, (found.verdicts.get(verdict) ?? 0) + 1);
  const sent = outcomes.filter(({ verdict }) => verdict === "sent");
  const [first] = sent;
  if (first === undefined) return;
  const shown = () => JSON.stringify({ request, outcomes: outcomes.map(({ face, verdict }) => [face, verdict]) });
  if (outcomes.some(({ verdict }) => refusals.has(verdict))) found.passed.push(shown());
  const other = sent.find(({ arrived }) => arrived !== first.arrived);
  if (other !== undefined) found.sentOther.push(JSON.stringify([first, other]));
  for (const { face, verdict } of outcomes) {
    if (verdict === "sent" || refusals.has(verdict)) continue;
    const pair = `${first.face}: sent; ${face}: ${verdict}`;
    if (!found.unequal.has(pair)) found.unequal.set(pair, shown());
  }
}

const openSockets = (): number => process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;

interface Outcome {
  readonly face: string;
  readonly verdict: string;
  /** What the provider got. */
  readonly arrived: string | undefined;
}

it("comes to the same verdict on every face", { timeout: 7_200_000 }, async () => {
  process.stdout.write(`fuzz: LATCHKEY_FUZZ_SEED=${seed} LATCHKEY_FUZZ_COUNT=${count}\n`);
  const { world, running, take } = await startFaceWorld();
  const policies = running.client(PolicyService);
  for (const [effect, condition] of conditionsFor(world.hosts.second)) {
    await policies.createPolicy({ policy: { environment: "dev", effect: PolicyEffect[effect], condition } });
  }
  const probe = openFaces(world);
  onTestFinished(probe.close);
  const last: FuzzedRequest = {
    ...{ method: "PROPFIND", target: "/last", headers: [], body: "", place: "first", caller: "key" },
  };
  const inForce = async () =>
    Promise.all(probe.faces.filter(({ takes }) => takes(last)).map((face) => face.send("", last)));
  await expect.poll(async () => new Set(await inForce())).toEqual(new Set(["denied_by_policy"]));

  const found: Differences = { passed: [], sentOther: [], unequal: new Map(), verdicts: new Map() };
  const random = createRandom(seed);
  let next = 0;
  const ask = async (face: Face, n: number, request: FuzzedRequest): Promise<Outcome> => {
    const id = `${n}.${face.name.replaceAll(/[^a-z0-9]/gi, "-")}`;
    let verdict = await face.send(id, request);
    // A busy machine may miss the deadline of a handshake or a head.
    if (verdict === "closed" || verdict === "request_timeout") verdict = await face.send(id, request);
    const arrived = take(id);
    // The provider has not seen it: somebody else has answered.
    return { face: face.name, verdict: verdict === "sent" && arrived === undefined ? "answered" : verdict, arrived };
  };
  const work = async () => {
    const { faces, close } = openFaces(world);
    while (next < count && found.passed.length === 0 && found.sentOther.length === 0) {
      const n = next++;
      if (n > 0 && n % 10_000 === 0) process.stdout.write(`${n} requests: ${JSON.stringify([...found.verdicts])}\n`);
      const request = fuzzedRequest(random);
      const able = faces.filter(({ takes }) => takes(request));
      const outcomes = await Promise.all(able.map((face) => ask(face, n, request)));
      compare(
        request,
        outcomes.filter(({ verdict }) => verdict !== unsendable),
        found,
      );
    }
    close();
  };
  await Promise.all(Array.from({ length: workers }, work));
  process.stdout.write(`${JSON.stringify([...found.verdicts])}\n`);
  probe.close();
  await expect.poll(openSockets).toBeLessThan(300);
  expect(found.passed.slice(0, 3)).toEqual([]);
  expect(found.sentOther.slice(0, 3)).toEqual([]);
  expect([...found.unequal].slice(0, 5)).toEqual([]);
  const total = [...found.verdicts.values()].reduce((sum, one) => sum + one, 0);
  for (const verdict of ["sent", "denied_by_policy", "not_in_session"]) {
    expect([verdict, (found.verdicts.get(verdict) ?? 0) > total / 20]).toEqual([verdict, true]);
  }
});
