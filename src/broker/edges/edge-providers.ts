import { create } from "@bufbuild/protobuf";
import { isSameVersion } from "../../core/edges/edge-version.ts";
import { EdgeProviderSchema } from "../../gen/latchkey/v1/edge_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { Providers } from "../setup/providers.ts";
import { type EdgeStream, noVersion } from "./edge-stream.ts";
import { Followers } from "./followers.ts";
import { providerMessage } from "./setup-messages.ts";

/** Providers, for the edges that use their connections. */
export interface EdgeProviders {
  /** Sends a provider unless the edge has it. */
  ensure(stream: EdgeStream, provider: Provider): void;
  resume(stream: EdgeStream, held: { readonly name: string; readonly version: Uint8Array }): void;
  /** Sends a provider to the edges that have another version of it. */
  check(name: string): void;
  checkAll(): void;
  dropAll(stream: EdgeStream): void;
}

interface EdgeProvidersOptions {
  readonly providers: Pick<Providers, "lookUp">;
  readonly onPush: () => void;
}

export function createEdgeProviders({ providers, onPush }: EdgeProvidersOptions): EdgeProviders {
  const followers = new Followers();

  function ensure(stream: EdgeStream, provider: Provider): void {
    const { name } = provider;
    const value = providerMessage(provider);
    followers.add(name, stream);
    if (isSameVersion(stream.providers.get(name) ?? noVersion, value.version)) return;
    stream.providers.set(name, value.version);
    stream.outbox.put(`provider ${name}`, { case: "provider", value });
    onPush();
  }

  function sendGone(stream: EdgeStream, name: string): void {
    followers.delete(name, stream);
    stream.providers.delete(name);
    stream.outbox.put(`provider ${name}`, { case: "provider", value: create(EdgeProviderSchema, { name }) });
    onPush();
  }

  function check(name: string): void {
    const provider = providers.lookUp(name);
    for (const stream of [...followers.of(name)]) {
      if (provider === undefined) sendGone(stream, name);
      else ensure(stream, provider);
    }
  }

  return {
    ensure,
    resume(stream, { name, version }) {
      stream.providers.set(name, version);
      const provider = providers.lookUp(name);
      if (provider === undefined) sendGone(stream, name);
      else ensure(stream, provider);
    },
    check,
    checkAll() {
      for (const name of [...followers.subjects()]) check(name);
    },
    dropAll(stream) {
      for (const name of stream.providers.keys()) followers.delete(name, stream);
    },
  };
}
