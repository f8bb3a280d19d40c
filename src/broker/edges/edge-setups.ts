import { create } from "@bufbuild/protobuf";
import type { World } from "../../base/world.ts";
import { isSameVersion } from "../../core/edges/edge-version.ts";
import { type EdgeHello, EdgeIntegrationSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import { saysGone } from "./edge-fault.ts";
import type { EdgeProviders } from "./edge-providers.ts";
import { type EdgeStream, noVersion } from "./edge-stream.ts";
import { Followers } from "./followers.ts";
import { createRechecks } from "./rechecks.ts";
import { integrationMessage, type UsedSetup } from "./setup-messages.ts";

/** Integrations with their providers, for the edges that use their connections. */
export interface EdgeSetups {
  /** Sends the provider and the integration of a connection, as far as the edge does not have them. */
  ensure(stream: EdgeStream, used: UsedSetup): void;
  /** Follows what the edge still has, and sends what has changed. */
  resume(stream: EdgeStream, held: Pick<EdgeHello, "integrations" | "providers">): Promise<void>;
  integrationChanged(environment: string, key: string): void;
  /** Checks all that is followed: changes may have been missed. */
  allChanged(): void;
  dropAll(stream: EdgeStream): void;
  close(): void;
}

interface EdgeSetupsOptions {
  readonly integrations: Pick<Integrations, "inUse">;
  readonly providers: Pick<Providers, "lookUp" | "listen">;
  readonly edgeProviders: EdgeProviders;
  readonly onPush: () => void;
  /** Called when a provider has changed, with each integration of it that edges follow. */
  readonly onIntegrationChange: (environment: string, key: string) => void;
  readonly world: World;
}

const checksAtOnce = 8;

const subjectOf = (environment: string, key: string) => `${environment}\0${key}`;

function partsOf(subject: string): { readonly environment: string; readonly key: string } {
  const [environment = "", key = ""] = subject.split("\0");
  return { environment, key };
}

export function createEdgeSetups(options: EdgeSetupsOptions): EdgeSetups {
  const { integrations, providers, edgeProviders, onPush, onIntegrationChange, world } = options;
  const followers = new Followers();
  /** Names of the providers of followed integrations, by integration. */
  const providerOf = new Map<string, string>();

  function ensure(stream: EdgeStream, used: UsedSetup): void {
    const { environment, key, provider } = used.integration;
    const subject = subjectOf(environment, key);
    edgeProviders.ensure(stream, used.provider);
    followers.add(subject, stream);
    providerOf.set(subject, provider);
    const value = integrationMessage(used);
    if (isSameVersion(stream.integrations.get(key) ?? noVersion, value.version)) return;
    stream.integrations.set(key, value.version);
    stream.outbox.put(`integration ${key}`, { case: "integration", value });
    onPush();
  }

  function sendGone(stream: EdgeStream, key: string): void {
    followers.delete(subjectOf(stream.edge.environment, key), stream);
    stream.integrations.delete(key);
    const value = create(EdgeIntegrationSchema, { key });
    stream.outbox.put(`integration ${key}`, { case: "integration", value });
    onPush();
  }

  /** Reads an integration again, for all edges that follow it. */
  async function check(subject: string): Promise<void> {
    const at = partsOf(subject);
    const found = await integrations.inUse(at).catch(unlessGone);
    // Without its provider, nothing of the integration can be used; its connections say so.
    const provider = found && providers.lookUp(found.integration.provider);
    for (const stream of [...followers.of(subject)]) {
      if (found === undefined) sendGone(stream, at.key);
      else if (provider !== undefined) ensure(stream, { ...found, provider });
    }
    if (found === undefined) providerOf.delete(subject);
  }

  const rechecks = createRechecks({ check, atOnce: checksAtOnce, world });
  const recheck = (subject: string) => rechecks.add(subject, subject);

  const stop = providers.listen((names) => {
    for (const name of names) edgeProviders.check(name);
    // Which secrets requests need depends on the provider.
    for (const [subject, provider] of providerOf) {
      if (!names.includes(provider)) continue;
      const { environment, key } = partsOf(subject);
      recheck(subject);
      onIntegrationChange(environment, key);
    }
  });

  return {
    ensure,
    async resume(stream, held) {
      for (const one of held.providers) edgeProviders.resume(stream, one);
      for (const { name: key, version } of held.integrations) {
        stream.integrations.set(key, version);
        const subject = subjectOf(stream.edge.environment, key);
        followers.add(subject, stream);
        // What cannot be read now is read later: the edge goes on with what it has.
        await check(subject).catch(() => recheck(subject));
        await stream.outbox.room();
      }
    },
    integrationChanged: (environment, key) => recheck(subjectOf(environment, key)),
    allChanged() {
      for (const subject of followers.subjects()) recheck(subject);
      edgeProviders.checkAll();
    },
    dropAll(stream) {
      for (const key of stream.integrations.keys()) {
        const subject = subjectOf(stream.edge.environment, key);
        followers.delete(subject, stream);
        if (!followers.has(subject)) providerOf.delete(subject);
      }
      edgeProviders.dropAll(stream);
    },
    close() {
      stop();
      rechecks.close();
    },
  };
}

function unlessGone(error: unknown): undefined {
  if (saysGone(error)) return undefined;
  throw error;
}
