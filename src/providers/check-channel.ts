import type { Mistake } from "../base/fault.ts";
import type { ChannelRules, NotificationRules, Provider, WatchableResource } from "../gen/latchkey/v1/provider_pb.ts";
import { checkRequest } from "./check-request.ts";
import { mistake } from "./mistake.ts";

/** Checks how channels are created, kept and ended, and what is said about them. */
export function checkChannel({ channel, notification }: Provider): Mistake[] {
  const notices = (notification?.lifecycle ?? []).flatMap(({ value, is }, i) => [
    ...checkValueName(notification, value, `notification.lifecycle.${i}.value`),
    ...(is === "" ? [mistake(`notification.lifecycle.${i}.is`, "must be the text of the value")] : []),
  ]);
  if (channel === undefined) return notices;
  const { resources, stop, sequentialNumbers, owner, authorization } = channel;
  return [
    ...notices,
    ...Object.entries(resources).flatMap(([name, resource]) =>
      checkResource(resource, { path: `channel.resources.${name}`, notification }),
    ),
    ...(stop === undefined ? [] : checkRequest(stop, "channel.stop")),
    ...(sequentialNumbers && !isCountable(notification)
      ? [
          mistake(
            "channel.sequential_numbers",
            "needs a notification.message_id made only of the channel and the number",
          ),
        ]
      : []),
    ...(owner === "integration" && authorization === ""
      ? [mistake("channel.authorization", "must say who asks for the channels of an integration: client or none")]
      : []),
    ...checkConfirmation(channel, notification),
  ];
}

interface ResourceContext {
  readonly path: string;
  readonly notification: NotificationRules | undefined;
}

function checkResource(resource: WatchableResource, { path, notification }: ResourceContext): Mistake[] {
  const { watch, renew, stop, list, reauthorize, positionRequest } = resource;
  const further = { renew, stop, list, reauthorize, position_request: positionRequest };
  const hasOwnKey = notification?.signature?.keyOwner === "channel";
  return [
    ...checkRequest(watch, `${path}.watch`),
    ...Object.entries(further).flatMap(([name, request]) =>
      request === undefined ? [] : checkRequest(request, `${path}.${name}`),
    ),
    ...(list !== undefined && (resource.listId === "" || resource.listAddress === "")
      ? [mistake(`${path}.list`, "needs list_id and list_address")]
      : []),
    ...(positionRequest !== undefined && resource.position === ""
      ? [mistake(`${path}.position`, "must name the place of the position in the response")]
      : []),
    ...(resource.renewBatch > 0 && renew === undefined
      ? [mistake(`${path}.renew_batch`, "needs a request that renews channels")]
      : []),
    ...(resource.secret !== "" && !hasOwnKey
      ? [mistake(`${path}.secret`, "needs notification.signature.key_owner: channel")]
      : []),
    ...(resource.confirmedByChallenge && (notification?.challenge === undefined || notification.channel === "")
      ? [mistake(`${path}.confirmed_by_challenge`, "needs notification.challenge, and notification.channel")]
      : []),
  ];
}

function checkConfirmation({ confirmation }: ChannelRules, notification: NotificationRules | undefined): Mistake[] {
  if (confirmation === undefined) return [];
  const { mode, lifetime, resource } = confirmation;
  return Object.entries({ mode, lifetime, resource }).flatMap(([name, value]) =>
    value === "" ? [] : checkValueName(notification, value, `channel.confirmation.${name}`),
  );
}

const checkValueName = (notification: NotificationRules | undefined, name: string, path: string): Mistake[] =>
  Object.hasOwn(notification?.values ?? {}, name) ? [] : [mistake(path, "must be a name in notification.values")];

/** Reports whether the ID of any numbered message can be computed. */
function isCountable({ messageId = [], channel = "", number = "" }: Partial<NotificationRules> = {}): boolean {
  const isNamed = channel !== "" && number !== "" && channel !== number;
  return isNamed && messageId.length === 2 && messageId.includes(channel) && messageId.includes(number);
}
