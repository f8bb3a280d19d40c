import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  ConnectionService,
  Connection_State as State,
  VerifyConnectionResponse_Verdict as Verdict,
} from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";
import { fixtureNames, listOf, readFixture } from "../../support/providers/fixture.ts";
import { connectAnswers, get, tokenUrlsOf } from "../../support/providers/provider-run.ts";
import { ProviderTrial } from "../../support/providers/provider-trial.ts";
import {
  callHeaders,
  environment,
  type ProvidersWorld,
  providerOf,
  startProvidersWorld,
} from "../../support/providers/providers-world.ts";
import { WebhookTrial } from "../../support/providers/webhook-trial.ts";
import { lacks } from "../../support/sidecar/needs.ts";

/**
 * Takes every provider of the catalog through what its documentation says: authorization, tokens, a refresh, a dead
 * grant, a proxied call, pages, the verification request, and webhooks with their mutations.
 */
const catalogue = loadCatalogue();
const chosen = process.env["LATCHKEY_TEST_PROVIDERS"]?.split(",");
const names = [...catalogue.keys()].filter((name) => chosen === undefined || chosen.includes(name));

/** A test that a provider needs only where its description says so. */
function itWhere(applies: boolean, name: string, run: () => Promise<void>): void {
  if (applies) it(name, run);
}

it("has no fixture without a provider", () => {
  expect(fixtureNames().filter((name) => !catalogue.has(name))).toEqual([]);
});

describe.skipIf(lacks("lowPorts"))("every provider", () => {
  let world: ProvidersWorld;
  beforeAll(async () => {
    world = await startProvidersWorld(names);
  });
  afterAll(() => world.stop());

  describe.each(names)("%s", (name) => {
    const trial = new ProviderTrial(() => world, name);
    const webhooks = new WebhookTrial(() => world, name);
    const { fixture, provider } = trial;

    it("has a fixture for all that its description says", () => {
      expect(fixtureNames()).toContain(name);
      expect(trial.lacking()).toEqual([]);
    });

    it("connects an account", () => trial.connect());

    it("sends requests to the documented place, with the credentials", () => trial.call());

    itWhere(trial.isPaged, "finds the next page", () => trial.pages());

    itWhere(provider.verification !== undefined, "tells accepted credentials from refused ones", async () => {
      expect(await trial.verdictOn(fixture.probe?.good)).toBe(Verdict.ACCEPTED);
      expect(await trial.verdictOn(fixture.probe?.bad)).toBe(Verdict.REFUSED);
    });

    itWhere(fixture.webhook !== undefined, "proves its webhooks, and no others", async () => {
      for (const vector of listOf(fixture.webhook)) await webhooks.check(vector);
    });

    itWhere(fixture.challenge !== undefined, "answers the sender that verifies the URL", async () => {
      for (const vector of listOf(fixture.challenge)) await webhooks.challenge(vector);
    });

    itWhere(fixture.refresh !== undefined, "refreshes its tokens", () => trial.refresh());
  });

  // These wait for a second each, so all providers wait together.
  it("waits where a provider's limit is reached", async () => {
    const limited = names.filter((name) => readFixture(name)?.limited !== undefined);
    const asked = new Map<string, number>();
    world.played.play(({ url }) => {
      const name = new URL(url).searchParams.get("limited") ?? "";
      const count = (asked.get(name) ?? 0) + 1;
      asked.set(name, count);
      return count === 1 ? readFixture(name)?.limited : { body: { ok: true } };
    });
    const answers = await Promise.all(
      limited.map(async (name) => {
        const path = `${readFixture(name)?.call?.path ?? "/"}?limited=${name}`;
        const { status } = await get(`${world.sidecar.data}/proxy${path}`, {
          ...callHeaders(world, name),
          retries: "1",
        });
        return [name, status, asked.get(name)];
      }),
    );
    expect(answers).toEqual(limited.map((name) => [name, 200, 2]));
  });

  it("knows that grants are over", async () => {
    const dying = names.filter((name) => readFixture(name)?.dead_grant !== undefined);
    const byHost = Map.groupBy(dying, (name) => tokenUrlsOf(providerOf(name)).at(-1) ?? "");
    const turns = Math.max(0, ...[...byHost.values()].map((group) => group.length));
    for (let turn = 0; turn < turns; turn += 1) {
      const now = [...byHost.values()].flatMap((group) => group[turn] ?? []);
      const answers = now.map((name) => {
        const fixture = readFixture(name) ?? {};
        return connectAnswers(providerOf(name), { ...fixture, exchanges: [], describe: [] }, fixture.dead_grant);
      });
      world.played.play((request) => answers.map((answer) => answer(request)).find((one) => one !== undefined));
      const states = await Promise.all(now.map((name) => stateAfterRefresh(name)));
      expect(states).toEqual(now.map((name) => [name, State.REAUTHORIZATION_REQUIRED]));
    }
  });

  async function stateAfterRefresh(name: string) {
    const id = world.ids.get(name) ?? "";
    await world.sidecar.rest("GET", `/connections/${id}?provider_config_key=${name}&force_refresh=true`);
    const ref = { environment, integration: name, id };
    const { connection } = await world.sidecar.client(ConnectionService).getConnection({ ref });
    return [name, connection?.state];
  }
});
