import type { IncomingHttpHeaders } from "node:http";
import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { errorBody } from "../../base/http/error-body.ts";
import type { Broker } from "../../broker/broker.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { typeOf } from "../../core/dialect/credentials.ts";
import { returnTarget, withParameters } from "../../core/return-target.ts";
import type { ConnectSession } from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import {
  choosePage,
  formPage,
  framePage,
  type IntegrationChoice,
  obstacleOf,
  type Passage,
  titleOf,
  unavailablePage,
} from "../pages/connect-page.ts";
import { isTypedIn, paramName } from "../pages/form-fields.ts";
import { redirect, withCookie } from "../pages/layout.ts";
import { type PageSettings, settingsOf } from "../pages/page-settings.ts";
import { connectedPage, faultPage, notAllowedPage, returnPage } from "../pages/result-page.ts";
import { elsewhere } from "../server/own-host.ts";
import type { QueryReader } from "../server/query.ts";
import type { FaultedRequest, Route, RouteAnswer, RouteRequest } from "../server/routes.ts";
import { credentialsOf } from "./api-auth-routes.ts";
import type { ConnectChoices } from "./connect-choice.ts";
import { mendableForm, prefilledForm } from "./connect-form.ts";
import type { SessionBrowsers } from "./session-browser.ts";

interface HostedRoutesOptions {
  readonly broker: Broker;
  readonly choices: ConnectChoices;
  readonly browsers: SessionBrowsers;
  readonly publicUrl: () => string;
}

const path = "/connect/";

/** Keeps the referrer across a redirect, so that the framed page still learns which page frames it. */
const keepingReferrer = { "referrer-policy": "strict-origin-when-cross-origin" };

/** The page behind a `connect_link`: it needs no frontend, and no script. */
export function hostedRoutes({ broker, choices, browsers, publicUrl }: HostedRoutesOptions): Route[] {
  const { sessions, environments, origins, authorizations } = broker;
  const socketOrigin = () => new URL(publicUrl()).origin.replace(/^http/, "ws");

  async function passageOf(query: Pick<QueryReader, "text">, { environment }: ConnectSession, sessionToken: string) {
    const embedder = query.text("embedder") ?? "";
    if (embedder !== "" && !origins.isAllowed(embedder, environment)) {
      throw new Fault("origin_not_allowed", "that page is none of the environment's allowed origins");
    }
    const returnTo = query.text("return_to") ?? "";
    const { allowedOrigins } = await environments.get(environment);
    if (returnTo !== "" && returnTarget(returnTo, origins.forReturn(returnTo, allowedOrigins)) === undefined) {
      throw new Fault(
        "invalid_query_params",
        "return_to must be an address of one of the environment's allowed origins",
      );
    }
    const passage: Passage = { sessionToken, embedder, returnTo };
    return { passage, framedBy: embedder === "" ? [] : [embedder] };
  }

  async function show({ query, headers, rawQuery }: RouteRequest): Promise<RouteAnswer> {
    const onOtherName = elsewhere(publicUrl(), headers, `${path}?${rawQuery}`);
    if (onOtherName !== undefined) return redirect(onOtherName);
    const settings = settingsOf({ rawQuery, headers });
    const token = query.text("session_token");
    if (token === undefined) return framed(headers, settings);
    const stored = await sessions.withToken(token);
    const session = stored.value;
    const passage = await passageOf(query, session, token);
    const all = (await choices.of(session)).map((choice) => ({ choice, obstacle: obstacleOf(choice) }));
    const offered = all.filter(({ obstacle }) => obstacle === undefined);
    const key = query.text("integration");
    const [first, second] = offered.length === 0 ? all : offered;
    const single = second === undefined ? first : undefined;
    const chosen = key === undefined ? single : all.find(({ choice }) => isOf(key)(choice));
    const { secret, setCookie } = await browsers.show(stored, headers);
    const showing = { session, settings, owner: await choices.ownerOf(session), browser: secret, ...passage };
    if (chosen?.obstacle !== undefined) {
      return withCookie(unavailablePage(chosen.choice, showing, chosen.obstacle), setCookie);
    }
    if (chosen === undefined) {
      const obstacles = offered.length > 0 ? [] : all.flatMap(({ obstacle = [] }) => obstacle);
      const choosing = { obstacles, isMissing: key !== undefined };
      return withCookie(
        choosePage(
          offered.map(({ choice }) => choice),
          showing,
          choosing,
        ),
        setCookie,
      );
    }
    const { choice } = chosen;
    const values = byInput(query.map("params"));
    const state = { ...prefilledForm({ choice, showing, values }), ...formOf(choice) };
    return withCookie(formPage(choice, showing, state), setCookie);
  }

  const formOf = ({ integration: { key } }: IntegrationChoice) => ({
    socketOrigin: socketOrigin(),
    action: `../oauth/connect/${encodeURIComponent(key)}`,
    extra: {},
  });

  /** Returns the frame page. The frontend SDK sends the session later, from a page of an allowed origin. */
  function framed({ referer, "sec-fetch-dest": shownIn }: IncomingHttpHeaders, settings: PageSettings): RouteAnswer {
    const origin = referer !== undefined && URL.canParse(referer) ? new URL(referer).origin : "";
    if (origins.isKnown(origin)) return framePage(origin, settings);
    // The page's origin is not allowed yet. Only the developer of that page is told, in its frame.
    if (shownIn === "iframe") return notAllowedPage(origin, settings);
    throw new Fault("missing_auth_header", "this link is not complete");
  }

  async function take({ body, headers, rawQuery }: RouteRequest): Promise<RouteAnswer> {
    const settings = settingsOf({ rawQuery, headers });
    const fields = textOf(body);
    const token = fields.text("session_token") ?? "";
    const { session: stored, secret, setCookie } = await browsers.act(await sessions.withToken(token), headers);
    const session = stored.value;
    const owner = await choices.ownerOf(session);
    const showing = { session, settings, owner, browser: secret, ...(await passageOf(fields, session, token)) };
    const key = fields.text("integration") ?? "";
    const choice = (await choices.of(session)).find(isOf(key));
    if (choice === undefined) throw new Fault("unknown_provider_config", `there is no integration "${key}" here`);
    try {
      const credentials = credentialsOf({ ...typed(body), type: typedInType(choice.provider) });
      const params = filledIn(body);
      const { ref } = await authorizations.connect({ session: stored, integration: key, credentials, params });
      const connectionId = ref?.id ?? "";
      const { returnTo, embedder } = showing.passage;
      if (returnTo !== "") {
        const target = withParameters(returnTo, { provider_config_key: key, connection_id: connectionId });
        return returnPage(target, settings);
      }
      return connectedPage({
        settings,
        title: titleOf(choice, settings),
        integration: key,
        connectionId,
        missingScopes: [],
        framedBy: showing.framedBy,
        ...(embedder === "" ? {} : { to: embedder }),
      });
    } catch (error) {
      const values = Object.fromEntries(Object.entries(body).map(([name, value]) => [name, String(value)]));
      const fault = faultOfStore(error);
      if (fault.code === "internal") throw error;
      const mending = mendableForm(fault, { choice, showing, values });
      const shown =
        mending === undefined
          ? faultPageOf(fault, { headers, rawQuery })
          : formPage(choice, showing, { ...mending, ...formOf(choice) });
      return withCookie(shown, setCookie);
    }
  }

  /** Shows errors in the frame of a page of an allowed origin, too. */
  function faultPageOf(fault: Fault, { headers, rawQuery }: FaultedRequest): RouteAnswer {
    const embedder = new URLSearchParams(rawQuery).get("embedder") ?? "";
    // An origin of another environment is allowed as well, but must not frame pages of this one.
    const isLetIn = fault.code !== "origin_not_allowed" && origins.isKnown(embedder);
    const frame = isLetIn ? { to: embedder, framedBy: [embedder] } : {};
    return faultPage(fault, { settings: settingsOf({ rawQuery, headers }), ...frame });
  }

  /** Redirects a frame whose address lacks `/connect`. Programs still get "not found". */
  function atRoot({ rawQuery, headers, query }: RouteRequest): RouteAnswer {
    const isForFrame = headers["sec-fetch-dest"] === "iframe" || query.text("apiURL") !== undefined;
    if (isForFrame) return redirect(`connect/?${rawQuery}`, keepingReferrer);
    throw new Fault("not_found", "there is nothing here");
  }

  return [
    { method: "GET", path, scope: undefined, isPublic: true, browser: "page", faultPage: faultPageOf, answer: show },
    {
      method: "GET",
      path: "/",
      scope: undefined,
      isPublic: true,
      browser: "page",
      faultPage: (fault, request) => (isForPerson(request) ? faultPageOf(fault, request) : faultEnvelope(fault)),
      answer: atRoot,
    },
    {
      method: "GET",
      path: "/connect",
      scope: undefined,
      isPublic: true,
      browser: "page",
      faultPage: faultPageOf,
      answer: ({ rawQuery }) => redirect(`connect/?${rawQuery}`, keepingReferrer),
    },
    {
      method: "POST",
      path,
      scope: undefined,
      isPublic: true,
      browser: "page",
      takesBody: "form",
      faultPage: faultPageOf,
      answer: take,
    },
  ];
}

/** The SDK's name of the credentials that a person typed in; empty if this kind cannot be typed in. */
const typedInType = ({ auth }: Provider): string =>
  auth.case !== undefined && isTypedIn(auth.case) ? typeOf(auth.case) : "";

const isOf =
  (key: string) =>
  ({ integration }: IntegrationChoice): boolean =>
    integration.key === key;

const textOf = (body: JsonObject): Pick<QueryReader, "text"> => ({
  text(name) {
    const value = body[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  },
});

/** Returns the connection's values, `params[name]`, by name. */
const filledIn = (body: JsonObject): Record<string, string> =>
  Object.fromEntries(
    Object.entries(body).flatMap(([field, value]) => {
      const [, name] = /^params\[(.+)\]$/s.exec(field) ?? [];
      return name === undefined ? [] : [[name, String(value)]];
    }),
  );

/** Returns the form fields that belong to the provider. */
const typed = ({
  session_token: _token,
  integration: _integration,
  embedder: _e,
  return_to: _r,
  ...rest
}: JsonObject) => Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith("params[")));

/** Converts the `params` of a query to values by input name. */
const byInput = (params: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [paramName(name), value]));

const isForPerson = ({ headers }: FaultedRequest): boolean => /text\/html/i.test(headers.accept ?? "");

const faultEnvelope = (fault: Fault): RouteAnswer => ({
  status: fault.status,
  body: errorBody(fault),
  headers: { "content-type": "application/json; charset=utf-8" },
});
