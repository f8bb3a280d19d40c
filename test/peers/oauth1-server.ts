import { randomBytes } from "node:crypto";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { createRequire } from "node:module";

/** The used parts of `oauthorize` and `passport-http-oauth`, which have no types. */
type Next = (error?: unknown) => void;
type Middleware = (request: Asked, response: Answering, next: Next) => void;
type Done = (error: unknown, ...results: readonly unknown[]) => void;

interface Toolkit {
  requestToken(issue: (consumer: Consumer, callback: string, done: Done) => void): Middleware;
  userAuthorization(validate: (token: string, done: Done) => void): Middleware;
  userDecision(options: object, issue: (token: string, user: string, done: Done) => void): readonly Middleware[];
  accessToken(
    verify: (token: string, verifier: string, done: Done) => void,
    issue: (consumer: Consumer, token: string, done: Done) => void,
  ): Middleware;
  serializeClient(serialize: (consumer: Consumer, done: Done) => void): void;
  deserializeClient(deserialize: (key: string, done: Done) => void): void;
  errorHandler(options: {
    readonly mode: "direct" | "indirect";
  }): (error: unknown, ...rest: Parameters<Middleware>) => void;
}

/** A strategy of `passport`: it reports its outcome by the method that it calls. */
interface Strategy {
  authenticate(request: Asked): void;
  success?: (user: unknown, info: unknown) => void;
  fail?: (challenge: unknown, status?: number) => void;
  error?: (error: unknown) => void;
}

interface Strategies {
  readonly ConsumerStrategy: new (
    consumer: (key: string, done: Done) => void,
    token: (token: string, done: Done) => void,
    validate: (timestamp: string, nonce: string, done: Done) => void,
  ) => Strategy;
  readonly TokenStrategy: new (
    consumer: (key: string, done: Done) => void,
    verify: (token: string, done: Done) => void,
    validate: (timestamp: string, nonce: string, done: Done) => void,
  ) => Strategy;
}

interface Asked extends IncomingMessage {
  query: Record<string, string>;
  body: Record<string, string>;
  session: Record<string, unknown>;
  user: unknown;
  authInfo: unknown;
  oauth: { readonly transactionID: string };
}

interface Answering extends ServerResponse {
  redirect(location: string): void;
}

interface Consumer {
  readonly key: string;
  readonly secret: string;
}

interface Issued {
  readonly secret: string;
  readonly callback: string;
  verifier?: string;
  user?: string;
}

const load = createRequire(import.meta.url);
const { createServer } = load("oauthorize") as { createServer(): Toolkit };
const { ConsumerStrategy, TokenStrategy } = load("passport-http-oauth") as Strategies;

/** Signed too long ago, or in the future. */
const toleranceS = 300;

/**
 * An independent OAuth 1.0a service: `passport-http-oauth` checks signatures, `oauthorize` issues tokens. This file
 * adds what both leave to an application: token storage, and a page.
 */
export function oauth1Service(consumer: Consumer): { readonly listener: RequestListener; readonly seen: string[] } {
  const kit = createServer();
  const temporary = new Map<string, Issued>();
  const access = new Map<string, Issued>();
  const nonces = new Set<string>();
  // A test has one browser at a time.
  const session = {};
  const seen: string[] = [];
  const unguessable = () => randomBytes(12).toString("base64");

  const consumerOf = (key: string, done: Done) =>
    key === consumer.key ? done(null, consumer, consumer.secret) : done(null, false);
  const validate = (timestamp: string, nonce: string, done: Done) => {
    const isNew = !nonces.has(nonce) && Math.abs(Number(timestamp) - Date.now() / 1_000) < toleranceS;
    nonces.add(nonce);
    done(null, isNew);
  };
  const asConsumer = () =>
    new ConsumerStrategy(consumerOf, (token, done) => done(null, temporary.get(token)?.secret), validate);
  const asUser = () =>
    new TokenStrategy(
      consumerOf,
      (token, done) => done(null, access.get(token)?.user ?? false, access.get(token)?.secret),
      validate,
    );

  kit.serializeClient(({ key }, done) => done(null, key));
  kit.deserializeClient((key, done) => done(null, key === consumer.key ? consumer : false));

  const by =
    (strategy: () => Strategy): Middleware =>
    (request, response, next) => {
      const one = strategy();
      one.success = (user, info) => {
        Object.assign(request, { user, authInfo: info });
        next();
      };
      one.fail = (challenge, status) => {
        response.statusCode = status ?? 401;
        if (typeof challenge === "string") response.setHeader("www-authenticate", challenge);
        response.end("refused");
      };
      one.error = next;
      one.authenticate(request);
    };

  const signedIn: Middleware = (request, _, next) => {
    request.user = "ada";
    next();
  };
  const routes: Readonly<Record<string, readonly Middleware[]>> = {
    "POST /request_token": [
      by(asConsumer),
      kit.requestToken((_, callback, done) => {
        const [token, secret] = [unguessable(), unguessable()];
        temporary.set(token, { secret, callback });
        done(null, token, secret);
      }),
    ],
    "GET /authorize": [
      kit.userAuthorization((token, done) => {
        const found = temporary.get(token);
        done(null, found === undefined ? false : consumer, found?.callback);
      }),
      ({ oauth }, response) => {
        response.setHeader("content-type", "text/html");
        response.end(
          `<form action="/decision" method="post"><input name="transaction_id" value="${oauth.transactionID}">`,
        );
      },
    ],
    "POST /decision": [
      signedIn,
      ...kit.userDecision({}, (token, user, done) => {
        const found = temporary.get(token);
        const verifier = unguessable();
        if (found !== undefined) Object.assign(found, { verifier, user });
        done(null, verifier);
      }),
    ],
    "POST /access_token": [
      by(asConsumer),
      kit.accessToken(
        (token, verifier, done) => done(null, verifier !== undefined && temporary.get(token)?.verifier === verifier),
        (_, token, done) => {
          const found = temporary.get(token);
          temporary.delete(token);
          const [made, secret] = [unguessable(), unguessable()];
          if (found !== undefined) access.set(made, { ...found, secret });
          done(null, made, secret);
        },
      ),
    ],
    "/api": [
      by(asUser),
      ({ method, user, query, body }, response) => {
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ method, user, query, body }));
      },
    ],
  };

  const listener: RequestListener = (plain, response) => {
    const { pathname, searchParams } = new URL(plain.url ?? "/", "http://here");
    const at = `${plain.method} ${pathname}`;
    seen.push(at);
    const steps = routes[at] ?? routes[pathname] ?? [];
    let text = "";
    plain.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    plain.on("end", () => {
      const isForm = plain.headers["content-type"]?.startsWith("application/x-www-form-urlencoded") === true;
      const body = isForm ? Object.fromEntries(new URLSearchParams(text)) : {};
      const request = Object.assign(plain, {
        query: Object.fromEntries(searchParams),
        body,
        session,
      }) as unknown as Asked;
      const answer = Object.assign(response, {
        redirect(location: string) {
          response.writeHead(302, { location }).end();
        },
      });
      const handle = kit.errorHandler({ mode: at === "POST /decision" ? "indirect" : "direct" });
      const step = (i: number) => (error?: unknown) => {
        if (error !== undefined && error !== null) {
          handle(error, request, answer, () => response.writeHead(500).end());
          return;
        }
        const next = steps[i];
        if (next === undefined) response.writeHead(404).end();
        else next(request, answer, step(i + 1));
      };
      step(0)();
    });
  };
  return { listener, seen };
}
