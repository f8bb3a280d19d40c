import type { Mistake } from "../base/fault.ts";
import type { Provider, TokenAnswer } from "../gen/latchkey/v1/provider_pb.ts";
import { stepsOf } from "./dotted-path.ts";
import { mistake } from "./mistake.ts";

/** Checks all paths in a description; an empty path means its default. */
export const checkDottedPaths = (provider: Provider): Mistake[] =>
  dottedPaths(provider).flatMap(([path, dotted]) =>
    dotted === "" || stepsOf(dotted) !== undefined ? [] : [mistake(path, "must be a dotted path without empty names")],
  );

/** Returns the paths into a provider's responses and notifications. */
function dottedPaths({ auth, proxy, describe, verification, notification, channel }: Provider): [string, string][] {
  const { items = "", next = "", lastItem = "", more = "" } = proxy?.pagination ?? {};
  const answer = auth.value !== undefined && "tokenAnswer" in auth.value ? auth.value.tokenAnswer : undefined;
  return [
    ...(answer === undefined ? [] : pathsOfAnswer(answer)),
    ["proxy.pagination.items", items],
    ["proxy.pagination.next", next],
    ["proxy.pagination.last_item", lastItem],
    ["proxy.pagination.more", more],
    ...Object.entries(notification?.values ?? {}).flatMap(([name, { body, json }]): [string, string][] => [
      [`notification.values.${name}.body`, body],
      [`notification.values.${name}.json`, json],
    ]),
    ["notification.signature.body", notification?.signature?.body ?? ""],
    ["notification.challenge.body", notification?.challenge?.body ?? ""],
    ["notification.challenge.when", notification?.challenge?.when ?? ""],
    ...Object.entries(channel?.resources ?? {}).flatMap(([name, resource]): [string, string][] => [
      [`channel.resources.${name}.resource_id`, resource.resourceId],
      [`channel.resources.${name}.resource_uri`, resource.resourceUri],
      [`channel.resources.${name}.expiration`, resource.expiration],
    ]),
    ...describe.map(({ value }, i): [string, string] => [`describe.${i}.value`, value]),
    ["verification.accepted", verification?.accepted ?? ""],
  ];
}

const pathsOfAnswer = (answer: TokenAnswer): [string, string][] => [
  ["auth.token_answer.access_token", answer.accessToken],
  ["auth.token_answer.refresh_token", answer.refreshToken],
  ["auth.token_answer.expires_in", answer.expiresIn],
  ["auth.token_answer.expires_at", answer.expiresAt],
  ["auth.token_answer.refresh_token_expires_in", answer.refreshTokenExpiresIn],
  ["auth.token_answer.scope", answer.scope],
  ["auth.token_answer.error", answer.error],
  ...Object.entries(answer.connectionConfig).map(([name, path]): [string, string] => [
    `auth.token_answer.connection_config.${name}`,
    path,
  ]),
  ...Object.entries(answer.metadata).map(([name, path]): [string, string] => [
    `auth.token_answer.metadata.${name}`,
    path,
  ]),
];
