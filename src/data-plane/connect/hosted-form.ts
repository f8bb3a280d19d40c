import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { typeOf } from "../../core/dialect/credentials.ts";
import { withParameters } from "../../core/return-target.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { type ConnectPageOptions, formPage, type IntegrationChoice, titleOf } from "../pages/connect-page.ts";
import { isTypedIn } from "../pages/form-fields.ts";
import { withCookie } from "../pages/layout.ts";
import { branded, settingsOf } from "../pages/page-settings.ts";
import { connectedPage, returnPage } from "../pages/result-page.ts";
import type { QueryReader } from "../server/query.ts";
import type { RouteAnswer, RouteRequest } from "../server/routes.ts";
import { credentialsOf } from "./api-auth-routes.ts";
import { mendableForm } from "./connect-form.ts";
import type { ConnectServices } from "./connect-route.ts";
import { hostedFaultPage } from "./hosted-fault-page.ts";
import { formTarget } from "./hosted-page.ts";
import { readPassage } from "./passage.ts";

/** Connects with the credentials that a person has typed into our form. */
export async function submitHostedForm(
  services: ConnectServices,
  { body, headers, rawQuery }: RouteRequest,
): Promise<RouteAnswer> {
  const { broker, choices, browsers } = services;
  const fields = textsOf(body);
  const token = fields.text("session_token") ?? "";
  const stored = await broker.sessions.withToken(token);
  const { session, secret, setCookie } = await browsers.act(stored, headers);
  const passage = await readPassage(broker, fields, session.value, token);
  const owner = await choices.ownerOf(session.value);
  const settings = branded(settingsOf({ rawQuery, headers }), broker.origins.settingsOf(session.value.environment));
  const showing = { session: session.value, settings, owner, browser: secret, passage };
  const key = fields.text("integration") ?? "";
  const choice = (await choices.of(session.value)).find(({ integration }) => integration.key === key);
  if (choice === undefined)
    throw new Fault("unknown_provider_config", `this connect session has no integration "${key}"`);
  try {
    const credentials = credentialsOf({
      ...credentialFields(body),
      type: typedInType(choice.provider),
    });
    const params = connectionValues(body);
    const { ref } = await broker.authorizations.connect({ session, integration: key, credentials, params });
    return resultPage(choice, showing, ref?.id ?? "");
  } catch (error) {
    const fault = faultOfStore(error);
    if (fault.code === "internal") throw error;
    const values = Object.fromEntries(Object.entries(body).map(([name, value]) => [name, String(value)]));
    const mending = mendableForm(fault, { choice, showing, values });
    const shown =
      mending === undefined
        ? hostedFaultPage(services, fault, { headers, rawQuery })
        : formPage(choice, showing, { ...mending, ...formTarget(services, choice) });
    return withCookie(shown, setCookie);
  }
}

function resultPage(choice: IntegrationChoice, showing: ConnectPageOptions, connectionId: string): RouteAnswer {
  const { settings, passage } = showing;
  const { key } = choice.integration;
  if (passage.returnTo !== "") {
    const parameters = { provider_config_key: key, connection_id: connectionId };
    return returnPage(withParameters(passage.returnTo, parameters), settings);
  }
  return connectedPage({
    settings,
    title: titleOf(choice, settings),
    integration: key,
    connectionId,
    missingScopes: [],
    account: "",
    embedder: passage.embedder,
  });
}

/** Returns the SDK's name of the credentials that a person typed in; empty if this kind cannot be typed in. */
const typedInType = ({ auth }: Provider): string =>
  auth.case !== undefined && isTypedIn(auth.case) ? typeOf(auth.case) : "";

const textsOf = (body: JsonObject): Pick<QueryReader, "text"> => ({
  text(name) {
    const value = body[name];
    return typeof value === "string" && value !== "" ? value : undefined;
  },
});

/** Returns the connection's values, `params[name]`, by name. */
const connectionValues = (body: JsonObject): Record<string, string> =>
  Object.fromEntries(
    Object.entries(body).flatMap(([field, value]) => {
      const [, name] = /^params\[(.+)\]$/s.exec(field) ?? [];
      return name === undefined ? [] : [[name, String(value)]];
    }),
  );

/** Returns the form fields of the credentials. */
const credentialFields = ({
  session_token: _token,
  integration: _integration,
  embedder: _e,
  return_to: _r,
  ...rest
}: JsonObject) => Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith("params[")));
