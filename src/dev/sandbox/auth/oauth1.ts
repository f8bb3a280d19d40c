import type { BehaviourSettings } from "../behaviour.ts";
import { createBounded } from "../bounded.ts";
import type { Call } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import type { SandboxTraffic } from "../seen.ts";
import type { SandboxClient, SandboxClients } from "./clients.ts";
import type { Consent } from "./consent.ts";
import { createOAuth1Authorization, newTokenPair } from "./oauth1-authorization.ts";
import { problem, readSignedRequest } from "./oauth1-signature.ts";
import { createOAuth1Verifier, type TokenPair } from "./oauth1-verifier.ts";

/** OAuth 1.0a (RFC 5849): tokens, and the requests signed with them. */
export interface OAuth1 {
  readonly routes: readonly SandboxRoute[];
  /** Returns the user whose token signed a request. Throws the refusal otherwise. */
  authenticate(call: Call): Person;
  /** Issues a token without the three steps. */
  issue(client: SandboxClient, person: Person): OAuth1Token;
  revoke(which: (token: OAuth1Token) => boolean): number;
  reset(): void;
}

export interface OAuth1Token extends TokenPair {
  readonly clientId: string;
  readonly person: Person;
}

interface OAuth1Options {
  readonly now: () => number;
  readonly settings: () => BehaviourSettings;
  readonly clients: SandboxClients;
  readonly consent: Consent;
  readonly seen: SandboxTraffic;
}

export function createOAuth1({ now, settings, clients, consent, seen }: OAuth1Options): OAuth1 {
  const tokens = createBounded<OAuth1Token>(100_000);
  const verifier = createOAuth1Verifier({ now, settings, clients, seen });
  const authorization = createOAuth1Authorization({ now, settings, consent, verifier, issue });

  function issue(client: SandboxClient, person: Person): OAuth1Token {
    const issued = { ...newTokenPair("ot"), clientId: client.id, person };
    tokens.set(issued.token, issued);
    seen.count("tokensIssued");
    return issued;
  }

  return {
    routes: authorization.routes,
    issue,
    authenticate(call) {
      const signed = readSignedRequest(call);
      const client = verifier.clientOf(signed);
      const found = tokens.get(signed.parameters.get("oauth_token") ?? "");
      if (found === undefined || found.clientId !== client.id) throw problem(401, "token_rejected", "no such token");
      verifier.verify(signed, client, found);
      return found.person;
    },
    revoke(which) {
      const revoked = [...tokens.values()].filter(which);
      for (const { token } of revoked) tokens.delete(token);
      return revoked.length;
    },
    reset() {
      authorization.reset();
      tokens.clear();
      verifier.reset();
    },
  };
}
