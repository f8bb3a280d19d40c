import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault, type FaultCode } from "../base/fault.ts";
import type { Broker } from "../broker/broker.ts";
import { returnTarget, withParameters } from "../core/return-target.ts";
import type { ConnectSession } from "../gen/latchkey/v1/connect_session_pb.ts";
import { credentialsOf } from "./api-auth-routes.ts";
import type { ConnectChoices } from "./connect-choice.ts";
import { elsewhere } from "./own-host.ts";
import { type Choice, choosePage, formPage, framePage, type Passage, titleOf } from "./pages/connect-page.ts";
import { redirect, withCookie } from "./pages/layout.ts";
import { connectedPage, faultPage, returnPage } from "./pages/result-page.ts";
import type { Query } from "./query.ts";
import type { Answer, Route, RouteRequest } from "./routes.ts";
import type { SessionBrowsers } from "./session-browser.ts";

interface HostedRoutesOptions {
  readonly broker: Broker;
  readonly choices: ConnectChoices;
  readonly browsers: SessionBrowsers;
  readonly publicUrl: () => string;
}

const path = "/connect/";

/** What a person mends by filling in something else. */
const mendable: ReadonlySet<FaultCode> = new Set(["connection_test_failed", "invalid_query_params", "invalid_body"]);

/** The page behind a `connect_link`: it needs no frontend, and no script. */
export function hostedRoutes({ broker, choices, browsers, publicUrl }: HostedRoutesOptions): Route[] {
  const { sessions, environments, origins, authorizations } = broker;
  const socketOrigin = () => new URL(publicUrl()).origin.replace(/^http/, "ws");

  async function passageOf(query: Pick<Query, "text">, { environment }: ConnectSession, sessionToken: string) {
    const embedder = query.text("embedder") ?? "";
    if (embedder !== "" && !origins.isAllowed(embedder, environment)) {
      throw new Fault("origin_not_allowed", "that page is none of the environment's allowed origins");
    }
    const returnTo = query.text("return_to") ?? "";
    const { allowedOrigins } = await environments.get(environment);
    if (returnTo !== "" && returnTarget(returnTo, allowedOrigins) === undefined) {
      throw new Fault(
        "invalid_query_params",
        "return_to must be an address of one of the environment's allowed origins",
      );
    }
    const passage: Passage = { sessionToken, embedder, returnTo };
    return { passage, framedBy: embedder === "" ? [] : [embedder] };
  }

  async function show({ query, headers, rawQuery }: RouteRequest): Promise<Answer> {
    const onOtherName = elsewhere(publicUrl(), headers, `${path}?${rawQuery}`);
    if (onOtherName !== undefined) return redirect(onOtherName);
    const token = query.text("session_token");
    if (token === undefined) return framed(headers);
    const stored = await sessions.withToken(token);
    const session = stored.value;
    const passage = await passageOf(query, session, token);
    const all = await choices.of(session);
    const key = query.text("integration");
    const [first, second] = all;
    const chosen = key === undefined ? (second === undefined ? first : undefined) : all.find(isOf(key));
    if (chosen === undefined && key !== undefined) {
      throw new Fault("unknown_provider_config", `there is no integration "${key}" here`);
    }
    const { secret, setCookie } = await browsers.show(stored, headers);
    const showing = { session, owner: await choices.ownerOf(session), browser: secret, ...passage };
    const shown =
      chosen === undefined ? choosePage(all, showing) : formPage(chosen, showing, { socketOrigin: socketOrigin() });
    return withCookie(shown, setCookie);
  }

  /** The frontend SDK brings the session along later, from a page that is on a list. */
  function framed({ referer, "sec-fetch-dest": shownIn }: IncomingHttpHeaders): Answer {
    const origin = referer !== undefined && URL.canParse(referer) ? new URL(referer).origin : "";
    if (origins.isKnown(origin)) return framePage(origin);
    // What a developer comes upon who has not put the page on a list yet.
    if (shownIn === "iframe") throw new Fault("origin_not_allowed", "that page is none of the allowed origins");
    throw new Fault("missing_auth_header", "this link is not complete");
  }

  async function take({ body, headers }: RouteRequest): Promise<Answer> {
    const fields = textOf(body);
    const token = fields.text("session_token") ?? "";
    const { session: stored, secret, setCookie } = await browsers.act(await sessions.withToken(token), headers);
    const session = stored.value;
    const owner = await choices.ownerOf(session);
    const showing = { session, owner, browser: secret, ...(await passageOf(fields, session, token)) };
    const key = fields.text("integration") ?? "";
    const choice = (await choices.of(session)).find(isOf(key));
    if (choice === undefined) throw new Fault("unknown_provider_config", `there is no integration "${key}" here`);
    const filled = filledIn(body);
    try {
      const credentials = credentialsOf({ ...typed(body), type: types[choice.provider.auth.case ?? ""] ?? "" });
      const { ref } = await authorizations.connect({ session: stored, integration: key, credentials, params: filled });
      const connectionId = ref?.id ?? "";
      const { returnTo, embedder } = showing.passage;
      if (returnTo !== "") {
        return returnPage(withParameters(returnTo, { provider_config_key: key, connection_id: connectionId }));
      }
      return connectedPage({
        title: titleOf(choice),
        integration: key,
        connectionId,
        missingScopes: [],
        framedBy: showing.framedBy,
        ...(embedder === "" ? {} : { to: embedder }),
      });
    } catch (error) {
      if (!(error instanceof Fault) || !mendable.has(error.code)) throw error;
      const { status, message } = error;
      const state = { error: sentence(error, message), status, filled, socketOrigin: socketOrigin() };
      return withCookie(formPage(choice, showing, state), setCookie);
    }
  }

  return [
    { method: "GET", path, scope: undefined, isPublic: true, browser: "page", faultPage, answer: show },
    {
      method: "GET",
      path: "/connect",
      scope: undefined,
      isPublic: true,
      browser: "page",
      faultPage,
      answer: ({ rawQuery }) => redirect(`connect/?${rawQuery}`),
    },
    {
      method: "POST",
      path,
      scope: undefined,
      isPublic: true,
      browser: "page",
      takesBody: "form",
      faultPage,
      answer: take,
    },
  ];
}

/** The dialect's names of what a person can type in. */
const types: Readonly<Record<string, string>> = {
  apiKey: "API_KEY",
  basic: "BASIC",
  oauth2Client: "OAUTH2_CC",
  none: "NONE",
};

const isOf =
  (key: string) =>
  ({ integration }: Choice): boolean =>
    integration.key === key;

const textOf = (body: JsonObject): Pick<Query, "text"> => ({
  text(name) {
    const value = body[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  },
});

/** The details of the connection, `params[name]`, by name. */
const filledIn = (body: JsonObject): Record<string, string> =>
  Object.fromEntries(
    Object.entries(body).flatMap(([field, value]) => {
      const [, name] = /^params\[(.+)\]$/s.exec(field) ?? [];
      return name === undefined ? [] : [[name, String(value)]];
    }),
  );

/** The fields of the form that are no one's but the provider's. */
const typed = ({
  session_token: _token,
  integration: _integration,
  embedder: _e,
  return_to: _r,
  ...rest
}: JsonObject) => Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith("params[")));

const sentence = ({ mistakes }: Fault, message: string): string => {
  const [first] = mistakes;
  const text = first === undefined ? message : `${first.path.at(-1) ?? ""} ${first.message}.`;
  return text.charAt(0).toUpperCase() + text.slice(1);
};
