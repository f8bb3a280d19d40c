import type { Mistake } from "../base/fault.ts";
import type { Provider, SignatureRules, TokenAnswer } from "../gen/latchkey/v1/provider_pb.ts";
import { stepsOf } from "./dotted-path.ts";
import { mistake } from "./mistake.ts";

/** Checks all paths in a description; an empty path means its default. */
export const checkDottedPaths = (provider: Provider): Mistake[] =>
  dottedPaths(provider).flatMap(([path, dotted]) =>
    dotted === "" || stepsOf(dotted) !== undefined ? [] : [mistake(path, "must be a dotted path without empty names")],
  );

/** Returns the paths into a provider's responses and notifications. */
function dottedPaths({
  auth,
  proxy,
  describe,
  choices,
  verification,
  notification,
  channel,
}: Provider): [string, string][] {
  const { items = "", next = "", lastItem = "", more = "" } = proxy?.pagination ?? {};
  const answer = auth.value !== undefined && "tokenAnswer" in auth.value ? auth.value.tokenAnswer : undefined;
  return [
    ...(answer === undefined ? [] : pathsOfAnswer(answer, "auth.token_answer")),
    ...furtherAnswers(auth).flatMap(([path, one]) => pathsOfAnswer(one, path)),
    ...proofPaths(auth),
    ["proxy.pagination.items", items],
    ["proxy.pagination.next", next],
    ["proxy.pagination.last_item", lastItem],
    ["proxy.pagination.more", more],
    ...Object.entries(notification?.values ?? {}).flatMap(([name, { body, json }]): [string, string][] => [
      [`notification.values.${name}.body`, body],
      [`notification.values.${name}.json`, json],
    ]),
    ...(notification?.signature === undefined ? [] : pathsOfSignature(notification.signature)),
    ["notification.challenge.body", notification?.challenge?.body ?? ""],
    ["notification.challenge.when", notification?.challenge?.when ?? ""],
    ["notification.challenge.confirm_url", notification?.challenge?.confirmUrl ?? ""],
    ...Object.entries(channel?.resources ?? {}).flatMap(([name, resource]): [string, string][] => [
      [`channel.resources.${name}.resource_id`, resource.resourceId],
      [`channel.resources.${name}.resource_uri`, resource.resourceUri],
      [`channel.resources.${name}.expiration`, resource.expiration],
      [`channel.resources.${name}.id`, resource.id],
      [`channel.resources.${name}.secret`, resource.secret],
      [`channel.resources.${name}.position`, resource.position],
      [`channel.resources.${name}.list_items`, resource.listItems],
      [`channel.resources.${name}.list_id`, resource.listId],
      [`channel.resources.${name}.list_address`, resource.listAddress],
      [`channel.resources.${name}.list_expiration`, resource.listExpiration],
    ]),
    ...describe.map(({ value }, i): [string, string] => [`describe.${i}.value`, value]),
    ...choices.flatMap(({ items, label, connectionConfig }, i): [string, string][] => [
      [`choices.${i}.items`, items],
      [`choices.${i}.label`, label],
      ...Object.entries(connectionConfig).map(([name, path]): [string, string] => [
        `choices.${i}.connection_config.${name}`,
        path,
      ]),
    ]),
    ["verification.accepted", verification?.accepted ?? ""],
  ];
}

function pathsOfSignature(signature: SignatureRules): [string, string][] {
  const { body, signaturePath, timestampPath, contentFields, signatureValue, keyRequest } = signature;
  const rules = {
    signature_value: signatureValue,
    "key_request.key_id": keyRequest?.keyId,
    "key_request.url_value": keyRequest?.urlValue,
  };
  return [
    ["notification.signature.body", body],
    ["notification.signature.signature_path", signaturePath],
    ["notification.signature.timestamp_path", timestampPath],
    ["notification.signature.identity_path", signature.identityPath],
    ["notification.signature.key_request.path", keyRequest?.path ?? ""],
    ...contentFields.map((path, i): [string, string] => [`notification.signature.content_fields.${i}`, path || "."]),
    ...Object.entries(rules).flatMap(([name, rule]): [string, string][] => [
      [`notification.signature.${name}.body`, rule?.body ?? ""],
      [`notification.signature.${name}.json`, rule?.json ?? ""],
    ]),
  ];
}

const pathsOfAnswer = (answer: TokenAnswer, path: string): [string, string][] => [
  [`${path}.access_token`, answer.accessToken],
  [`${path}.refresh_token`, answer.refreshToken],
  [`${path}.expires_in`, answer.expiresIn],
  [`${path}.expires_at`, answer.expiresAt],
  [`${path}.refresh_token_expires_in`, answer.refreshTokenExpiresIn],
  [`${path}.scope`, answer.scope],
  [`${path}.error`, answer.error],
  ...Object.entries(answer.connectionConfig).map(([name, place]): [string, string] => [
    `${path}.connection_config.${name}`,
    place,
  ]),
  ...Object.entries(answer.metadata).map(([name, place]): [string, string] => [`${path}.metadata.${name}`, place]),
];

/** Returns the answers of further exchanges and tokens. */
function furtherAnswers({ value: rules }: Provider["auth"]): [string, TokenAnswer][] {
  const exchanges = rules !== undefined && "exchanges" in rules ? rules.exchanges : [];
  const tokens = rules !== undefined && "furtherTokens" in rules ? Object.entries(rules.furtherTokens) : [];
  const all = [
    ...exchanges.map(({ tokenAnswer }, i) => [`auth.exchanges.${i}.token_answer`, tokenAnswer] as const),
    ...tokens.map(([name, { tokenAnswer }]) => [`auth.further_tokens.${name}.token_answer`, tokenAnswer] as const),
  ];
  return all.flatMap(([path, answer]): [string, TokenAnswer][] => (answer === undefined ? [] : [[path, answer]]));
}

function proofPaths({ value: rules }: Provider["auth"]): [string, string][] {
  const proof = rules !== undefined && "installationProof" in rules ? rules.installationProof : undefined;
  if (proof === undefined) return [];
  return [
    ["auth.installation_proof.items", proof.items],
    ["auth.installation_proof.value", proof.value],
    ...Object.entries(proof.connectionConfig).map(([name, place]): [string, string] => [
      `auth.installation_proof.connection_config.${name}`,
      place,
    ]),
    ...Object.entries(proof.metadata).map(([name, place]): [string, string] => [
      `auth.installation_proof.metadata.${name}`,
      place,
    ]),
  ];
}
