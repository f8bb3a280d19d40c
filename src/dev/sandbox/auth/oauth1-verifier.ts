import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient, SandboxClients } from "./clients.ts";
import { problem, type SignedRequest } from "./oauth1-signature.ts";

/** Checks signed requests: consumer, signature, timestamp and nonce (RFC 5849, sections 3.2 and 3.3). */
export interface OAuth1Verifier {
  /** Throws 401 for an unknown consumer. */
  clientOf(request: SignedRequest): SandboxClient;
  /** Throws unless the client signed the request, recently and for the first time. */
  verify(request: SignedRequest, client: SandboxClient, token?: TokenPair): void;
  reset(): void;
}

export interface TokenPair {
  readonly token: string;
  readonly secret: string;
}

interface OAuth1VerifierOptions {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly clients: SandboxClients;
  readonly seen: SandboxTraffic;
}

export function createOAuth1Verifier({ now, settings, clients, seen }: OAuth1VerifierOptions): OAuth1Verifier {
  const usedNonces = createBounded<true>(100_000);

  return {
    clientOf({ parameters }) {
      const client = clients.get(parameters.get("oauth_consumer_key") ?? "");
      if (client === undefined) throw problem(401, "consumer_key_unknown", "no such consumer");
      return client;
    },
    verify(request, client, token) {
      const { parameters } = request;
      if ((parameters.get("oauth_version") ?? "1.0") !== "1.0") throw problem(400, "version_rejected", "must be 1.0");
      if (!request.isSignedWith({ consumerSecret: client.secret ?? "", tokenSecret: token?.secret ?? "" })) {
        seen.count("signaturesRefused");
        throw problem(401, "signature_invalid", "the signature does not match this request");
      }
      const [nonce, timestamp] = [parameters.get("oauth_nonce"), parameters.get("oauth_timestamp")];
      // PLAINTEXT requires neither.
      if (parameters.get("oauth_signature_method") === "PLAINTEXT" && nonce === undefined) return;
      if (nonce === undefined || !/^[1-9]\d{0,14}$/.test(timestamp ?? "")) {
        throw problem(400, "parameter_absent", "oauth_nonce and oauth_timestamp are required");
      }
      if (Math.abs(now() - Number(timestamp) * 1_000) > settings().timestampToleranceS * 1_000) {
        throw problem(401, "timestamp_refused", "the timestamp is too far off");
      }
      const key = [client.id, token?.token ?? "", timestamp, nonce].join("\0");
      if (usedNonces.get(key) === true) {
        seen.count("noncesReplayed");
        throw problem(401, "nonce_used", "this nonce has been used");
      }
      usedNonces.set(key, true);
    },
    reset: () => usedNonces.clear(),
  };
}
